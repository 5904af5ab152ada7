"""Text for a terminal, no wider than it is."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from rsso_dspy.report.terminal import escape_controls, replace_controls

if TYPE_CHECKING:
    from rich.text import Text

WIDE = 100
"""Columns from which on two texts stand side by side."""


def echo(text: str = "", err: bool = False, nl: bool = True, **style: Any) -> None:
    """Every text that a verb prints goes out here: whoever wrote what it quotes, it only stands there. `style` as in
    `typer.style`."""
    typer.secho(replace_controls(text), err=err, nl=nl, **style)


def print_json(data: Any) -> None:
    """Data in place of text. What would act on a terminal stands in it as JSON writes it, so that nothing is lost."""
    import json

    print_json_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def print_json_text(text: str) -> None:
    """The same of a file's text."""
    typer.echo(escape_controls(text), nl=False)


def print_title(text: str) -> None:
    """A line that begins a part."""
    echo()
    print_paragraph(text, bold=True)


def print_paragraph(text: str, indent: str = "", bold: bool | None = None, color: str | None = None) -> None:
    """A paragraph, no wider than the terminal."""
    from textwrap import fill

    lines = fill(
        replace_controls(text),
        get_terminal_width(),
        initial_indent=indent,
        subsequent_indent=indent + "  ",
        break_on_hyphens=False,
    )
    echo(lines, bold=bold, fg=color)


def get_terminal_width() -> int:
    """Columns of the terminal; 30 at least."""
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 30)


def is_on_terminal() -> bool:
    """Whether a person looks on, not a file."""
    from rich.console import Console

    return Console().is_terminal


def print_side_by_side(a: str, b: str, rows: "Iterable[tuple[Text, Text]]") -> None:
    """Two columns of texts under their names."""
    from rich.table import Table
    from rich.text import Text

    from rsso_dspy.report.terminal import SafeConsole

    table = Table(box=None, padding=(0, 2), expand=True)
    for name in (a, b):
        table.add_column(Text(replace_controls(name)), ratio=1, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = SafeConsole(width=get_terminal_width(), highlight=False)
    with console.capture() as printed:
        console.print(table)
    lines = (line.rstrip() for line in printed.get().splitlines())
    typer.echo("\n".join(lines), color=console.is_terminal or None)
