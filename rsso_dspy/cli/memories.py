"""`rsso-dspy skills` and `rsso-dspy constitution`: memories as files."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from rsso_dspy.bounds import MOST_EPISODES, shorten_text
from rsso_dspy.cli import options
from rsso_dspy.cli.options import echo, format_plural, print_json, print_status, split_tasks
from rsso_dspy.files import atomic_write_text, check_output_path

skills_app = typer.Typer(help="Export the skill library of a unit.", no_args_is_help=True)
constitution_app = typer.Typer(
    help="Build a constitution from calibration variants or a text, and show it.", no_args_is_help=True
)


@skills_app.command("export")
def export_skills(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    unit: Annotated[str, typer.Argument(metavar="TASK::VARIANT", help="Variant, or TASK for a training.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="File to write.")],
    arm: Annotated[str | None, typer.Option(help="Arm (default: the first with skills).")] = None,
) -> None:
    """Write a unit's library and its provenance into one JSON file, which `rsso-dspy run --skills FILE` starts from."""
    from rsso_dspy.cli.results import print_left_out_files
    from rsso_dspy.memory_files import LIBRARY_FILE, export_library

    check_output_path(out, kind=LIBRARY_FILE)
    library, record = export_library(run, unit, arm, print_left_out_files)
    atomic_write_text(out, library.to_json())
    echo(f"{out}: {format_plural(library.snapshot['library'], 'skill')} of {unit}, {record.arm}, from {run}")


Source = Annotated[Path, typer.Argument(metavar="FILE|RUN", help="Constitution file, or a run that wrote one.")]
Arm = Annotated[str | None, typer.Option(help="Arm of the run (default: the first with a constitution).")]


@constitution_app.command("build")
@options.expand_options
def build_constitution(
    calib: Annotated[str, typer.Option(help="K-per-task: K training variants of every task.")] = "1-per-task",
    writer: Annotated[
        Literal["neural", "symbolic", "neuro-symbolic"], typer.Option(help="A model, patterns without calls, or both.")
    ] = "neural",
    explore: Annotated[
        int | None,
        typer.Option(
            min=0, max=MOST_EPISODES, help="Episodes of exploration, played first (default: one of every task type)."
        ),
    ] = None,
    task_names: options.TaskNames = None,
    protocol: options.ProtocolName = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Constitution file.")] = Path("constitution.json"),
    benchmark: options.BenchmarkName = None,
    *,
    start: options.Start,
) -> None:
    """Distil rules from calibration variants, for any method and backend to read.

    The agent plays each variant once, in order, and writes abstract and error rules, which `rsso-dspy run --methods
    rsso --constitution FILE` reads. Held-out variants are never played. Repeat the command to resume it.
    """
    from rsso_dspy.cli.play import build_and_print
    from rsso_dspy.optimize.calibration import draw_calibration
    from rsso_dspy.optimize.constitution import plan_constitution_build

    keys = {"benchmark": benchmark, "protocol.preset": protocol}
    config = start.build_config(keys)
    tasks = split_tasks(task_names)
    drawn = draw_calibration(calib, tasks, config.seed, config.simplification, config.benchmark_in_data, 0)
    plan = plan_constitution_build(config, drawn.train, writer, out, explore, print_status)
    head = f"{writer} rules from {format_plural(plan.plan.units, 'variant')} ({calib})"
    build_and_print(plan, head, drawn.notes, start)


@constitution_app.command("split")
def split_constitution(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Text with lists of rules, such as AGENTS.md.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Constitution file.")] = Path("constitution.json"),
) -> None:
    """Write each list item of a text as a rule of its own, which memory.constitution.relevant can choose from.

    A heading below the first level and the items above an item precede it. `rsso-dspy run --constitution FILE` reads
    the text itself whole.
    """
    from rsso_dspy.memory.formats import split_document
    from rsso_dspy.memory_files import CONSTITUTION_FILE

    check_output_path(out, kind=CONSTITUTION_FILE)
    book, left_out = split_document(file)
    atomic_write_text(out, book.to_json())
    echo(f"{out}: {format_plural(book.constitution.rules, 'rule')} from {file}")
    if left_out:
        echo(f"{format_plural(left_out, 'part')} that hold no rule left out, from {shorten_text(left_out[0])!r} on")


@constitution_app.command("show")
def show_constitution(source: Source, arm: Arm = None, json_: options.Json = False) -> None:
    """Print the rules and their source; --json prints the whole file."""
    from rsso_dspy.cli.results import print_constitution
    from rsso_dspy.memory_files import open_constitution

    book = open_constitution(source, arm)
    if json_:
        print_json(book.to_json())
    else:
        print_constitution(book)
