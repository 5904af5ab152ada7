"""A run on the terminal: its tables one under the other, with what has to be said of them."""

from collections.abc import Iterator
from itertools import chain

from rich.console import Group, RenderableType
from rich.text import Text

from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.bills import spent_elsewhere
from rsso_dspy.report.files import about
from rsso_dspy.report.sheets import rich_table
from rsso_dspy.report.tables import brief, tables
from rsso_dspy.report.terminal import visible


def view(found: Analysis, whole: bool = True, with_paper: bool = False) -> Group:
    """Everything, or the main tables alone."""
    return Group(*_parts(found, whole, with_paper))


def _parts(found: Analysis, whole: bool, with_paper: bool) -> Iterator[RenderableType]:
    if not found.arms:
        yield Text("No unit is finished yet.")
    sheets = tables(found, with_paper)
    shown = sheets if whole else brief(sheets)
    for place, sheet in enumerate(shown):
        yield from [Text()] * bool(place)
        yield Text(sheet.title, style="bold")
        yield rich_table(sheet)
        if whole:
            yield from (_dim(note) for note in sheet.notes)
    yield Text()
    yield from map(_dim, spent_elsewhere(found.bill))
    if found.errored:
        lines = [visible(f"  {each.arm} {each.unit}: {each.error}") for each in found.errored]
        yield Text("Errored (no score; played again by the next run):\n" + "\n".join(lines), style="red")
    if found.arms:
        yield from map(_dim, about(found))
    if whole:
        kept = ((name, values) for name, values in found.facts.items() if name not in ("protocol", "actor"))
        yield _dim("; ".join(f"{name} {', '.join(values)}" for name, values in kept) + ".")
    else:
        notes = chain.from_iterable(
            sheet.notes for sheet in shown if sheet.name in ("methods", "learning", "differences")
        )
        yield from map(_dim, notes)
        if found.findings:
            yield _dim("rsso-dspy report has the tests, strata, task types and figures.")


def _dim(text: str) -> Text:
    return Text(visible(text), style="dim")
