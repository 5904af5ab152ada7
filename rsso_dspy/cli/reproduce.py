"""`rsso-dspy reproduce`: print the command that made a run, or play it again and compare the records."""

import json
import os
import shlex
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any
from zipfile import BadZipFile, ZipFile

import typer

from rsso_dspy.cli.options import Jobs, MaxCost, Overrides, format_plural, print_status
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.recordings import MOST_UNPACKED, find_recordings
from rsso_dspy.report.terminal import replace_controls
from rsso_dspy.safe_read import read_json

if TYPE_CHECKING:
    from rsso_dspy.store.manifest import Invocation
    from rsso_dspy.store.unit_store import Store
    from rsso_dspy.workflows.reproduce import RunComparison

SHOWN = 10
"""Maximum number of listed differences."""


def reproduce_run(
    source: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a run or a sweep, or a compiled program or constitution.")
    ],
    out: Annotated[Path | None, typer.Option(help="Folder to play into (default: RUN-again).")] = None,
    play: Annotated[bool, typer.Option("--run", help="Play the run again and compare the records one by one.")] = False,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Replay the run's recordings (run --record) without asking a model. With --run, the new folder is "
            "removed unless --out names it; RUN may be a zip file.",
        ),
    ] = False,
    jobs: Jobs = 1,
    max_cost: MaxCost = None,
    set_: Overrides = None,
) -> None:
    """Print the shell command that made a run and what has changed since, or play the run again and compare.

    A run keeps its arguments and copies of its input files, so nothing else is needed. On the embedded backend all
    records come out equal byte for byte. The exit code is 1 if a record differs or is missing.
    """
    with ExitStack() as until_the_end:
        if play and replay and out is None:
            out = Path(until_the_end.enter_context(TemporaryDirectory(prefix="rsso-dspy-"))) / "again"
        if replay and source.suffix == ".zip":
            source = unzipped(source, Path(until_the_end.enter_context(TemporaryDirectory(prefix="rsso-dspy-"))))
        if not _reproduced(source, out, play, replay, jobs, max_cost, set_ or []):
            raise typer.Exit(1)


def _reproduced(
    source: Path, out: Path | None, play: bool, replay: bool, jobs: int, max_cost: float | None, more: list[str]
) -> bool:
    """Print or play; return whether all played records are equal."""
    from rsso_dspy.store.unit_store import Store

    there = Path(os.path.realpath(source))
    target = out or there.with_name(f"{there.name}-again")
    if out is None and not source.is_absolute() and source.name:
        target = source.with_name(target.name)
    if source.is_file():
        if play:
            raise UsageError(
                f"{source} is a file, but --run plays runs only; run the command that is printed without it"
            )
        _print_file_command(source, replay)
        return True
    runs = [source] if (source / "run.json").exists() else sorted(file.parent for file in source.glob("*/run.json"))
    if not runs:
        Store(source).read_identity()
    if runs != [source]:
        print_status(f"{source} holds {format_plural(runs, 'run')} of a sweep")
    whole = True
    for folder in runs:
        store = Store(folder)
        store.read_only = True
        into = target if folder == source else target / folder.name
        whole &= _reproduce_folder(store, into, play, replay, jobs, max_cost, more)
    return whole


