"""The 28 levels as task types. The index of a variant is the seed of its world.

Seeds 1234 to 1237 are the test of AgentBoard. Worlds of other seeds train, but a few of them start exactly as a test
world does: those are replaced (`replaced.json`, made by `find_equal_starts`).
"""

import json
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any

from rsso_dspy.environments.babyai.levels import LEVELS, make_world
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import GoldUnknown
from rsso_dspy.records import Variant

TEST_SEEDS = range(1234, 1238)
_TRAIN, _DEV = (0, 199), (200, 249)
_SPARE = 2000
"""What is added to the seed of a world that is replaced."""

GOLD_LENGTH = 20
"""What stands for the gold length of every variant: half as many again are the 30 steps that AgentBoard gives."""

TABLE = TaskTable(
    {name: {"train": _TRAIN, "dev": _DEV, "test": (TEST_SEEDS[0], TEST_SEEDS[-1])} for name in LEVELS},
    example="GoToRedBall::1234",
)


def get_seed(variant: Variant) -> int:
    """The seed of a variant's world."""
    replaced = variant.index in _read_replaced().get(variant.task, ())
    return variant.index + _SPARE if replaced else variant.index


@cache
def _read_replaced() -> dict[str, list[int]]:
    text = resources.files(__package__).joinpath("replaced.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


@cache
def read_solutions() -> dict[str, dict[str, Any]]:
    """Level to one of its training variants (``seed``) and the actions that win it."""
    text = resources.files(__package__).joinpath("solutions.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def find_solution(variant: Variant) -> tuple[str, ...]:
    """The actions that win a training variant. Raises ``GoldUnknown`` for all but one of each level."""
    known = read_solutions()[variant.task]
    if variant.index != known["seed"]:
        raise GoldUnknown(f"no solution of {variant.key} is known: {variant.task}::{known['seed']} has one")
    return tuple(known["actions"])


def describe_start(world: Any, seed: int) -> tuple[object, ...]:
    """Everything about the start of a world: two that are equal here play alike."""
    world.reset(seed=seed)
    carried = world.carrying
    held = None if carried is None else (carried.type, carried.color)
    return world.mission, *map(int, world.agent_pos), int(world.agent_dir), held, world.grid.encode().tobytes()


def find_equal_starts(name: str, seeds: range) -> Iterator[int]:
    """Those of the seeds whose worlds start as a test world of the level does."""
    world = make_world(name)
    tests = {describe_start(world, seed) for seed in TEST_SEEDS}
    yield from (seed for seed in seeds if describe_start(world, seed) in tests)
