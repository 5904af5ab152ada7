"""A run as one HTML file that opens without a network: tables, figures, and a viewer for every trial.

    sections = [PageSection("overview", "Overview", "What each arm reached.", (sheet,), (figure,))]
    write_page(Path("run.html"), "First run", sections, store.units(), notes=[RULE_BASED_NOTE])

document.py puts the file together, record_payload.py packs a record, lineage.py says what was learned where and read
where, svg_sanitizer.py makes SVG fit for a page that allows no inline style. What a reader sees and touches stands in
assets/.
"""

from rsso_dspy.report.page.document import PageFigure, PageSection, PromptChange, check_page_target, write_page
from rsso_dspy.report.page.record_payload import PageCalls

__all__ = ["PageCalls", "PageFigure", "PageSection", "PromptChange", "check_page_target", "write_page"]