def _reproduce_folder(
    store: "Store", out: Path, play: bool, replay: bool, jobs: int, max_cost: float | None, more: list[str]
) -> bool:
    """Print or play the commands of one run; return whether its records are equal."""
    from rsso_dspy.store.unit_store import Store
    from rsso_dspy.workflows.reproduce import (
        has_finished_records,
        list_changes,
        list_unknown_methods,
        recover_invocations,
    )

    try:
        orders = recover_invocations(store, _print_quoted)
    except UsageError as error:  # may quote the arguments
        raise UsageError(replace_controls(str(error))) from None
    if out.resolve() == store.folder.resolve():
        raise UsageError(f"{out} is the original run; name another --out")
    if replay:
        find_recordings(store.folder)
    changed = list_changes(store, orders, replay)
    for change in changed:
        _print_quoted(f"{'will' if change.certain else 'may'} differ: {change.what}")
    if others := list_unknown_methods(orders):
        _print_quoted(f"{', '.join(others)}: unknown method; run the script that adds it instead of rsso-dspy")
    if not has_finished_records(store):
        print_status("no record is left that names the commit and the models")
    elif not changed:
        print_status("nothing has changed since: the records will be equal byte for byte")
    given = {setting.partition("=")[0].strip() for setting in more}
    for key in dict.fromkeys(key for order in orders for key in order.withheld if key not in given and not replay):
        _print_quoted(f"{key} held a password or a query, which is not stored: add --set {key}=ADDRESS")
    answers: dict[str, str | list[str]] = {"--replay": str(store.folder)} if replay else {}
    options = [{**order.to_options(store.folder, more), **answers, "--out": str(out)} for order in orders]
    if not play:
        for each in options:
            echo(replace_controls(_format_run_command(each)))
        return True
    if certain := [change.what for change in changed if change.certain]:
        raise UsageError(
            f"not played: it would be another run ({replace_controls('; '.join(certain))}). Install the original "
            "versions, or "
            "run the command that is printed without --run"
        )
    if not replay and (addresses := _list_addresses(options)):
        _print_quoted(f"requests go to {', '.join(addresses)}")
    for each in options:
        _play_command(each, jobs, max_cost)
    again = Store(out)
    again.read_only = True
    return _compare_records(store, again, orders, each_record=replay)


def _list_addresses(options: "list[dict[str, str | list[str]]]") -> list[str]:
    """Return the remote addresses that the commands send requests to, as chosen by the author of the folder."""
    from rsso_dspy.config import load_config
    from rsso_dspy.store.manifest import list_remote_addresses

    configs = [load_config(Path(str(each["--config"])), each.get("--set", ())) for each in options]
    return list(dict.fromkeys(address for config in configs for address in list_remote_addresses(config)))


def _print_quoted(text: str) -> None:
    """Print a line on stderr that may quote a folder or a file."""
    print_status(replace_controls(text))


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
    from rsso_dspy.workflows.reproduce import compare_runs

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
        echo(replace_controls(f"  {line}"))
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


def unzipped(file: Path, into: Path) -> Path:
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


def _print_file_command(file: Path, replay: bool) -> None:
    """Print the command that made a compiled program or a constitution."""
    from rsso_dspy.atomic import find_owning_run
    from rsso_dspy.optimize.compiled import KIND as PROGRAM
    from rsso_dspy.workflows.reproduce import CONSTITUTION

    try:
        data = read_json(file)
    except (OSError, DamagedFile) as error:
        raise UsageError(
            f"{file} is neither a run's folder nor a compiled program or constitution ({error}); name one of these"
        ) from None
    kind = data.get("kind") if isinstance(data, dict) else None
    again = file.with_name(f"{file.stem}-again.json")
    if find_owning_run(again):  # a run keeps its input files there
        again = Path(again.name)
    try:
        if kind == PROGRAM:
            lines = _build_compile_command(data, again)
        elif kind == CONSTITUTION:
            lines = _build_constitution_command(data, file, again)
        else:
            raise UsageError(
                f"{file} is neither a run's folder nor a compiled program or constitution; name one of these"
            )
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} is damaged, or of another version ({type(error).__name__}: {error})") from None
    if replay:
        find_recordings(file)
        lines[-1] += f" --replay {shlex.quote(str(file))}"
    for line in lines:
        echo(replace_controls(line))


