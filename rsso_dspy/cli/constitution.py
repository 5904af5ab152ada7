"""`rsso-dspy constitution`: build a constitution from calibration variants; show, compare, merge and edit it."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.atomic import check_output_path
from rsso_dspy.cli import constitution_build
from rsso_dspy.cli.constitution_build import ConstitutionOut, check_new_file, print_constitution
from rsso_dspy.cli.options import Json, format_plural, print_status
from rsso_dspy.cli.terminal_text import echo, print_json, print_json_text
from rsso_dspy.errors import UnknownName, UsageError

app = typer.Typer(
    help="Build a constitution from calibration variants; show, compare, merge and edit it.", no_args_is_help=True
)

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
    from rsso_dspy.experiment.constitutions import open_constitution

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


@app.command()
def diff(a: ConstitutionSource, b: ConstitutionSource, json_: Json = False) -> None:
    """Print the rules that occur in only one of two constitutions."""
    from rsso_dspy.experiment.constitutions import list_unique_rules, open_constitution

    ours, theirs = open_constitution(a), open_constitution(b)
    only = [(str(a), list_unique_rules(ours, theirs)), (str(b), list_unique_rules(theirs, ours))]
    shared = len(ours.constitution.rules) - len(only[0][1])
    if json_:
        print_json({"only": dict(only), "shared": shared})
        return
    for mark, (name, lines) in zip("-+", only, strict=True):
        echo(f"only in {name}: {format_plural(lines, 'rule')}", bold=True)
        for line in lines:
            echo(f"{mark} {line}")
    echo(f"in both: {shared}")


@app.command()
def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="FILE|RUN...", help="Constitution files, or folders of runs.")
    ],
    out: ConstitutionOut,
) -> None:
    """Merge several constitutions into one file, each rule once, without a model."""
    from rsso_dspy.atomic import atomic_write_text
    from rsso_dspy.experiment.constitutions import merge_constitution_files, open_constitution

    check_new_file(out)
    check_output_path(out)
    books = {str(source): open_constitution(source) for source in sources}
    made = merge_constitution_files(books)
    atomic_write_text(out, made.to_json())
    before = sum(len(book.constitution.rules) for book in books.values())
    print_status(f"{out}: {format_plural(made.constitution.rules, 'rule')} of {before}")


@app.command()
def edit(file: Annotated[Path, typer.Argument(metavar="FILE", help="Constitution file.")]) -> None:
    """Edit the rules in $EDITOR, one per line."""
    from dataclasses import replace

    import click

    from rsso_dspy.atomic import atomic_write_text
    from rsso_dspy.memory.constitution.file import apply_edited_rules, format_rules, read_constitution
    from rsso_dspy.safe_read import read_text

    book = read_constitution(file)
    check_output_path(file, "file")
    draft = file.with_name(f"{file.name}.draft")
    before = read_text(draft) if draft.exists() else format_rules(book.constitution)
    try:
        text = click.edit(before, extension=".txt")
    except click.ClickException as error:
        raise UsageError(f"cannot open an editor ({error.message}); set EDITOR, e.g. EDITOR=nano") from None
    if text is None and not draft.exists():
        print_status("no changes")
        return
    try:
        made = apply_edited_rules(book.constitution, text if text is not None else before)
    except UsageError as error:
        atomic_write_text(draft, text if text is not None else before)
        raise UsageError(f"{error}. Your text is saved in {draft}; repeat the command to edit it again") from None
    atomic_write_text(file, replace(book, constitution=made).to_json())
    draft.unlink(missing_ok=True)
    print_status(f"{file}: {format_plural(made.rules, 'rule')}, before {len(book.constitution.rules)}")


MarkdownOut = Annotated[
    Path, typer.Option("--out", "-o", help="Markdown file, e.g. AGENTS.md, whose marked block is written.")
]
ExportFormat = Annotated[str, typer.Option("--format", help="agents-md: a marked block in a Markdown file.")]


@app.command()
def export(
    source: ConstitutionSource, out: MarkdownOut, arm: ConstitutionArm = None, format_: ExportFormat = "agents-md"
) -> None:
    """Write the rules into a marked block of AGENTS.md, CLAUDE.md or the like; the rest of the file stays as it is."""
    from rsso_dspy.experiment.constitutions import open_constitution
    from rsso_dspy.experiment.portable_formats import write_constitution_block

    if format_ != "agents-md":
        raise UnknownName("format", format_, ("agents-md",))
    book = open_constitution(source, arm)
    write_constitution_block(book, out)
    print_status(f"{out}: {format_plural(book.constitution.rules, 'rule')} in its block")


@app.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE.md", help="AGENTS.md, CLAUDE.md, SKILL.md or the like.")],
    out: ConstitutionOut,
) -> None:
    """Write the rules of a Markdown file into a constitution file: those of its block, else its list items.

    Nothing in the file is run. A SKILL.md must keep the limits of the Agent Skills format.
    """
    from rsso_dspy.atomic import atomic_write_text
    from rsso_dspy.experiment.portable_formats import import_constitution

    check_new_file(out)
    check_output_path(out)
    book = import_constitution(file)
    atomic_write_text(out, book.to_json())
    print_status(f"{out}: {format_plural(book.constitution.rules, 'rule')} from {file}")
