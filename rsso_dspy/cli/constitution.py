"""`rsso-dspy constitution`: build a constitution from calibration variants, show and export it."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli import constitution_build
from rsso_dspy.cli.constitution_build import print_constitution
from rsso_dspy.cli.options import Json, format_plural, print_status
from rsso_dspy.cli.terminal_text import echo, print_json_text
from rsso_dspy.errors import UnknownName

app = typer.Typer(help="Build a constitution from calibration variants, show and export it.", no_args_is_help=True)

ConstitutionSource = Annotated[
    Path, typer.Argument(metavar="FILE|RUN", help="Constitution file, or folder of a run that wrote one.")
]
ConstitutionArm = Annotated[str | None, typer.Option(help="Arm of the run (default: the first with a constitution).")]


app.command()(constitution_build.build)


@app.command()
def show(
    source: ConstitutionSource,
    arm: ConstitutionArm = None,
    edits: Annotated[bool, typer.Option("--edits", help="Also list every edit: add, merge, drop and so on.")] = False,
    json_: Json = False,
) -> None:
    """Print the rules and their source; with --edits also their history."""
    from rsso_dspy.memory_files import open_constitution

    book = open_constitution(source, arm)
    if json_:
        print_json_text(book.to_json())
        return
    print_constitution(book)
    if edits:
        echo("Edits", bold=True)
        for edit in book.constitution.edits:
            of = f" of {', '.join(edit.of)}" if edit.of else ""
            why = f" ({edit.why})" if edit.why else ""
            echo(f"  {edit.what} {edit.id}{of}{why}, {edit.source or 'given'}: {edit.text}".rstrip(": "))


MarkdownOut = Annotated[
    Path, typer.Option("--out", "-o", help="Markdown file, e.g. AGENTS.md, whose marked block is written.")
]
ExportFormat = Annotated[str, typer.Option("--format", help="agents-md: a marked block in a Markdown file.")]


@app.command()
def export(
    source: ConstitutionSource, out: MarkdownOut, arm: ConstitutionArm = None, format_: ExportFormat = "agents-md"
) -> None:
    """Write the rules into a marked block of AGENTS.md, CLAUDE.md or the like; the rest of the file stays as it is."""
    from rsso_dspy.memory_files import open_constitution, write_constitution_block

    if format_ != "agents-md":
        raise UnknownName("format", format_, ("agents-md",))
    book = open_constitution(source, arm)
    write_constitution_block(book, out)
    print_status(f"{out}: {format_plural(book.constitution.rules, 'rule')} in its block")
