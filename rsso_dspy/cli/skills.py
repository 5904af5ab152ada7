"""`rsso-dspy skills`: the library of a unit as a file, or as a folder of the Agent Skills format."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from rsso_dspy.cli.options import format_plural
from rsso_dspy.cli.show import print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError
from rsso_dspy.files import atomic_write_text, check_output_path

app = typer.Typer(help="Export the skill library of a unit.", no_args_is_help=True)


@app.command()
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    unit: Annotated[
        str, typer.Argument(metavar="TASK::VARIANT", help="Variant, e.g. find-plant::228, or TASK for a training.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write; with --format skill, the folder NAME.")],
    arm: Annotated[str | None, typer.Option(help="Arm (default: the first with skills).")] = None,
    format_: Annotated[
        Literal["library", "skill"],
        typer.Option("--format", help="library: a JSON file; skill: a folder of the Agent Skills format."),
    ] = "library",
) -> None:
    """Write a unit's library and its provenance into one JSON file, or into a folder of the Agent Skills format.

    `rsso-dspy run --skills FILE` starts units from it; `rsso-dspy show RUN UNIT` prints the skills.
    """
    from rsso_dspy.memory_files import LIBRARY, export_library, export_skill_folder, load_skill_source

    if format_ == "library":
        if out.is_dir():
            raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'skills.json'}")
        check_output_path(out, kind=LIBRARY)
    source = load_skill_source(run, unit, arm, print_left_out_files)
    if format_ == "skill":
        out = export_skill_folder(source, out)
    else:
        atomic_write_text(out, export_library(source).to_json())
    echo(f"{out}: {format_plural(source.held.library, 'skill')} of {unit}, {source.record.arm}, from {run}")
