"""The commands that made a compiled program or a constitution, for `rsso-dspy reproduce FILE`."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

from rsso_dspy.calls import find_log_folder
from rsso_dspy.cli.options import print_status
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import read_json


def print_file_command(file: Path, replay: bool) -> None:
    """Print the command that made a compiled program or a constitution."""
    from rsso_dspy.files import find_owning_run
    from rsso_dspy.memory.constitution.file import KIND as CONSTITUTION
    from rsso_dspy.optimize.program_file import KIND as PROGRAM

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
        find_log_folder(file)
        lines[-1] += f" --replay {shlex.quote(str(file))}"
    for line in lines:
        echo(line)


def _build_compile_command(data: dict[str, Any], again: Path) -> list[str]:
    """Print the command that compiles it."""
    from rsso_dspy.optimize.calibration import PARTS
    from rsso_dspy.records import ZERO_SHOT

    print_status(f"compiled with {', '.join(f'{name} {number}' for name, number in data['versions'].items())}")
    if data["ended_by"]:
        print_status(f"its compile was interrupted ({data['ended_by']}), so a new one may get further")
    start = data.get("start", ZERO_SHOT)
    if start != ZERO_SHOT:
        print_status(f"it improved another compiled program ({start}), which is not stored: name its file after --from")
    teacher = data["identity"].get("teacher", {}).get("name")
    if teacher and teacher != "gold":
        print_status(f"its teacher was {data['teacher']}: name a --config that has the backend {teacher}")
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
    parts = {part: data.get(part) or [] for part in PARTS}
    first, calibration = _build_calibration_options(parts, data["identity"]["config"], again)
    return [*first, _join_command(["compile"], calibration | wanted, data["identity"]["config"], again)]


def _build_constitution_command(data: dict[str, Any], file: Path, again: Path) -> list[str]:
    """Print the command that builds it."""
    about = data.get("provenance", {})
    if "asked" not in about:
        learnt = ", ".join(about.get("variants", ())) or "unnamed variants"
        by = f"{about['writer']} on the backend {about['backend']}" if "writer" in about else "hand or by a merge"
        raise UsageError(f"{file} does not store its arguments; it was made by {by} from {learnt}")
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
