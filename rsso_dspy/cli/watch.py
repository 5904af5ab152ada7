"""`rsso-dspy watch`: follow a run that another process plays."""

import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.bounds import MOST_SECONDS
from rsso_dspy.cli.options import ConfigFile, Overrides, load_prices, print_status
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from rsso_dspy.report.live_table import LiveRow
    from rsso_dspy.workflows.run_monitor import Entry, RunMonitor, RunSnapshot

NEWS = 8
"""Maximum number of events shown on a terminal."""

WORDS = {
    "playing": "plays",
    "ended": "ended",
    "limit": "stopped by a limit",
    "interrupted": "interrupted",
    "failed": "failed",
    "cut off": "interrupted: no process plays it, and its log has no end; repeat its command to resume",
    "idle": "no process plays it, and it has no log",
}

NAP = 0.2
"""Maximum seconds of one sleep."""


def watch_run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the run.")],
    every: Annotated[
        float, typer.Option(min=0.1, max=MOST_SECONDS, help="Seconds between two updates.", metavar="SECONDS")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the current state once and exit.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for a run that does not exist yet.")] = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Follow a run of another process: a row per arm, the latest events, and the predicted time.

    It ends with the run, with exit code 0 if all planned units are finished without errors, otherwise 1.
    Ctrl-C does not affect the run. Output to a file or a pipe has one line per event.
    """
    from rsso_dspy.report.terminal import SafeConsole
    from rsso_dspy.workflows.run_monitor import RunMonitor

    price_of = load_prices(config, set_, [folder])
    console = SafeConsole()
    try:
        if wait and not (folder / "run.json").exists():
            print_status(f"waiting for a run in {folder}")
            while not (folder / "run.json").exists():
                _sleep_in_naps(every)
        watched = RunMonitor(folder, price_of)
        follow = _follow_on_terminal if console.is_terminal else _follow_in_lines
        seen = watched.take_snapshot() if once else follow(watched, console, folder, every)
        if once or not console.is_terminal:
            _print_snapshot(seen, console, folder)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if seen.is_over and not seen.is_complete:
        raise typer.Exit(1)


def _sleep_in_naps(seconds: float) -> None:
    """Sleep in short intervals, because a Ctrl-C just before a sleep takes effect only after it."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, NAP))


def _follow_on_terminal(watched: "RunMonitor", console: "Console", folder: Path, every: float) -> "RunSnapshot":
    """Redraw the table until the run is over."""
    from rich.live import Live

    news: list[Entry] = []
    with Live(console=console, auto_refresh=False) as live:
        while True:
            seen = watched.take_snapshot()
            news = [*news, *seen.news][-NEWS:]
            live.update(_render_snapshot(seen, news, console, folder), refresh=True)
            if seen.is_over:
                return seen
            _sleep_in_naps(every)


def _follow_in_lines(watched: "RunMonitor", console: "Console", folder: Path, every: float) -> "RunSnapshot":
    """Print one line per new event until the run is over."""
    seen = watched.take_snapshot()
    if not seen.is_over:
        echo(describe_status(seen, folder))
    done = seen.done
    while not seen.is_over:
        _sleep_in_naps(every)
        seen = watched.take_snapshot()
        for event in seen.news:
            done = 0 if event["event"] == "started" else done + (event["event"] in ("unit", "training"))
            counted = f"[{done}/{seen.left}] " if event["event"] in ("unit", "training") else ""
            console.print(f"{counted}{describe_event(event)}", markup=False, highlight=False, soft_wrap=True)
    return seen


def _print_snapshot(seen: "RunSnapshot", console: "Console", folder: Path) -> None:
    """Print the current state in full, without a height limit."""
    from rsso_dspy.report.live_table import build_live_table
    from rsso_dspy.report.terminal import print_renderable

    if console.is_terminal:
        console.print(_render_snapshot(seen, list(seen.news)[-NEWS:], console, folder))
        return
    print_renderable(build_live_table(seen.rows))
    echo(describe_status(seen, folder))


def _render_snapshot(
    seen: "RunSnapshot", news: "Sequence[Entry]", console: "Console", folder: Path
) -> "RenderableType":
    """Draw a row per arm, the state, and as many recent events as fit."""
    from rich.console import Group
    from rich.text import Text

    from rsso_dspy.report.live_table import build_live_table
    from rsso_dspy.report.terminal import compute_needed_width

    table = build_live_table(seen.rows)
    roomy = compute_needed_width(console, table) <= console.width
    arms: list[RenderableType] = [table] if roomy else [Text(_describe_arm(row), overflow="fold") for row in seen.rows]
    parts = [*arms, Text(describe_status(seen, folder), style="bold", overflow="fold")]
    room = console.height - 1 - _count_lines(console, parts)
    shown: list[Text] = []
    for event in reversed(news):
        text = Text(describe_event(event), style="dim", overflow="fold")
        room -= _count_lines(console, [text])
        if room < 0:
            break
        shown.insert(0, text)
    return Group(*parts, *shown)


def _count_lines(console: "Console", parts: "Sequence[RenderableType]") -> int:
    return sum(len(console.render_lines(part)) for part in parts)


def _describe_arm(row: "LiveRow") -> str:
    """Describe a row in one line, for narrow windows."""
    from rsso_dspy.pricing import format_dollars

    tally = row.tally
    parts = [f"{len(tally.units):,}/{'?' if row.total is None else f'{row.total:,}'} units"]
    parts += [f"{len(tally.errored):,} errors"] if tally.errored else []
    parts += [f"Mean {tally.mean:.1f}, {tally.solved:,} solved"] if tally.mean is not None else []
    parts += [f"trial {', '.join(map(str, sorted(set(row.trials))))} under way"] if row.trials else []
    parts += [f"{row.spent.tokens:,} tokens"]
    parts += [format_dollars(row.spent.cost)] if row.spent.cost else []
    return f"{replace_controls(row.arm)}: {', '.join(parts)}"


def describe_status(seen: "RunSnapshot", folder: Path) -> str:
    """Describe the state of the run in one sentence."""
    units = sum(len(row.tally.units) for row in seen.rows)
    total = None if any(row.total is None for row in seen.rows) else sum(row.total or 0 for row in seen.rows)
    parts = [f"{units:,} of {'?' if total is None else f'{total:,}'} units"]
    if seen.errors:
        parts.append(f"{seen.errors:,} with errors")
    if seen.missing_shards:
        parts.append(f"without shards {', '.join(seen.missing_shards)}")
    if seen.elapsed is not None:
        parts.append(f"{format_duration(seen.elapsed)} {'elapsed' if seen.state == 'playing' else 'played'}")
    if seen.remaining is not None:
        parts.append(f"about {format_duration(seen.remaining)} left")
    why = seen.last.get("why") or seen.last.get("error") if seen.state in ("limit", "failed") else None
    return replace_controls(f"{folder} {WORDS[seen.state]}{f' ({why})' if why else ''}: {', '.join(parts)}")


def describe_event(event: "Entry") -> str:
    """Describe an entry of a run's log."""
    about = dict(event)
    name = " ".join(str(about.get("unit", "")).rsplit("/", 1)[0].split("/", 1))
    trial, error = f"trial {about.get('trial')}", about.get("error")
    match about["event"]:
        case "started":
            text = f"started: {len(about['left']):,} to play, {about.get('jobs')} at once on {about.get('engine')}"
        case "simulators":
            text = f"starting simulators: {about.get('ready')} of {about.get('wanted')}"
        case "trial" if error:
            text = f"{name} {trial}: error: {error}"
        case "trial":
            text = f"{name} {trial}: {about.get('outcome')} in {about.get('steps')} steps, {about.get('accumulator')}"
        case "unit" | "training" if error:
            text = f"{name}: error: {error}"
        case "unit" | "training":
            text = f"{name}: best {about.get('best')} of {about.get('trials')} trials"
        case "ended":
            text = f"ended: {about.get('played')} played, {about.get('errored')} with errors"
        case other:
            text = f"{other}: {about.get('why') or error}" if about.get("why") or error else other
    return replace_controls(text.replace("\n", " "))


def format_duration(time: timedelta) -> str:
    """Format seconds as ``1:02:03``, or ``2:03`` below an hour."""
    minutes, seconds = divmod(int(time.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
