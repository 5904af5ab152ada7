"""The 28 levels of AgentBoard's BabyAI as task types, minigrid's worlds behind them, and AgentBoard's labels.

The index of a variant is the seed of its world; level and seed fix it. Seeds 1234 to 1237 are the test of AgentBoard.
Worlds of other seeds train, but a few of them start exactly as a test world does: those are replaced (`replaced.json`).

This project holds no labels: ``environment.data`` names the user's ``test.jsonl``, or a folder with it, as it is or in
``babyai/``. Its lines are the 112 test worlds in AgentBoard's order, each with the patterns that its progress goes by.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from rsso_dspy.environments.lessons import read_data
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import DamagedFile, GoldUnknown, UsageError
from rsso_dspy.files import parse_json, read_text
from rsso_dspy.records import Variant

_NAMES = (
    "GoToRedBallGrey GoToRedBall GoToRedBallNoDists GoToObjS6 GoToLocalS8N7 GoToObjMazeS7 GoToImpUnlock "
    "GoToSeqS5R2 GoToRedBlueBall GoToDoor GoToObjDoor Open OpenRedDoor OpenDoorLoc OpenRedBlueDoorsDebug "
    "OpenDoorsOrderN4Debug Pickup UnblockPickup PickupLoc PickupDistDebug PickupAbove Unlock UnlockLocalDist "
    "UnlockPickupDist BlockedUnlockPickup UnlockToUnlock FindObjS7 KeyCorridorS6R3"
)
LEVELS = tuple(_NAMES.split())  # in AgentBoard's order

THROUGH_LOCKED_DOORS = frozenset(
    {"GoToImpUnlock", "UnlockPickupDist", "BlockedUnlockPickup", "UnlockToUnlock", "KeyCorridorS6R3"}
)
"""Levels whose missions lead through their locked doors."""

_RENAMED = {"GoToObjS6": "GoToObjS4"}  # what a level that was made anew since was called before its rooms grew


def make_world(name: str) -> Any:
    """minigrid's world of a level, without wrappers. `reset` it with a seed."""
    import gymnasium
    import minigrid  # noqa: F401 - registers the worlds
    import minigrid.envs.babyai.core.roomgrid_level as generator

    generator.print = lambda *_: None  # type: ignore[attr-defined]  # it tells of each draw that did not fit
    return gymnasium.make(f"BabyAI-{_RENAMED.get(name, name)}-v0", disable_env_checker=True).unwrapped


TEST_SEEDS = range(1234, 1238)
_TRAIN, _DEV = (0, 199), (200, 249)
_SPARE = 2000  # what is added to the seed of a world that is replaced

GOLD_LENGTH = 20
"""What stands for the gold length of every variant: half as many again are the 30 steps that AgentBoard gives."""

TABLE = TaskTable(
    {name: {"train": _TRAIN, "dev": _DEV, "test": (TEST_SEEDS[0], TEST_SEEDS[-1])} for name in LEVELS},
    example="GoToRedBall::1234",
)


def get_seed(variant: Variant) -> int:
    replaced = variant.index in read_data(__package__, "replaced.json").get(variant.task, ())
    return variant.index + _SPARE if replaced else variant.index


def read_solutions() -> Mapping[str, Mapping[str, Any]]:
    """Level to one of its training variants (``seed``) and the actions that win it."""
    return dict(read_data(__package__, "solutions.json"))


def find_solution(variant: Variant) -> tuple[str, ...]:
    """The actions that win a training variant. Raises ``GoldUnknown`` for all but one of each level."""
    known = read_solutions()[variant.task]
    if variant.index != known["seed"]:
        raise GoldUnknown(f"no solution of {variant.key} is known: {variant.task}::{known['seed']} has one")
    return tuple(known["actions"])


_PLACES = ("", "test.jsonl", "babyai/test.jsonl")


def reword(mission: str) -> str:
    """The goal as AgentBoard's wrapper words it, in which the order of two parts is lost."""
    return mission.replace("then", "and").replace("after you", "and")


def digest_labels(folder: str) -> str:
    """16 hexadecimal digits over the labels. Raises ``UsageError`` when there are none, ``DamagedFile`` when they
    cannot be read."""
    path = _find_file(folder)
    text = read_text(path)
    _read_rows(str(path), text)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def get_patterns(folder: str, variant: Variant, mission: str) -> list[list[str]] | None:
    """The patterns of a test variant; None where the labels have none for it. Raises as `digest_labels`, and for labels
    that are of another mission."""
    path = _find_file(folder)
    place = LEVELS.index(variant.task) * len(TEST_SEEDS) + variant.index - TEST_SEEDS[0]
    row = _read_rows(str(path), read_text(path))[place]
    said = row.get("goal")
    if said not in (None, mission, reword(mission)):
        raise DamagedFile(path, f"line {place + 1}: it is of {said!r}, and {variant.key} of {mission!r}")
    about = row.get("additional_info")
    try:
        return read_patterns({**(about if isinstance(about, dict) else {}), **row})
    except (LookupError, TypeError, ValueError) as error:
        raise DamagedFile(path, f"line {place + 1}: {error}") from None


def read_patterns(row: Mapping[str, Any]) -> list[list[str]] | None:
    """The patterns of an episode: one list, or several that stand for each other (``subgoals_1``, ...)."""
    several = [row[key] for key in sorted(row) if key.startswith("subgoals_") and row[key]]
    given = row.get("subgoals")
    if isinstance(given, Mapping):
        several, given = [given[key] for key in sorted(given)], None
    lists = several or ([given] if given else [])
    if lists and isinstance(lists[0][0], list):
        lists = lists[0]
    if not all(isinstance(text, str) for each in lists for text in each) or len({len(each) for each in lists}) > 1:
        raise ValueError("subgoals are one list of texts, or several of one length")
    return lists or None


def _find_file(folder: str) -> Path:
    tried = [Path(folder, place) for place in _PLACES]
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        raise UsageError(f"no labels: looked for {tried[1]} and {tried[2]}")
    return found


@lru_cache(maxsize=4)
def _read_rows(path: str, text: str) -> tuple[Mapping[str, Any], ...]:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            row = parse_json(line, Path(path))
        except DamagedFile as error:
            raise DamagedFile(path, f"line {number}: {error.why}") from None
        if not isinstance(row, dict):
            raise DamagedFile(path, f"line {number}: it is no object")
        rows.append(row)
    expected = len(LEVELS) * len(TEST_SEEDS)
    if len(rows) != expected:
        raise DamagedFile(path, f"it has {len(rows)} lines, and there are {expected} test worlds")
    return tuple(rows)
