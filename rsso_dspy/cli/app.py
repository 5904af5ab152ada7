"""The commands. They import heavy libraries inside their functions, so that `--help` is fast."""

from typing import Annotated

import typer

from rsso_dspy.cli import (
    compile,
    config,
    constitution,
    doctor,
    evaluate,
    export,
    memory,
    merge,
    paper,
    program,
    report,
    reproduce,
    run,
    show,
    skills,
    tasks,
)
from rsso_dspy.cli.option_groups import group_options
from rsso_dspy.cli.terminal_text import echo

app = typer.Typer(
    name="rsso-dspy",
    help="In-context learning agents you can trust the numbers of: skills, reflections, constitutions and their "
    "composition, as one DSPy program, on any benchmark.",
    epilog="The exit code is 0, 2 for a wrong call, 1 for a failed run, 130 when interrupted, 143 when ended by "
    "SIGTERM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("run")(run.run_methods)
app.command("compile")(compile.compile_program)
app.command("evaluate")(evaluate.evaluate_program)
app.command("report")(report.report_runs)
app.command("merge")(merge.merge_runs)
app.command("export")(export.export_runs)
app.command("reproduce")(reproduce.reproduce_run)
app.command("paper")(paper.print_paper)
app.command("show")(show.show_unit)
app.command("tasks")(tasks.print_tasks)
app.command("doctor")(doctor.check_setup)
app.add_typer(config.app, name="config")
app.add_typer(constitution.app, name="constitution")
app.add_typer(memory.app, name="memory")
app.add_typer(program.app, name="program")
app.add_typer(skills.app, name="skills")
group_options(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from rsso_dspy.version import __version__

        echo(f"rsso-dspy {__version__}")
        raise typer.Exit


@app.callback()
def read_global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""
