"""The 28 levels of AgentBoard's BabyAI as task types, and minigrid's worlds behind them. The index of a variant is the
seed of its world; level and seed fix it. Seeds 1234 to 1237 are the test of AgentBoard. Worlds of other seeds train,
but a few of them start exactly as a test world does: those are replaced (`replaced.json`)."""

from typing import Any

from rsso_dspy.environments.benchmark import QuickStudy
from rsso_dspy.environments.lessons import read_data
from rsso_dspy.environments.splits import TaskTable
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
    import gymnasium
    import minigrid  # noqa: F401 - registers the worlds
    import minigrid.envs.babyai.core.roomgrid_level as generator

    generator.print = lambda *_: None  # type: ignore[attr-defined]  # it tells of each draw that did not fit
    return gymnasium.make(f"BabyAI-{_RENAMED.get(name, name)}-v0", disable_env_checker=True).unwrapped


TEST_SEEDS = range(1234, 1238)
_TRAIN, _DEV = (0, 199), (200, 249)
_SPARE = 2000  # what is added to the seed of a world that is replaced
GOLD_LENGTH = 20  # of every variant: half as many again are the 30 steps that AgentBoard gives

TABLE = TaskTable(
    {name: {"train": _TRAIN, "dev": _DEV, "test": (TEST_SEEDS[0], TEST_SEEDS[-1])} for name in LEVELS},
    examples=("GoToRedBall",),
)


QUICK = QuickStudy(
    tasks=(
        "GoToDoor", "OpenDoorLoc", "PickupLoc", "PickupAbove", "OpenRedBlueDoorsDebug", "GoToRedBlueBall",
        "GoToSeqS5R2", "PickupDistDebug", "GoToObjDoor", "OpenDoorsOrderN4Debug", "GoToLocalS8N7", "Open", "FindObjS7",
        "GoToRedBallNoDists",
    ),
    per_task=4,
    trials=3,
    steps=20,
)  # fmt: skip
"""Levels that a model of 1.5 billion parameters solved once in two trials on training seeds 10 and 11, or twice but
once in nine steps or more, or never but with points both times and without a locked door."""


TOKENS_PER_CALL = {"actor": (1300, 10), "reflector": (3000, 115), "verbalizer": (640, 60)}
"""Means of that model in trials of 20 steps, 2x2 of 56 units; the reflector's input with two examples, as it is now."""


def get_seed(variant: Variant) -> int:
    replaced = variant.index in read_data(__package__, "replaced.json").get(variant.task, ())
    return variant.index + _SPARE if replaced else variant.index
