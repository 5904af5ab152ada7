"""The benchmarks that come with the project besides the default one go through the verbs."""

import json
import signal
import subprocess
import sys
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

NO_MINIGRID = pytest.mark.skipif(find_spec("minigrid") is None, reason="the extra babyai is not installed")
NO_ALFWORLD = pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra alfworld is not installed")
PLAYED = {
    "pddl": ("gripper", "gripper::52"),
    "babyai": ("GoToRedBall", "GoToRedBall::1235"),
    "alfworld": ("pick_and_place_simple", "pick_and_place_simple::825"),
}
NEEDS = {"babyai": NO_MINIGRID, "alfworld": NO_ALFWORLD}
BOTH = [pytest.param(name, marks=[NEEDS[name]] if name in NEEDS else []) for name in PLAYED]
FAST = ("--set", "embedder.model=hash")
SMALLER = {"alfworld": "1"}
"""Trials where two take long: the memories that the second one reads are the same on every benchmark."""


@pytest.mark.parametrize("name", BOTH)
def test_tasks_are_listed_and_a_little_is_played(rsso, name):
    code, out, _ = rsso("tasks", "--benchmark", name)
    assert code == 0
    assert len(out.splitlines()) == 3 + len(get_benchmark(name).tasks.names()) + len(list_benchmarks())
    most = get_benchmark(name).budget.most_steps
    assert (f"{name} ends a trial after 50" in " ".join(out.split()), f" {most}-{most}" in out) == (most == 50,) * 2
    assert f"{name} {get_benchmark(name).version} plays" in rsso("doctor", "--set", f"benchmark={name}", *FAST)[1]
    assert f"\n{name} {get_benchmark(name).version}\n" in out, "it is listed"


def read_units(folder: str) -> list[dict[str, Any]]:
    return list(map(dump_record, Store(Path(folder), read_only=True).units()))


CUT_OFF = """
import os, sys
from rsso_dspy.cli import main
from rsso_dspy.offline import Explorer
answer, left = Explorer.complete, [int(sys.argv.pop())]
def complete(self, request):
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), 9)
    return answer(self, request)
Explorer.complete = complete
main()
"""
"""The command, killed at one of its model's calls."""


@pytest.mark.parametrize("name", BOTH)
def test_killed_and_continued_in_shards_from_recorded_answers_and_swept_it_is_the_same_run(rsso, name):
    task, _ = PLAYED[name]
    trials, methods = SMALLER.get(name, "2"), "react" if name in SMALLER else "react,rsso"
    what = ("--benchmark", name, "--methods", methods, "--tasks", task, "--per-task", "2", "--trials", trials, *FAST)
    code, _, err = rsso("run", *what, "--out", "whole")
    assert code == 0, err
    records = read_units("whole")
    assert len(records) == 2 * len(methods.split(","))
    killed = subprocess.run([sys.executable, "-c", CUT_OFF, "run", *what, "--out", "cut", "12"], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len(read_units("cut")) < len(records)
    assert rsso("run", *what, "--out", "cut")[0] == 0
    for part in ("1/2", "2/2"):
        assert rsso("run", *what, "--shard", part, "--out", f"part{part[0]}")[0] == 0
    assert rsso("run", *what, "--replay", "whole", "--out", "replayed")[0] == 0
    parts = sorted(read_units("part1") + read_units("part2"), key=records.index)
    assert read_units("cut") == parts == read_units("replayed") == records


@pytest.mark.parametrize("name", BOTH)
def test_prompts_are_compiled_and_a_constitution_is_built_on_training_variants_only(rsso, name):
    task, held_out = PLAYED[name]
    words = ("--method", "reflexion", "--tasks", task, "--optimizer", "gepa", "--max-rollouts", "4", *FAST)
    code, _, err = rsso("compile", *words, "--benchmark", name, "-o", "mine.json")
    assert code == 0, err
    made = json.loads(Path("mine.json").read_text())
    assert made["environment"]["name"] == name
    mark_confirmed("mine.json")
    code, _, err = rsso("evaluate", "mine.json", "--per-task", "1", "--trials", "1", *FAST,
                        "--set", f"benchmark={name}", "--out", "e")  # fmt: skip
    assert code == 0, err
    Path("leaking.json").write_text(json.dumps({"train": [f"{task}::0", held_out], "val": [f"{task}::1"]}))
    leak = f"of the held-out test split: {held_out}; take train"
    code, _, err = rsso("compile", *words, "--benchmark", name, "--calib", "leaking.json", "-o", "other.json")
    assert (code, leak in " ".join(err.split())) == (2, True), err
    build = ("constitution", "build", "--benchmark", name, "--writer", "symbolic", "--explore", "1", "--tasks", task)
    code, _, err = rsso(*build, *FAST, "-o", "c.json")
    assert code == 0, err
    assert "rules" in Path("c.json").read_text()
    code, _, err = rsso(*build, "--calib", "leaking.json", *FAST, "-o", "d.json")
    assert (code, leak in " ".join(err.split())) == (2, True), err
    assert not Path("other.json").exists()
    assert not Path("d.json").exists()


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            "EnvironmentFailure",
            ["react boil::22 was skipped, and would be again: EnvironmentFailure: no", "--variants"],
        ),
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
