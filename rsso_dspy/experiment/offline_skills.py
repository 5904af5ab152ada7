"""Skill libraries built from trajectories, without a language model or a simulator.

settings = get_protocol("release").skills
given = read_trajectories(Path("runs/first/units/sso/boil/22-s0.jsonl"))
build_library(given, embed, settings)["library"]
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.memory import Embed
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.memory.skills.library import create_offline_memory, parse_trajectories, serialize_update
from rsso_dspy.records import Trajectory
from rsso_dspy.store.run_folder import find_unit

WORDS = ("id", "name", "summary", "target", "instructions")


def build_library(given: Sequence[Trajectory], embed: Embed, settings: SkillSettings) -> dict[str, Any]:
    """Build a library from trajectories, as JSON data: ``after_each`` trajectory, and the ``library``."""
    memory = create_offline_memory(embed, settings)
    after_each = []
    for trajectory in given:
        memory.learn(trajectory)
        after_each.append(serialize_update(memory.held))
    skills = [{name: value for name, value in asdict(skill).items() if name in WORDS} for skill in memory.library]
    return {"after_each": after_each, "library": skills}


def read_trajectories(file: Path, case: int | None = None) -> list[Trajectory]:
    """Read the trajectories of a file.

    The file is a list of them, ``{"trajectories": [...]}``, ``{"cases": [...]}`` of such (``case``, from 1, selects
    one), or the log of a run's unit (``.jsonl``). Raises `UsageError` naming fault and place.
    """
    try:
        data = None if file.suffix == ".jsonl" and file.exists() else read_json(file)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from None
    except DamagedFile as error:
        raise UsageError(f"{file} is not JSON ({error.why})") from None
    try:
        if isinstance(data, dict) and "cases" in data:
            data = _select_case(data["cases"], case)
        elif case is not None:
            raise UsageError("it holds no cases; drop --case")
        if data is None:
            return _read_unit_trajectories(file)
        if isinstance(data, dict) and "trajectories" not in data:
            raise UsageError("it holds no `trajectories` and no `cases`; see `rsso-dspy skills build --help`")
        return parse_trajectories(data["trajectories"] if isinstance(data, dict) else data)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None


def _select_case(cases: Any, case: int | None) -> Any:
    if not isinstance(cases, list) or not cases:
        raise UsageError("`cases` must be a list of cases")
    known = f"--case 1 to --case {len(cases)}"
    if case is None and len(cases) > 1:
        raise UsageError(f"it holds {len(cases)} cases; choose one, {known}")
    if case is not None and not 1 <= case <= len(cases):
        raise UsageError(f"there is no case {case}; it holds {known}")
    return cases[(case or 1) - 1]


def _read_unit_trajectories(file: Path) -> list[Trajectory]:
    """Return the trajectories of played trials; an errored trial has none."""
    record = find_unit(file)
    if record is None:
        raise UsageError("it is no log of a unit with a finished trial, or damaged")
    if not record.trajectories:
        raise UsageError("it has no finished trial")
    return list(record.trajectories)
