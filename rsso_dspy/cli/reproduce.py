"""`rsso-dspy reproduce`: print the command that made a run, or play it again and compare the records."""

import os
import shlex
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import BadZipFile, ZipFile

import typer

from rsso_dspy.cli.options import Jobs, MaxCost, Overrides, format_plural, print_status
from rsso_dspy.cli.reproduce_file import print_file_command
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.reproduce import RunComparison
    from rsso_dspy.store.commands import Invocation
    from rsso_dspy.store.run_folder import Store

MOST_UNPACKED = 1 << 31
"""Maximum size in bytes of what a zip file unpacks to."""

SHOWN = 10
"""Maximum number of listed differences."""


def reproduce_run(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN", help="Folder of a run or of runs, or a compiled program or constitution."),
    ],
    out: Annotated[Path | None, typer.Option(help="Folder to play into (default: RUN-again).")] = None,
    play: Annotated[bool, typer.Option("--run", help="Play the run again and compare the records one by one.")] = False,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Answer from the run's own logs without asking a model. With --run, the new folder is removed unless "
            "--out names it; RUN may be a zip file.",
        ),
    ] = False,
    jobs: Jobs = 1,
    max_cost: MaxCost = None,
    set_: Overrides = None,
) -> None:
    """Print the shell command that made a run and what has changed since, or play the run again and compare.

    A run keeps its arguments and copies of its input files, so nothing else is needed; the printed command reads them
    from the folder RUN-again.given. On the embedded backend all records come out equal byte for byte. The exit code is
    1 if a record differs or is missing.
    """
    with ExitStack() as until_the_end:
        if play and replay and out is None:
            out = Path(until_the_end.enter_context(TemporaryDirectory(prefix="rsso-dspy-"))) / "again"
        if replay and source.suffix == ".zip":
            source = unzip_run(source, Path(until_the_end.enter_context(TemporaryDirectory(prefix="rsso-dspy-"))))
        if not _reproduced(source, out, play, replay, jobs, max_cost, set_ or []):
            raise typer.Exit(1)


def _reproduced(
    source: Path, out: Path | None, play: bool, replay: bool, jobs: int, max_cost: float | None, more: list[str]
) -> bool:
    """Print or play; return whether all played records are equal."""
    from rsso_dspy.store.run_folder import Store

    there = Path(os.path.realpath(source))
    target = out or there.with_name(f"{there.name}-again")
    if out is None and not source.is_absolute() and source.name:
        target = source.with_name(target.name)
    if source.is_file():
        if play:
            raise UsageError(
                f"{source} is a file, but --run plays runs only; run the command that is printed without it"
            )
        print_file_command(source, replay)
        return True
    runs = [source] if (source / "run.json").exists() else sorted(file.parent for file in source.glob("*/run.json"))
    if not runs:
        Store(source).read_identity()
    if runs != [source]:
        print_status(f"{source} holds {format_plural(runs, 'run')}")
    whole = True
    for folder in runs:
        store = Store(folder, read_only=True)
        into = target if folder == source else target / folder.name
        whole &= _reproduce_folder(store, into, play, replay, jobs, max_cost, more)
    return whole


def _reproduce_folder(
    store: "Store", out: Path, play: bool, replay: bool, jobs: int, max_cost: float | None, more: list[str]
) -> bool:
    """Print or play the commands of one run; return whether its records are equal."""
    from rsso_dspy.reproduce import list_changes, list_unknown_methods
    from rsso_dspy.store.commands import extract_given, load_invocations
    from rsso_dspy.store.run_folder import Store

    orders = load_invocations(store)
    if not orders:
        raise UsageError(f"{store.folder} holds no command, so it cannot be reproduced")
    if out.resolve() == store.folder.resolve():
        raise UsageError(f"{out} is the original run; name another --out")
    changed = list_changes(store, orders, replay)
    for change in changed:
        print_status(f"{'will' if change.certain else 'may'} differ: {change.what}")
    if others := list_unknown_methods(orders):
        print_status(f"{', '.join(others)}: unknown method; run the script that adds it instead of rsso-dspy")
    if next(store.records(), None) is None:
        print_status("no record is left that names the commit and the models")
    elif not changed:
        print_status("nothing has changed since: the records will be equal byte for byte")
    given = {setting.partition("=")[0].strip() for setting in more}
    for key in dict.fromkeys(key for order in orders for key in order.withheld if key not in given and not replay):
        print_status(f"{key} held a password or a query, which is not stored: add --set {key}=ADDRESS")
    answers: dict[str, str | list[str]] = {"--replay": str(store.folder)} if replay else {}
    given_files = out.with_name(f"{out.name}.given")
    extract_given(store, given_files)
    options = [{**order.to_options(given_files, more), **answers, "--out": str(out)} for order in orders]
    if not play:
        for each in options:
            echo(_format_run_command(each))
        return True
    if certain := [change.what for change in changed if change.certain]:
        raise UsageError(
            f"not played: it would be another run ({'; '.join(certain)}). Install the original "
            "versions, or run the command that is printed without --run"
        )
    if not replay and (addresses := _list_addresses(options)):
        print_status(f"requests go to {', '.join(addresses)}")
    again = Store(out, read_only=True)
    before = sum(1 for _ in again.records())
    for each in options:
        _play_command(each, jobs, max_cost)
    if before:
        print_status(f"{out} held {format_plural(range(before), 'record')} before; remove it to play them anew")
    return _compare_records(store, again, orders, each_record=replay)


