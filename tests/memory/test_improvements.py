"""The improvements of the reflection memory that the notes on Reflexion propose: their examples, and what they say."""

from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.loops import name_place
from rsso_dspy.memory.reflections import IMPROVEMENTS
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import State, Step

EXAMPLES = Path(__file__).parents[2] / "examples/reflection_improvements"


def take_steps(actions: str, places: str = "") -> list[Step]:
    """Steps with these actions, each of which ends at its place, where places are named."""
    looks = [f"You are in the {place}." for place in places.split()] or [""] * len(actions.split())
    return [
        Step(action, action, State("", look, ""), 0, 0, True)
        for action, look in zip(actions.split(), looks, strict=True)
    ]


def find_ending(example: str, steps: list[Step]) -> str | None:
    rules = resolve_protocol(load_config(EXAMPLES / f"{example}.toml")).rules
    return rules.find_ending(steps, None, 99, name_place)


# Improvement 2, better loop detection.


@pytest.mark.parametrize("example", ["loops", "all"])
def test_ten_actions_of_three_kinds_end_a_trial_of_the_example_of_loops(example):
    three_kinds, four_kinds = "a b c a b c a b c a", "a b c d a b c d a b"

    assert find_ending(example, take_steps(three_kinds)) == "exhausted"
    assert find_ending(example, take_steps(four_kinds)) is None


@pytest.mark.parametrize("example", ["loops", "all"])
def test_eight_steps_in_two_places_end_a_trial_of_the_example_of_loops(example):
    two_places, three_places = "x y x y x y x y", "x y x y x y x z"

    assert find_ending(example, take_steps("a b c d e f g h", two_places)) == "exhausted"
    assert find_ending(example, take_steps("a b c d e f g h", three_places)) is None


def test_no_loop_ends_a_trial_without_the_improvement():
    assert find_ending("none", take_steps("a b c a b c a b c a")) is None


# Each alone, and all together.


@pytest.mark.parametrize("improvement", IMPROVEMENTS)
def test_each_example_has_the_improvement_of_its_name_alone(improvement):
    config = load_config(EXAMPLES / f"{improvement}.toml")

    assert config.memory.reflections.improvements == (improvement,)
    assert config.protocol.exhausted_by_loop == (True if improvement == "loops" else None)


def test_the_example_of_all_has_the_eight_improvements():
    config = load_config(EXAMPLES / "all.toml")

    assert len(IMPROVEMENTS) == 8
    assert sorted(config.memory.reflections.improvements) == sorted(IMPROVEMENTS)
