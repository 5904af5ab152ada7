"""Skill libraries built from trajectories, without a language model or a simulator.

settings = make_offline_settings("release", max_window=5)
given = read_trajectories(Path("runs/first/units/sso/boil/22-s0.jsonl"))
build_library(given, embed, settings)["library"]
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from rsso_dspy.environments.benchmark import named_in
from rsso_dspy.errors import ConfigError, DamagedFile, UnknownName, UsageError
from rsso_dspy.experiment.guards import check_benchmark
from rsso_dspy.experiment.protocols import get_protocol
from rsso_dspy.files import read_json
from rsso_dspy.memory import Embed
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.memory.skills.library import create_offline_memory, parse_trajectories, serialize_update
from rsso_dspy.memory.skills.skill import Extraction, Pairs
from rsso_dspy.records import Trajectory
from rsso_dspy.store.run_folder import find_unit

WORDS = ("id", "name", "summary", "target", "instructions")

WEIGHTS = ("coverage", "reward", "state", "action", "feedback")


def build_library(given: Sequence[Trajectory], embed: Embed, settings: SkillSettings) -> dict[str, Any]:
    """Build a library from trajectories, as JSON data: ``after_each`` trajectory, and the ``library``."""
    memory = create_offline_memory(embed, settings)
    after_each = []
    for trajectory in given:
        memory.learn(trajectory)
        after_each.append(serialize_update(memory.held))
    skills = [{name: value for name, value in asdict(skill).items() if name in WORDS} for skill in memory.library]
    return {"after_each": after_each, "library": skills}


def make_offline_settings(name: str, weighted: Mapping[str, float] | None = None, **changes: Any) -> SkillSettings:
    """Override weights and values of a preset's skill settings; None changes nothing.

    Raises `UnknownName` or `ConfigError`.
    """
    wanted = {key: value for key, value in changes.items() if value is not None}
    for choice, known in (("extraction", get_args(Extraction)), ("pairs", get_args(Pairs))):
        if choice in wanted and wanted[choice] not in known:
            raise UnknownName(choice, wanted[choice], known)
    wanted |= {f"{key}_weight": value for key, value in (weighted or {}).items()}
    try:
        changed = replace(get_protocol(name).skills, **wanted)
    except ValueError as error:
        raise ConfigError(f"these skill settings contradict each other: {error}") from None
    counted = [changed.coverage_weight, changed.reward_weight, changed.state_weight, changed.action_weight]
    if sum(counted) + changed.feedback * changed.feedback_weight <= 0:
        raise ConfigError("all score weights are 0; set one of them, e.g. --weights state=1")
    return changed


def parse_weights(text: str) -> dict[str, float]:
    """Parse comma-separated ``name=number`` pairs. Raises `UnknownName` or `UsageError`."""
    found: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in WEIGHTS:
            raise UnknownName("weight", name, WEIGHTS, "Write --weights coverage=0.01,reward=0.1,state=1,action=1.")
        try:
            found[name] = float(value)
        except ValueError:
            found[name] = math.nan
        if not 0 <= found[name] < math.inf:
            raise UsageError(f"--weights {name}={value}: expected a number from 0 up, e.g. {name}=0.1")
    return found


def read_trajectories(file: Path, case: int | None = None, benchmark: str | None = None) -> list[Trajectory]:
    """Read the trajectories of a file.

    The file is a list of them, ``{"trajectories": [...]}``, ``{"cases": [...]}`` of such (``case``, from 1, selects
    one), or the log of a run's unit (``.jsonl``), which must belong to the ``benchmark`` if named. Raises `UsageError`
    naming fault and place.
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
            return _read_unit_trajectories(file, benchmark)
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


def _read_unit_trajectories(file: Path, benchmark: str | None) -> list[Trajectory]:
    """Return the trajectories of played trials; an errored trial has none."""
    record = find_unit(file)
    if record is None:
        raise UsageError("it is no log of a unit with a finished trial, or damaged")
    if not record.trajectories:
        raise UsageError("it has no finished trial")
    if benchmark and (made_on := named_in(record.provenance)):
        check_benchmark("it", made_on, benchmark)
    return list(record.trajectories)
