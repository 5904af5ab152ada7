"""The report of a run for the terminal: its tables with their notes."""

from collections.abc import Iterator
from itertools import chain

from rich.console import Group, RenderableType
from rich.text import Text

from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.cost_report import describe_unreported_costs
from rsso_dspy.report.report_files import describe_facts, describe_run
from rsso_dspy.report.table_data import to_rich_table
from rsso_dspy.report.tables import MAIN, build_tables
from rsso_dspy.report.terminal import replace_controls

AGAIN = "(no score; repeat the command to play them again)"
NEVER = "(no score; the environment refuses these variants, as it would again)"


def render_analysis(found: Analysis, whole: bool = True, with_paper: bool = False) -> Group:
    """Render all tables, or only the main ones."""
    return Group(*_render_parts(found, whole, with_paper))


def _render_parts(found: Analysis, whole: bool, with_paper: bool) -> Iterator[RenderableType]:
    if not found.arms:
        yield Text("No unit is finished yet.")
    sheets = build_tables(found, with_paper)
    shown = [sheet for sheet in sheets if whole or sheet.name in MAIN]
    for place, sheet in enumerate(shown):
        yield from [Text()] * bool(place)
        yield Text(sheet.title, style="bold")
        yield to_rich_table(sheet)
        if whole:
            yield from (_dim_text(note) for note in sheet.notes)
    yield Text()
    yield from map(_dim_text, describe_unreported_costs(found.bill))
    for skipped, title in ((False, f"Errored {AGAIN}"), (True, f"Skipped {NEVER}")):
        errored = [each for each in found.errored if each.is_skipped == skipped]
        lines = [replace_controls(f"  {each.arm} {each.unit}: {each.error}") for each in errored]
        if lines:
            yield Text(f"{title}:\n" + "\n".join(lines), style="red")
    if found.arms:
        yield from map(_dim_text, describe_run(found))
    if whole:
        kept = ((name, values) for name, values in describe_facts(found).items() if name not in ("protocol", "actor"))
        yield _dim_text("; ".join(f"{name} {', '.join(values)}" for name, values in kept) + ".")
    else:
        notes = chain.from_iterable(
            sheet.notes
            for sheet in shown
            if sheet.name in ("methods", "benchmarks", "contrasts", "learning", "differences")
        )
        yield from map(_dim_text, notes)
        if found.findings:
            yield _dim_text("`rsso-dspy report` shows the tests, strata, task types and figures.")


def _dim_text(text: str) -> Text:
    return Text(replace_controls(text), style="dim")
