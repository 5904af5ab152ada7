"""Text for a terminal, wrapped to its width."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from rsso_dspy.report.terminal import escape_controls, replace_controls

if TYPE_CHECKING:
    from rich.text import Text

WIDE = 100
"""Minimum terminal width for two texts side by side."""


def echo(text: str = "", err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text with control characters replaced. All commands print through this function.

    `style` as in `typer.style`.
    """
    typer.secho(replace_controls(text), err=err, nl=nl, **style)


def print_json(data: Any) -> None:
    """Print JSON data. Control characters are escaped, so that nothing is lost."""
    import json

    print_json_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def print_json_text(text: str) -> None:
    """Escape control characters in the text of a file."""
    typer.echo(escape_controls(text), nl=False)


def print_title(text: str) -> None:
    """Print a heading."""
    echo()
    print_paragraph(text, bold=True)


def print_paragraph(text: str, indent: str = "", bold: bool | None = None, color: str | None = None) -> None:
    """Print a paragraph wrapped to the terminal."""
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
    """Return the width of the terminal in columns, at least 30."""
    from shutil import get_terminal_size

    return max(get_terminal_size().columns, 30)


def is_on_terminal() -> bool:
    """Return whether the stream is a terminal."""
    from rich.console import Console

    return Console().is_terminal


def print_side_by_side(a: str, b: str, rows: "Iterable[tuple[Text, Text]]") -> None:
    """Print two texts in columns under their names."""
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
