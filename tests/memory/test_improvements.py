"""The improvements of the reflection memory that the notes on Reflexion propose: their examples, and what they say."""

from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.loops import name_place
from rsso_dspy.memory.reflections import IMPROVEMENTS, ReflectionMemory, ReflectionSettings
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import State, Step
from rsso_dspy.signatures import Reflect
from rsso_dspy.signatures.memory_writers import add_reflection_fields
from tests.memory.memory_cases import Answer, lend, walk

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


def write_plan(improvement: str, **answer) -> str:
    """What is kept of a reflector's answer about a failed trial of three steps, `act b`, `act c` and `act d`."""
    settings = ReflectionSettings(improvements=frozenset({improvement}))
    memory = ReflectionMemory(lend(lambda *_, **__: Answer(answer), reflections=settings))
    memory.learn(walk("a b c+10 d"))
    return memory.preamble().text


# Improvement 1, structured reflections.

STRUCTURED_OF_THE_NOTES = {
    "failed_action_pattern": "Repeated 'examine' action 4 times",
    "root_cause": "Did not use 'heat X with Y' command",
    "missing_exploration": "Never checked stoveburner 2, 3, 4",
    "strategy_adjustment": "Use heating command instead of examine",
    "priority_locations": ["stoveburner 2", "microwave 1"],
}
"""The notes' own example."""


def test_a_structured_reflector_is_asked_for_the_five_aspects_of_the_notes():
    asked = add_reflection_fields(Reflect, frozenset({"structured"})).output_fields

    assert set(asked) - set(Reflect.output_fields) == set(STRUCTURED_OF_THE_NOTES)
    assert asked["priority_locations"].annotation == list[str]


def test_each_aspect_of_a_structured_reflection_is_kept():
    kept = write_plan("structured", **STRUCTURED_OF_THE_NOTES, mistakes="", plan="Heat the egg.")

    for aspect, said in STRUCTURED_OF_THE_NOTES.items():
        assert (", ".join(said) if isinstance(said, list) else said) in kept, aspect
    assert "Heat the egg." in kept


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


# Improvement 7, counterfactual reasoning: CRITICAL FAILURE, at step X, I did Y; SHOULD HAVE DONE; EXPECTED OUTCOME.

COUNTERFACTUAL = {
    "critical_step": 2,
    "should_have_done": "heat egg 1 with microwave 1",
    "expected_outcome": "Would have reached the goal in 3 more steps",
}


def test_a_counterfactual_reflector_is_asked_what_the_notes_ask():
    asked = add_reflection_fields(Reflect, frozenset({"counterfactual"})).output_fields

    assert set(asked) - set(Reflect.output_fields) == set(COUNTERFACTUAL)
    assert asked["critical_step"].annotation is int


def test_the_critical_step_its_action_and_what_it_should_have_been_are_kept():
    kept = write_plan("counterfactual", **COUNTERFACTUAL, mistakes="", plan="Heat the egg.")

    assert "2, act c" in kept, "at step X, I did Y"
    assert "heat egg 1 with microwave 1" in kept
    assert "Would have reached the goal in 3 more steps" in kept


def test_a_critical_step_that_was_never_taken_is_not_kept():
    assert "heat egg 1" not in write_plan(
        "counterfactual", **{**COUNTERFACTUAL, "critical_step": 9}, plan="Heat the egg."
    )


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
