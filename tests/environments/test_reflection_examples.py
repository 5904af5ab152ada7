"""Examples of reflections that come with each benchmark: played attempts, and plans that solve them."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import rsso_dspy
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import BUILT_IN, get_benchmark
from rsso_dspy.experience import read_named_experience
from rsso_dspy.programs.methods import get_method
from rsso_dspy.protocol import make_reflection_settings
from scripts.write_reflection_examples import (
    DATA,
    EXTRAS,
    Attempt,
    list_settings,
    play_actions,
    read_attempts,
    write_file,
)


@pytest.fixture(params=BUILT_IN)
def benchmark(request, monkeypatch) -> str:
    if (package := EXTRAS.get(request.param)) and find_spec(package) is None:
        pytest.skip(f"the extra {request.param} is not installed")
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    return request.param


def find_file(benchmark: str) -> Path:
    return Path(rsso_dspy.__file__).parent / f"environments/{benchmark.replace('-', '_')}/data/reflections.toml"


def load(benchmark: str):
    overrides = [f"benchmark={benchmark}", f"memory.reflections.examples={find_file(benchmark)}"]
    return load_config(overrides=overrides)


def load_examples(benchmark: str):
    return make_reflection_settings(load(benchmark)).examples


def test_a_benchmarks_examples_are_a_few_calls_of_the_reflector(benchmark):
    examples = load_examples(benchmark)

    assert 2 <= len(examples) <= 4
    assert all(set(example) == {"task", "transcript", "outcome", "mistakes", "plan"} for example in examples)


def test_a_benchmarks_examples_are_of_development_variants_of_as_many_task_types(benchmark):
    (experience,) = read_named_experience(load(benchmark), [get_method("reflexion")])
    table = get_benchmark(benchmark).take_tasks(DATA.get(benchmark)).tasks
    variants = [table.parse(key) for key in experience.variants]

    assert {variant.split for variant in variants} == {"dev"}
    assert len({variant.task for variant in variants}) == len(variants) == len(load_examples(benchmark))
    assert experience.benchmark == benchmark
    assert not experience.unknown


def test_a_benchmarks_examples_are_what_the_environment_says_today(benchmark):
    assert find_file(benchmark).read_text(encoding="utf-8") == write_file(benchmark)


def test_the_plan_of_an_example_solves_its_variant(benchmark):
    with rsso_dspy.session(load_config(overrides=list_settings(benchmark))) as live:
        for attempt in read_attempts(benchmark):
            trajectory, _ = play_actions(attempt.variant, attempt.solved, live)

            assert trajectory.solved, attempt.variant
            assert len(trajectory.steps) == len(attempt.solved)


def list_quoted(text: str) -> list[str]:
    return re.findall("`([^`]+)`", text)


def test_the_actions_that_a_plan_names_are_those_that_solve_in_their_order(benchmark):
    for attempt in read_attempts(benchmark):
        left = iter(attempt.solved)

        assert all(action in left for action in list_quoted(attempt.plan)), attempt.plan


def is_short(attempt: Attempt) -> bool:
    """One sentence on what went wrong and a plan of at most two."""
    wrong, plan = (re.findall(r"[.!?](?: |$)", text) for text in (attempt.mistakes, attempt.plan))
    return len(wrong) == 1 and len(plan) <= 2


def test_a_reflection_is_short(benchmark):
    attempts = read_attempts(benchmark)

    assert all(is_short(attempt) for attempt in attempts)
    assert all(len(attempt.failed) <= 8 for attempt in attempts)
