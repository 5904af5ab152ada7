"""Files of the user's that benchmarks play: what is wrong with them is told, and nothing is played."""

import json
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.pddl import BENCHMARK
from rsso_dspy.environments.pddl.tasks import _list_rows, read_file
from rsso_dspy.errors import DamagedFile
from rsso_dspy.store.run_folder import Store
from tests.environments.test_pddl import BLOCKS, GRIPPER

FAST = ("--set", "embedder.model=hash")
EXTRAS = {"babyai": "minigrid", "alfworld": "alfworld"}
"""Benchmark to the package that its extra installs."""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(define (domain x))", r"expected \(define \(problem NAME\)"),
        ("(define (problem x) (:objects a)\n(:init)", r"a \( without its \)"),
        (BLOCKS.replace("(on b3 b2)", "(on b3 b9)"), r"\['on', 'b3', 'b9'\] is no fact of blockworld"),
        (BLOCKS.replace("(on b3 b2)", "(on b3)"), "is no fact of blockworld"),
        (BLOCKS.replace("(and (on b3 b2) (on b1 b3))", "(and)"), "the goal is empty"),
        (BLOCKS.replace("b1 b2 b3)\n", "b1 b2 - brick b3)\n"), "unknown type brick"),
    ],
)
def test_a_file_that_cannot_be_played_is_told_with_its_reason(tmp_path, text, why):
    path = tmp_path / "mine.pddl"
    path.write_text(text)
    with pytest.raises(DamagedFile, match=f"mine.pddl cannot be read: .*{why}"):
        read_file("blockworld", path)


@pytest.fixture
def own(tmp_path) -> Path:
    """A folder as AgentBoard's, with one problem of each domain."""
    folder = tmp_path / "mine"
    made = {task: BENCHMARK.tasks.variant(task, 0) for task in BENCHMARK.tasks.names()}
    for task in made:
        (folder / task).mkdir(parents=True)
        text = GRIPPER if task == "gripper" else _list_rows(task)[0][0]
        (folder / task / "p01.pddl").write_text(text)
    return folder


def test_the_users_problems_are_played_and_results_are_bound_to_what_they_say(rsso, own):
    words = ("run", "--benchmark", "pddl", "--methods", "react", "--trials", "1", *FAST)
    theirs = (*words, "--variants", "gripper::70", "--out", "r")
    code, _, err = rsso(*theirs)
    assert (code, "name your folder of them, --set environment.data=DIR" in " ".join(err.split())) == (2, True)
    (own / "gripper" / "p02.pddl").write_text("(define")
    for more, says in (("gripper::71", "p02.pddl cannot be read"), ("gripper::72", "is problem 3 of gripper")):
        code, _, err = rsso(*theirs, "--variants", f"gripper::70,{more}", "--set", f"environment.data={own}")
        assert (code, says in " ".join(err.split()), "config key" in err) == (2, True, False), err
    (own / "gripper" / "p02.pddl").unlink()
    assert not Path("r").exists(), "data are checked before a folder is bound to them"
    code, _, err = rsso(*theirs, "--set", f"environment.data={own}")
    assert code == 0, err
    (unit,) = Store(Path("r")).units()
    assert (unit.key, unit.budget) == ("gripper::70", 30)
    assert "ball2 is at roomb" in unit.trajectories[0].task
    identity = Path("r/run.json").read_text()
    assert json.dumps(str(own)) not in json.dumps(json.loads(identity)["identity"])
    (own / "gripper" / "p01.pddl").write_text(GRIPPER.replace("at-robby rooma", "at-robby roomb"))
    code, _, err = rsso(*theirs, "--set", f"environment.data={own}")
    assert (code, "environment.data" in err) == (2, True), "other files are another run"


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("scienceworld", ".", "scienceworld takes no folder of data"),
        ("pddl", "nowhere", "no problems of gripper: looked for *.pddl in nowhere/gripper"),
        ("babyai", ".", "babyai takes no folder of data"),
        ("alfworld", "short", "looked for json_2.1.1/{train,valid_seen,valid_unseen}/TYPE-*/trial_*/game.tw-pddl"),
    ],
)
def test_data_that_is_not_there_or_not_whole_is_refused_before_anything_is_played(rsso, name, data, says):
    if (package := EXTRAS.get(name)) and find_spec(package) is None:
        pytest.skip(f"the extra {name} is not installed")
    Path("short").mkdir()
    Path("short/test.jsonl").write_text("{}\n")
    code, _, err = rsso("run", "--benchmark", name, "--methods", "react", "--per-task", "1", *FAST,
                        "--set", f"environment.data={data}", "--out", "r")  # fmt: skip
    assert (code, says in " ".join(err.split()), Path("r").exists()) == (2, True, False), err


def test_a_benchmark_whose_extra_is_missing_says_how_to_install_it(rsso, monkeypatch):
    name, package = "babyai", "minigrid"
    known = metadata.version

    def forget(asked: str) -> str:
        if asked == package:
            raise metadata.PackageNotFoundError(asked)
        return known(asked)

    monkeypatch.setattr(metadata, "version", forget)
    for module in [each for each in sys.modules if each.startswith(f"rsso_dspy.environments.{name}")]:
        monkeypatch.delitem(sys.modules, module)
    get_benchmark.cache_clear()
    says = f"the benchmark {name} needs the package {package}: pip install 'rsso-dspy[{name}]'"
    code, _, err = rsso("tasks", "--benchmark", name)
    assert (code, says in " ".join(err.split()), "config key" in err) == (2, True, False), err
    assert says in " ".join(rsso("tasks")[1].split())