def _list_addresses(options: "list[dict[str, str | list[str]]]") -> list[str]:
    """Return the remote addresses that the commands send requests to, as chosen by the author of the folder."""
    from rsso_dspy.config import load_config
    from rsso_dspy.store.commands import list_remote_addresses

    configs = [load_config(Path(str(each["--config"])), each.get("--set", ())) for each in options]
    return list(dict.fromkeys(address for config in configs for address in list_remote_addresses(config)))


def _format_run_command(options: dict[str, str | list[str]]) -> str:
    """Return the command in shell syntax."""
    words = ["rsso-dspy", "run"]
    for name, value in options.items():
        for text in [value] if isinstance(value, str) else value:
            words += [name] if not text else [name, text] if not text.startswith("-") else [f"{name}={text}"]
    return shlex.join(words)


def _play_command(options: dict[str, str | list[str]], jobs: int, max_cost: float | None) -> None:
    from rsso_dspy.cli.run import run_methods

    renamed = {"tasks": "task_names", "set": "set_"}
    given: dict[str, Any] = {}
    for option, value in options.items():
        name = option.removeprefix("--").replace("-", "_")
        path = name in ("config", "out", "skills", "constitution", "replay")
        given[renamed.get(name, name)] = Path(str(value)) if path else value or True
    if "per_task" in given:
        given["per_task"] = int(given["per_task"])
    run_methods(**given, jobs=jobs, max_cost=max_cost)


def _compare_records(store: "Store", again: "Store", orders: "list[Invocation]", each_record: bool) -> bool:
    """Print how the records compare, with `each_record` one by one; return whether all are equal."""
    from rsso_dspy.reproduce import compare_runs

    # The protocol id contains the path of the examples, and the copy has another path.
    found = compare_runs(store, again, ["protocol"] if any(order.examples for order in orders) else [])
    echo(f"\n{_describe_likeness(found)}")
    lines = [
        f"{name}: {where} is {ours} in {store.folder} and {theirs} in {again.folder}"
        for name, where, ours, theirs in found.different
    ]
    lines += [f"{name} is not in {again.folder}" for name in found.missing]
    shown = SHOWN
    if each_record:
        lines, shown = [*(f"{name}: equal" for name in found.alike), *lines], len(lines) + found.equal
    for line in lines[:shown]:
        echo(f"  {line}")
    if len(lines) > shown:
        echo(f"  and {len(lines) - SHOWN} more")
    return found.equal == found.total > 0 or not (found.total or found.new)


def _describe_likeness(found: "RunComparison") -> str:
    said = f"{found.equal} of {found.total} records are equal"
    if found.apart:
        said += f", except for {', '.join(sorted(found.apart))}"
    if found.new:
        said += f"; {found.new} are new: the original run lacks them"
    if found.errored:
        said += f"; {found.errored} with errors left out"
    return said


def unzip_run(file: Path, into: Path) -> Path:
    """Unpack the run folder of a zip file. Raises `UsageError` if the file holds none."""
    try:
        with ZipFile(file) as archive:
            if sum(each.file_size for each in archive.infolist()) > MOST_UNPACKED:
                raise UsageError(f"{file} unpacks to more than {MOST_UNPACKED >> 30} GiB; unpack it yourself")
            archive.extractall(into)
    except (BadZipFile, OSError) as error:
        raise UsageError(f"{file} cannot be unpacked: {error}") from None
    runs = sorted(found.parent for found in into.rglob("run.json"))
    if len(runs) != 1:
        raise UsageError(f"{file} holds {len(runs)} runs; zip the folder of a single one")
    return runs[0]
