"""What changes from one program to another, role by role, in words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.cli.program_show import show_demonstration
from rsso_dspy.cli.terminal_text import (
    WIDE,
    get_terminal_width,
    is_on_terminal,
    print_paragraph,
    print_side_by_side,
    print_title,
)
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from rsso_dspy.optimize.description import AlignedRow, RoleDifference


def show_difference(role: "RoleDifference", ours: str, theirs: str) -> None:
    """What changes in one role; nothing where nothing does."""
    if not role.changed:
        return
    print_title(role.name)
    if any(row.op != "same" for row in role.rows):
        _print_sentence_pairs(
            role.rows, ours, theirs
        ) if is_on_terminal() and get_terminal_width() >= WIDE else _print_sentence_diff(role.rows)
    elif role.respaced:
        print_paragraph("the same words, with other spaces or line breaks", "  ")
    if role.fields:
        print_paragraph(f"other words of the fields: {', '.join(role.fields)}", "  ")
    for sign, demos in (("-", role.removed), ("+", role.added)):
        for demo in demos:
            show_demonstration(f"{sign} demonstration", demo)
    if role.kept:
        print_paragraph(f"{role.kept} of the demonstrations {'is' if role.kept == 1 else 'are'} in both", "  ")


def _print_sentence_diff(rows: "Sequence[AlignedRow]") -> None:
    """Sentences with a sign before each; of those that stayed, the number."""
    same = 0
    for row in [*rows, None]:
        if row is not None and row.op == "same":
            same += 1
            continue
        if same:
            print_paragraph(f"... {same} {'sentence' if same == 1 else 'sentences'} the same", "  ")
            same = 0
        if row is not None and row.a:
            print_paragraph(f"- {row.a}", "  ", color="red")
        if row is not None and row.b:
            print_paragraph(f"+ {row.b}", "  ", color="green")


def _print_sentence_pairs(rows: "Sequence[AlignedRow]", ours: str, theirs: str) -> None:
    """Sentences next to each other; of those that changed, the words that did are marked."""
    from rich.text import Text

    styles = {"same": "", "removed": "bold red strike", "added": "bold green"}
    pairs = []
    for row in rows:
        words = row.words or ((row.op, row.a or row.b),)
        left, right = (
            Text(" ").join(Text(replace_controls(text), styles[op]) for op, text in words if op != hidden)
            for hidden in ("added", "removed")
        )
        pairs.append((left, right))
    print_side_by_side(ours, theirs, pairs)
