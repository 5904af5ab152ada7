"""Figures of a run, drawn by matplotlib without a window: the same bytes for the same records.

    for picture in draw_report_figures(group_by_arm(store.units())):
        save_figure(picture.figure, folder / f"{picture.name}.svg")
        page += render_figure_svg(picture.figure, picture.name, themed=True)

One file per kind of figure: `trial_curves`, `survival`, `paired_differences`, `factorial_2x2`, `cost_vs_score`,
`efficiency`, `memory_counts`, `candidates`. `style` and `canvas` define their look. `draw_report_figures` draws
those that a run has data for.
"""

from rsso_dspy.report.figures.candidates import ScoredCandidate, draw_candidates_figure
from rsso_dspy.report.figures.canvas import FigureSize, use_figure_size
from rsso_dspy.report.figures.figure_files import FORMATS, PICTURE, render_figure_svg, save_figure
from rsso_dspy.report.figures.report_figures import ReportFigure, draw_report_figures

__all__ = [
    "FORMATS",
    "PICTURE",
    "FigureSize",
    "ReportFigure",
    "ScoredCandidate",
    "draw_candidates_figure",
    "draw_report_figures",
    "render_figure_svg",
    "save_figure",
    "use_figure_size",
]
