"""The commands. They import heavy libraries inside their functions, so that `--help` is fast."""

import inspect
from typing import Annotated

import typer

from rsso_dspy.cli import memories, run, setup, show
from rsso_dspy.cli.options import echo

app = typer.Typer(
    name="rsso-dspy",
    help="In-context learning agents you can trust the numbers of: skills, reflections, constitutions and their "
    "composition, as one DSPy program, on any benchmark.",
    epilog="The exit code is 0, 2 for a wrong call, 1 for a failed run, 130 when interrupted, 143 when ended by "
    "SIGTERM.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("run")(run.run_methods)
app.command("compile")(run.compile_program)
app.command("evaluate")(run.evaluate_program)
app.command("report")(show.report_runs)
app.command("show")(show.show_source)
app.command("doctor")(setup.check_setup)
app.add_typer(setup.config_app, name="config")
app.command("tasks")(show.print_tasks)
app.command("paper")(show.print_paper)
app.add_typer(memories.skills_app, name="skills")
app.add_typer(memories.constitution_app, name="constitution")
app.command("export")(show.export_runs)


def _keep_summaries(app: typer.Typer) -> None:
    """Keep summaries whole where commands are listed; `typer utils docs` would cut them at 45 characters."""
    for command in app.registered_commands:
        command.short_help = " ".join((inspect.getdoc(command.callback) or "").partition("\n\n")[0].split())
    for group in app.registered_groups:
        if group.typer_instance:
            group.short_help = group.typer_instance.info.help
            _keep_summaries(group.typer_instance)


_keep_summaries(app)


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
