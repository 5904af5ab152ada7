"""Text for a terminal, wrapped to its width."""

import json
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import typer

from rsso_dspy.report.terminal import escape_controls, replace_controls


def echo(text: str = "", err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text with control characters replaced. All commands print through this function.

    `style` as in `typer.style`.
    """
    typer.secho(replace_controls(text), err=err, nl=nl, **style)


def print_json(data: Any) -> None:
    """Print JSON data. Control characters are escaped, so that nothing is lost."""
    print_json_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def print_json_text(text: str) -> None:
    """Escape control characters in the text of a file."""
    typer.echo(escape_controls(text), nl=False)


def print_paragraph(text: str, indent: str = "", bold: bool | None = None, color: str | None = None) -> None:
    """Print a paragraph wrapped to the terminal."""
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
    return max(get_terminal_size().columns, 30)


def indent_text(text: str) -> str:
    """Return the text below a step, with control characters replaced."""
    return "\n".join(f"      {line}" for line in replace_controls(text).splitlines())
