"""The views of a run's page, in order, each with its tables and figures.

write_page(path, title, build_page_sections(found, drawn), records)
"""

import re
from collections.abc import Mapping, Sequence

from rsso_dspy.records import REFUSED
from rsso_dspy.report import cells
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.cost_report import describe_unreported_costs
from rsso_dspy.report.page import PageFigure, PageSection, PromptChange
from rsso_dspy.report.report_files import describe_facts
from rsso_dspy.report.table_data import Sheet
from rsso_dspy.report.tables import build_tables

OVERVIEW = (
    "Scores of each arm. Mean is the best accumulator of a variant's trials, averaged over variants. Compare it with "
    "trial-1 and the mean over trials, because the best of several trials hides luck."
)
COMPARISON = (
    "Paired differences on the same variants. If an interval includes 0, this run cannot tell the two arms apart. "
    "The minimum detectable difference is the smallest one that a run of this size would find in four of five cases."
)
TASKS = "Means by task type. Click a task's name to see its trials."
COST = "Model calls, tokens and cost, and the contents of the memories."
PROGRAMS = (
    "What the compiled programs that played here say: words that compiling added are underlined, words that it removed "
    "are struck out. The pictures show what each compile tried, by its scores on the val variants."
)

_VIEWS = (
    (
        "overview",
        "Overview",
        OVERVIEW,
        ("methods", "learning", "solved", "success", "reflections", "failures", "trainings"),
        ("best-of-t", "survival"),
    ),
    (
        "comparison",
        "Comparison",
        COMPARISON,
        ("differences", "tests", "square", "strata"),
        ("differences", "interaction", "slopes"),
    ),
    ("tasks", "Task types", TASKS, ("tasks", "solved_by_task"), ("best-of-t-by-task",)),
    ("cost", "Cost and memories", COST, ("tokens", "bill"), ("cost", "memories")),
)
"""Name, title, lead, tables and figures of each view."""


def build_page_sections(
    found: Analysis,
    drawn: Mapping[str, PageFigure],
    candidates: Sequence[PageFigure] = (),
    with_paper: bool = False,
    changes: Sequence[PromptChange] = (),
) -> list[PageSection]:
    """Build the views that have content. `drawn` holds figures by name, `candidates` those of compiled programs,
    `changes` what the programs say beside the zero-shot one."""
    sheets = build_tables(found, with_paper)
    sections = []
    for name, title, lead, wanted, pictures in _VIEWS:
        shown = [sheet for each in wanted for sheet in sheets if sheet.name.partition("-")[0] == each]
        if name == "overview" and found.errored:
            shown.insert(0, build_errored_table(found))
        if name == "cost":
            lead = " ".join([lead, *describe_unreported_costs(found.bill)])
        drawings = [drawn[each] for each in drawn if re.sub(r"-\d+$", "", each) in pictures]
        sections.append(PageSection(name, title, lead, tuple(shown), tuple(drawings)))
    sections.append(PageSection("programs", "Compiled programs", PROGRAMS, (), tuple(candidates), tuple(changes)))
    kept = [each for each in sections if each.sheets or each.drawings or each.changes]
    return kept or [PageSection("overview", "Overview", "No unit is finished yet.")]


def build_errored_table(found: Analysis) -> Sheet:
    """Build the table of units that errored, with their errors."""
    rows = tuple(
        (
            cells.format_text(each.arm, "bad"),
            cells.format_text(each.unit),
            cells.format_count(each.seed),
            cells.format_text(each.error),
        )
        for each in found.errored
    )
    notes = ["Errored units have no score; means and pairs leave them out. Repeat the command to play them again."]
    if any(each.is_skipped for each in found.errored):
        notes.append(
            f"{REFUSED} marks units that were skipped: the environment refuses their variants, as it would again."
        )
    return Sheet("errored", "Errored", ("arm", "unit", "seed", "error"), rows, tuple(notes))


def format_run_facts(found: Analysis) -> list[tuple[str, str]]:
    """Return what the results depend on, as (label, value) pairs."""
    return [(name, ", ".join(values)) for name, values in describe_facts(found).items()]
