"""Prints the differences between two programs, role by role."""

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
    from rsso_dspy.optimize.program_text import AlignedRow, RoleDifference


def show_difference(role: "RoleDifference", ours: str, theirs: str) -> None:
    """Print what differs in one role; print nothing for a role without differences."""
    if not role.changed:
        return
    print_title(role.name)
    if any(row.op != "same" for row in role.rows):
        _print_sentence_pairs(
            role.rows, ours, theirs
        ) if is_on_terminal() and get_terminal_width() >= WIDE else _print_sentence_diff(role.rows)
    elif role.respaced:
        print_paragraph("the words are the same; spaces or line breaks differ", "  ")
    if role.fields:
        print_paragraph(f"field descriptions that differ: {', '.join(role.fields)}", "  ")
    for sign, demos in (("-", role.removed), ("+", role.added)):
        for demo in demos:
            show_demonstration(f"{sign} demonstration", demo)
    if role.kept:
        print_paragraph(
            f"{role.kept} {'demonstration is' if role.kept == 1 else 'demonstrations are'} in both programs", "  "
        )


def _print_sentence_diff(rows: "Sequence[AlignedRow]") -> None:
    """Print changed sentences with a sign before each, and the number of unchanged ones between them."""
    same = 0
    for row in [*rows, None]:
        if row is not None and row.op == "same":
            same += 1
            continue
        if same:
            print_paragraph(f"... {same} unchanged {'sentence' if same == 1 else 'sentences'}", "  ")
            same = 0
        if row is not None and row.a:
            print_paragraph(f"- {row.a}", "  ", color="red")
        if row is not None and row.b:
            print_paragraph(f"+ {row.b}", "  ", color="green")


def _print_sentence_pairs(rows: "Sequence[AlignedRow]", ours: str, theirs: str) -> None:
    """Print the sentences of both programs side by side, with the changed words marked."""
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
