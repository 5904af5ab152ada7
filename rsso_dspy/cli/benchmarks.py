"""`rsso-dspy benchmarks`: what is installed, and whether a benchmark says what was recorded of it."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.terminal_text import echo

app = typer.Typer(help="The benchmarks that are installed.", no_args_is_help=True)


@app.command("list")
def list_installed() -> None:
    """List the benchmarks that can be named, with the version of those that can be loaded."""
    from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
    from rsso_dspy.errors import UsageError

    for name in list_benchmarks():
        try:
            found = get_benchmark(name)
        except UsageError as error:
            echo(f"{name}: {error}")
        else:
            echo(f"{name} {found.version}: {len(found.table.tasks())} task types")


@app.command("replay")
def replay_file(
    file: Annotated[Path, typer.Argument(help="JSON file of recorded transcripts.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder with what was played, where the recording does not tell all of it."),
    ] = None,
) -> None:
    """Play recorded transcripts again and print every difference: observation, progress, done, validity, actions."""
    from rsso_dspy.environments.replaying import replay_transcripts
    from rsso_dspy.environments.transcripts import read_transcripts

    transcripts = read_transcripts(file)

    def tell_episode(number: int) -> None:
        echo(f"episode {number} of {len(transcripts.episodes)}", err=True)

    runs = steps = differences = 0
    for played in replay_transcripts(transcripts, None if data is None else str(data), tell_episode):
        runs, steps = runs + bool(played.steps), steps + played.steps
        for each in played.differences:
            differences += 1
            echo(f"{each.where}: {each.field}\n  recorded {each.recorded!r}\n  played   {each.played!r}")
    name = transcripts.benchmark
    echo(f"{name}: {len(transcripts.episodes)} episodes, {runs} runs, {steps:,} steps, {differences:,} differences")
    if differences:
        raise typer.Exit(1)
