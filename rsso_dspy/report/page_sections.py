"""What stands in a run's page, in which order: its views, each with tables and pictures.

write_page(path, title, build_page_sections(found, drawn), records)
"""

import re
from collections.abc import Mapping, Sequence

from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.cost_report import describe_unreported_costs
from rsso_dspy.report.page import PageFigure, PageSection
from rsso_dspy.report.table_data import Sheet, make_count_cell, make_text_cell
from rsso_dspy.report.tables import build_tables

OVERVIEW = (
    "What each arm reached. Mean is the best accumulator of a variant's trials, averaged over variants; trial-1 and "
    "the mean over trials stand beside it, because the best of several hides luck."
)
COMPARISON = (
    "The same variants, pair by pair. An interval that holds 0 says that this run cannot tell the two apart; 'detects' "
    "is the difference that such a run would find in four of five cases."
)
TASKS = "Means by task type. A task's name leads to its trials."
COST = "What was asked, what it cost, and what the memories held and showed."
PROGRAMS = "What compiling tried, in the order of trying, by its scores on the val variants."

_VIEWS = (
    (
        "overview",
        "Overview",
        OVERVIEW,
        ("methods", "learning", "solved", "reflections", "trainings"),
        ("best-of-t", "survival"),
    ),
    (
        "comparison",
        "Comparison",
        COMPARISON,
        ("differences", "tests", "square", "strata"),
        ("differences", "interaction", "slopes"),
    ),
    ("tasks", "Task types", TASKS, ("tasks",), ("best-of-t-by-task",)),
    ("cost", "Cost and memories", COST, ("tokens", "bill"), ("cost", "memories")),
)
"""Name, title, lead, tables and pictures of each view."""


def build_page_sections(
    found: Analysis,
    drawn: Mapping[str, PageFigure],
    candidates: Sequence[PageFigure] = (),
    with_paper: bool = False,
) -> list[PageSection]:
    """The views that have something to show. `drawn` are pictures by name, `candidates` those of compiled programs."""
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
    sections.append(PageSection("programs", "Compiled programs", PROGRAMS, (), tuple(candidates)))
    kept = [each for each in sections if each.sheets or each.drawings]
    return kept or [PageSection("overview", "Overview", "No unit is finished yet.")]


def build_errored_table(found: Analysis) -> Sheet:
    """Units without a score, and why."""
    rows = tuple(
        (
            make_text_cell(each.arm, "bad"),
            make_text_cell(each.unit),
            make_count_cell(each.seed),
            make_text_cell(each.error),
        )
        for each in found.errored
    )
    notes = ("An error is not a score: these units are in no mean and no pair. The next run plays them again.",)
    return Sheet("errored", "Errored", ("arm", "unit", "seed", "error"), rows, notes)


def format_run_facts(found: Analysis) -> list[tuple[str, str]]:
    """Where the results come from, label and value."""
    return [(name, ", ".join(values)) for name, values in found.facts.items()]
