"""The benchmarks that come with the project besides the default one go through the verbs."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
from tests.cli.conftest import mark_confirmed

PLAYED = {
    "pddl": ("gripper", "gripper::52"),
    "babyai": ("GoToRedBall", "GoToRedBall::1235"),
    "alfworld": ("pick_and_place_simple", "pick_and_place_simple::825"),
    "house-rules": ("psql-port", "psql-port::8"),
    "tau2": ("service_issue", "service_issue::14"),
    "textworld-express": ("coin", "coin::20001"),
}
NEEDS = {
    "babyai": "minigrid",
    "alfworld": "alfworld",
    "pddl": "json",
    "house-rules": "json",
    "tau2": "tau2",
    "textworld-express": "textworld_express",
}
FAST = ("--set", "embedder.model=hash")
EACH = pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.skipif(find_spec(NEEDS[each]) is None, reason=f"without the extra {each}"))
        for each in PLAYED
    ],
)


@EACH
def test_tasks_are_listed_and_a_little_is_played(rsso, name):
    code, out, _ = rsso("tasks", "--benchmark", name)
    benchmark = get_benchmark(name)
    assert (code, len(out.splitlines())) == (0, 3 + len(benchmark.tasks.names()) + len(list_benchmarks()))
    most = benchmark.budget.most_steps
    is_limited = most is not None
    assert (f"{name} ends a trial after {most}" in " ".join(out.split()), f" {most}-{most}" in out) == (is_limited,) * 2
    assert f"\n{name} {benchmark.version}\n" in out, "it is listed"
    assert f"{name} {benchmark.version} plays" in rsso("doctor", "--set", f"benchmark={name}", *FAST)[1]


@EACH
def test_prompts_are_compiled_and_a_constitution_is_built_on_training_variants_only(rsso, name):
    task, _ = PLAYED[name]
    on = ("--benchmark", name, "--tasks", task, *FAST)
    words = ("compile", "--method", "reflexion", "--optimizer", "gepa", "--max-rollouts", "4", *on)
    build = ("constitution", "build", "--writer", "symbolic", "--explore", "1", *on)
    code, _, err = rsso(*words, "-o", "mine.json")
    assert code == 0, err
    assert json.loads(Path("mine.json").read_text())["environment"]["name"] == name
    mark_confirmed("mine.json")
    evaluate = ("evaluate", "mine.json", "--per-task", "1", "--trials", "1", *FAST)
    code, _, err = rsso(*evaluate, "--out", "e")
    assert code == 0, err
    assert json.loads(Path("e/run.json").read_text())["identity"]["benchmark"].startswith(name)
    for elsewhere in (("--benchmark", "scienceworld"), ("--set", "benchmark=scienceworld")):
        code, _, err = rsso(*evaluate, *elsewhere, "--out", "f")
        assert (code, f"was made on the benchmark {name}" in " ".join(err.split())) == (2, True), err
    code, _, err = rsso(*build, "-o", "c.json")
    assert (code, "rules" in Path("c.json").read_text()) == (0, True), err


@EACH
def test_a_run_of_the_offline_player_is_replayed_to_equal_records(rsso, name):
    _, held_out = PLAYED[name]
    run = ("run", "--benchmark", name, "--methods", "react,rsso", "--variants", held_out, "--trials", "2", *FAST)
    code, _, err = rsso(*run, "--jobs", "2", "--out", "played")
    assert code == 0, err
    code, out, err = rsso("run", "--replay", "played", "--out", "replayed")
    assert (code, "equal: 2 of 2 records are equal" in out + err) == (0, True), out + err
