"""The reference of the command line as a page, written by Typer from the verbs themselves.

    python -m rsso_dspy.cli.reference docs/CLI.md        # write it
    python -m rsso_dspy.cli.reference                    # print it

It depends on the verbs and on Typer's version alone, not on the terminal.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

COMMAND = "python -m rsso_dspy.cli.reference docs/CLI.md"
"""What writes the page."""


def build_reference_page() -> str:
    """The whole page, in Markdown."""
    import typer
    from typer.cli import get_docs_for_click

    from rsso_dspy.cli.app import app

    root = typer.main.get_command(app)
    _set_full_summaries(root)
    return get_docs_for_click(obj=root, ctx=typer.Context(root), name="rsso-dspy", title="Command line").strip() + "\n"


def _set_full_summaries(command: Any) -> None:
    """In the lists of verbs, where Typer would cut them at 45 characters."""
    command.short_help = " ".join((command.help or "").partition("\n\n")[0].split())
    for below in getattr(command, "commands", {}).values():
        _set_full_summaries(below)


def main(arguments: Sequence[str]) -> None:
    """Write the page to the file that is named, or print it."""
    if arguments:
        Path(arguments[0]).write_text(build_reference_page(), encoding="utf-8")
    else:
        print(build_reference_page(), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
