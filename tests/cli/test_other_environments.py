"""The benchmarks that come with the project besides the default one go through the verbs."""

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import typer

from rsso_dspy.cli.play import exit_if_incomplete
from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
from rsso_dspy.executor import RunOutcome
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.records import Failure
from rsso_dspy.store.run_folder import Arm, Store, Unit
from rsso_dspy.store.unit_log import dump_record
from tests.cli.conftest import mark_confirmed
from tests.records import record

PLAYED = {
    "pddl": ("gripper", "gripper::52"),
    "babyai": ("GoToRedBall", "GoToRedBall::1235"),
    "alfworld": ("pick_and_place_simple", "pick_and_place_simple::825"),
}
NEEDS = {"babyai": "minigrid", "alfworld": "alfworld", "pddl": "json"}
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
    assert (f"{name} ends a trial after 50" in " ".join(out.split()), f" {most}-{most}" in out) == (most == 50,) * 2
    assert f"\n{name} {benchmark.version}\n" in out, "it is listed"
    assert f"{name} {benchmark.version} plays" in rsso("doctor", "--set", f"benchmark={name}", *FAST)[1]


def read_units(folder: str) -> list[dict[str, Any]]:
    return list(map(dump_record, Store(Path(folder), read_only=True).units()))


@EACH
def test_in_shards_and_from_recorded_answers_it_is_the_same_run(rsso, name):
    task, _ = PLAYED[name]
    trials, methods = ("1", "react") if name == "alfworld" else ("2", "react,rsso")  # where two take long
    what = ("--benchmark", name, "--methods", methods, "--tasks", task, "--per-task", "2", "--trials", trials, *FAST)
    code, _, err = rsso("run", *what, "--out", "whole")
    assert code == 0, err
    records = read_units("whole")
    assert len(records) == 2 * len(methods.split(","))
    for more in ("--shard 1/2 --out part1", "--shard 2/2 --out part2", "--replay whole --out replayed"):
        assert rsso("run", *what, *more.split())[0] == 0
    parts = sorted(read_units("part1") + read_units("part2"), key=records.index)
    assert parts == read_units("replayed") == records


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
    evaluate = ("evaluate", "mine.json", "--per-task", "1", "--trials", "1", "--set", f"benchmark={name}", *FAST)
    code, _, err = rsso(*evaluate, "--out", "e")
    assert code == 0, err
    code, _, err = rsso(*build, "-o", "c.json")
    assert (code, "rules" in Path("c.json").read_text()) == (0, True), err


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("EnvironmentFailure", ["boil::22 was skipped, and would be again: EnvironmentFailure: no", "--variants"]),
        ("SimulatorDied", ["1 ended in errors; repeat the command"]),
    ],
)
def test_repeating_is_advised_only_where_it_may_help(capsys, kind, says):
    errored = record("react", "boil", 22, [None])
    errored = replace(errored, trials=(replace(errored.trials[0], failure=Failure(kind, "no")),))
    with pytest.raises(typer.Exit):
        exit_if_incomplete(RunOutcome(1, [errored], [Unit(Arm(METHODS["react"]), errored.variant, 0, 9)]), "")
    said = " ".join(capsys.readouterr().err.split())
    assert all(text in said for text in says), said
    assert ("repeat the command" in said) == (kind == "SimulatorDied")
