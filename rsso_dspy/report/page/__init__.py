"""A run as one HTML file that opens without a network: tables, figures, and a viewer for every trial.

    sections = [Section("overview", "Overview", "What each arm reached.", (sheet,), (Drawing("Means", alt, svg),))]
    write_page(Path("run.html"), "First run", sections, store.units(), notes=[RULE_BASED_NOTE])

document.py puts the file together, chunks.py packs a record, lineage.py says what was learnt where and read where,
drawing.py makes SVG fit for a page that allows no inline style. What a reader sees and touches stands in assets/.
"""

from rsso_dspy.report.page.document import PageFigure, PageSection, check_page_target, write_page

__all__ = ["PageFigure", "PageSection", "check_page_target", "write_page"]
