"""What changes from one program to another, role by role, in words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.cli.program_show import show_demonstration
from rsso_dspy.cli.prose import WIDE, on_terminal, paragraph, side_by_side, title, width
from rsso_dspy.report.terminal import visible

if TYPE_CHECKING:
    from rsso_dspy.optimize.describe import RoleDifference, Row


def show_difference(role: "RoleDifference", ours: str, theirs: str) -> None:
    """What changes in one role; nothing where nothing does."""
    if not role.changed:
        return
    title(role.name)
    if any(row.op != "same" for row in role.rows):
        _sentences(role.rows, ours, theirs) if on_terminal() and width() >= WIDE else _unified(role.rows)
    elif role.respaced:
        paragraph("the same words, with other spaces or line breaks", "  ")
    if role.fields:
        paragraph(f"other words of the fields: {', '.join(role.fields)}", "  ")
    for sign, demos in (("-", role.removed), ("+", role.added)):
        for demo in demos:
            show_demonstration(f"{sign} demonstration", demo)
    if role.kept:
        paragraph(f"{role.kept} of the demonstrations {'is' if role.kept == 1 else 'are'} in both", "  ")


def _unified(rows: "Sequence[Row]") -> None:
    """Sentences with a sign before each; of those that stayed, the number."""
    same = 0
    for row in [*rows, None]:
        if row is not None and row.op == "same":
            same += 1
            continue
        if same:
            paragraph(f"... {same} {'sentence' if same == 1 else 'sentences'} the same", "  ")
            same = 0
        if row is not None and row.a:
            paragraph(f"- {row.a}", "  ", color="red")
        if row is not None and row.b:
            paragraph(f"+ {row.b}", "  ", color="green")


def _sentences(rows: "Sequence[Row]", ours: str, theirs: str) -> None:
    """Sentences next to each other; of those that changed, the words that did are marked."""
    from rich.text import Text

    styles = {"same": "", "removed": "bold red strike", "added": "bold green"}
    pairs = []
    for row in rows:
        words = row.words or ((row.op, row.a or row.b),)
        left, right = (
            Text(" ").join(Text(visible(text), styles[op]) for op, text in words if op != hidden)
            for hidden in ("added", "removed")
        )
        pairs.append((left, right))
    side_by_side(ours, theirs, pairs)