def _build_compile_command(data: dict[str, Any], again: Path) -> list[str]:
    """Print the command that compiles it."""
    from rsso_dspy.optimize.calibration import PARTS, rename_old_parts
    from rsso_dspy.records import ZERO_SHOT

    _print_quoted(f"compiled with {', '.join(f'{name} {number}' for name, number in data['versions'].items())}")
    if data["ended_by"]:
        _print_quoted(f"its compile was interrupted ({data['ended_by']}), so a new one may get further")
    start = data.get("start", ZERO_SHOT)
    if start != ZERO_SHOT:
        _print_quoted(
            f"it improved another compiled program ({start}), which is not stored: name its file after --from"
        )
    teacher = data["identity"].get("teacher", {}).get("name")
    if teacher and teacher != "gold":
        _print_quoted(f"its teacher was {data['teacher']}: name a --config that has the backend {teacher}")
    wanted = {
        "--method": data["method"],
        "--optimizer": data["optimizer"],
        "--compile-trials": data["trials"],
        "--compile-steps": data["steps"],
        "--max-rollouts": data["max_rollouts"],
        "--max-lm-calls": data["max_lm_calls"],
        "--max-cost": data.get("max_cost"),
        "--max-idle": data.get("max_idle"),
        "--roles": ",".join(data.get("roles") or ()) or None,
        "--from": None if start == ZERO_SHOT else "START.json",
        "--seeds": data.get("seeds", 1) if data.get("seeds", 1) != 1 else None,
        "--teacher": teacher,
        "--demo-tokens": data.get("demo_tokens"),
    }
    data = rename_old_parts(data)
    parts = {part: data.get(part) or [] for part in PARTS}
    first, calibration = _build_calibration_options(parts, data["identity"]["config"], again)
    return [*first, _join_command(["compile"], calibration | wanted, data["identity"]["config"], again)]


def _build_constitution_command(data: dict[str, Any], file: Path, again: Path) -> list[str]:
    """Print the command that builds it."""
    about = data.get("provenance", {})
    if "asked" not in about:
        learnt = ", ".join(about.get("variants", ())) or "unnamed variants"
        by = f"{about['writer']} on the backend {about['backend']}" if "writer" in about else "hand or by a merge"
        raise UsageError(replace_controls(f"{file} does not store its arguments; it was made by {by} from {learnt}"))
    config, keys = about["asked"]["config"], about["asked"]["calibration"]
    wanted = {"--writer": about["writer"].removeprefix("omnireflect-"), "--explore": about["asked"]["explore"]}
    first, calibration = _build_calibration_options({"train": keys}, config, again)
    return [*first, _join_command(["constitution", "build"], calibration | wanted, config, again)]


def _join_command(verb: list[str], wanted: dict[str, Any], config: dict[str, Any], again: Path) -> str:
    from rsso_dspy.workflows.reproduce import list_changed_settings

    words = [word for name, value in wanted.items() if value is not None for word in (name, str(value))]
    settings = [word for each in list_changed_settings(config) for word in ("--set", each)]
    return shlex.join(["rsso-dspy", *verb, *words, "--config", os.devnull, *settings, "-o", str(again)])


def _build_calibration_options(
    parts: dict[str, list[str]], config: dict[str, Any], again: Path
) -> tuple[list[str], dict[str, str]]:
    """Return the options that select these calibration variants.

    If no draw yields them, a command that writes them to a file comes first. With `train` alone, the other parts are
    not checked.
    """
    from rsso_dspy.optimize.calibration import CONFIRM_SHARE, draw_calibration
    from rsso_dspy.workflows.reproduce import get_run_benchmark

    of, train = get_run_benchmark(config), parts["train"]
    tasks, alone = list(dict.fromkeys(key.partition("::")[0] for key in train)), len(parts) == 1
    for many in range(1, len(train) + 1):
        drawn = draw_calibration(
            f"{many}-per-task", tasks, config["seed"], of=of, confirm_share=0 if alone else CONFIRM_SHARE
        )
        found = {part: [variant.key for variant in getattr(drawn, part)] for part in parts}
        if found == parts or (alone and sorted(found["train"]) == train):
            return [], {"--calib": f"{many}-per-task", "--tasks": ",".join(tasks)}
    file = again.with_suffix(".calib.json")
    if alone:  # a file has to name some val variants
        others = [variant.key for variant in draw_calibration("1-per-task", tasks, config["seed"], of=of).variants]
        parts = {"train": train, "val": [key for key in others if key not in train][:1]}
    text = json.dumps({part: keys for part, keys in parts.items() if keys})
    return [f"printf '%s\\n' {shlex.quote(text)} > {shlex.quote(str(file))}"], {"--calib": str(file)}
