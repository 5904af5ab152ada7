"""Files of the user's that benchmarks play: what is wrong with them is told, and nothing is played."""

import json
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.pddl import BENCHMARK
from rsso_dspy.environments.pddl.strips import read_setup
from rsso_dspy.environments.pddl.tasks import _list_rows, load_domain, read_file
from rsso_dspy.errors import DamagedFile
from rsso_dspy.store.run_folder import Store
from tests.environments.test_pddl import BLOCKS, GRIPPER

FAST = ("--set", "embedder.model=hash")
EXTRAS = {"babyai": "minigrid", "alfworld": "alfworld"}
"""Benchmark to the package that its extra installs."""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("; nothing but a remark\n", r"expected \(define \(problem NAME\)"),
        ("define", r"expected \(define \(problem NAME\)"),
        ("(define (domain x))", r"expected \(define \(problem NAME\)"),
        ("(define (problem x) (:objects a)\n(:init)", r"a \( without its \)"),
        (BLOCKS + "\n)", r"a \) without its \("),
        ("(" * 60_000, r"a \( without its \)"),
        ("(" * 60_000 + ")" * 60_000, r"expected \(define \(problem NAME\)"),
        (BLOCKS.replace("(:goal", "(:goals"), "it has no :goal"),
        (BLOCKS.replace("(on b3 b2)", "(on b3 b9)"), "unknown object b9"),
        (BLOCKS.replace("(on b3 b2)", "((on b3 b2))"), "expected a fact in place of"),
        (BLOCKS.replace("(on b3 b2)", "b3"), "expected a fact in place of b3"),
        (BLOCKS.replace("(on b3 b2)", "(above b3 b2)"), "unknown predicate above"),
        (BLOCKS.replace("(on b3 b2)", "(on b3)"), "on takes 2 arguments, not 1"),
        (BLOCKS.replace("(on b3 b2)", "(not (on b3 b2))"), "expected a fact in place of"),
        (BLOCKS.replace("(and (on b3 b2) (on b1 b3))", "(and)"), "the goal is empty"),
        (BLOCKS.replace("b1 b2 b3)\n", "b1 b2 - brick b3)\n"), "unknown type brick"),
    ],
)
def test_a_file_that_cannot_be_played_is_told_with_its_reason(tmp_path, text, why):
    path = tmp_path / "mine.pddl"
    path.write_text(text)
    with pytest.raises(DamagedFile, match=f"mine.pddl cannot be read: {why}"):
        read_file("blockworld", path)


def test_bytes_that_are_no_text_are_no_file(tmp_path):
    (tmp_path / "mine.pddl").write_bytes(b"\xff\xfe(")
    with pytest.raises(DamagedFile, match="not UTF-8"):
        read_file("gripper", tmp_path / "mine.pddl")


def test_a_question_mark_begins_a_word_and_remarks_are_left_out():
    text = GRIPPER.replace("(ball ball1)", "(BALL Ball1) ; the first\n").replace("rooma roomb", "rooma roomb ")
    assert read_setup(text, load_domain("gripper"), "x").key == read_setup(GRIPPER, load_domain("gripper"), "x").key


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
    for more, says in (
        ("gripper::71", "cannot be read: a ( without"),
        ("gripper::72", "is problem 3 of gripper"),
    ):
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
        ("pddl", "short", "no problems of gripper: looked for *.pddl in short/gripper"),
        ("babyai", "nowhere", "no labels: looked for nowhere/test.jsonl and nowhere/babyai/test.jsonl"),
        ("babyai", "short", "it has 1 lines, and there are 112 test worlds"),
        ("babyai", "broken", "line 2: Expecting property name"),
        ("alfworld", "nowhere", "no ALFWorld games in nowhere"),
        ("alfworld", "short", "looked for json_2.1.1/{train,valid_seen,valid_unseen}/TYPE-*/trial_*/game.tw-pddl"),
    ],
)
def test_data_that_is_not_there_or_not_whole_is_refused_before_anything_is_played(rsso, name, data, says):
    if (package := EXTRAS.get(name)) and find_spec(package) is None:
        pytest.skip(f"the extra {name} is not installed")
    for folder, text in {"short": "{}\n", "broken": "{}\n{\n"}.items():
        Path(folder).mkdir()
        Path(folder, "test.jsonl").write_text(text)
    code, _, err = rsso("run", "--benchmark", name, "--methods", "react", "--per-task", "1", *FAST,
                        "--set", f"environment.data={data}", "--out", "r")  # fmt: skip
    assert (code, says in " ".join(err.split()), Path("r").exists()) == (2, True, False), err


@pytest.mark.skipif(find_spec("minigrid") is None, reason="the extra babyai is not installed")
def test_labels_of_another_mission_are_refused_and_those_that_fit_count(tmp_path):
    from rsso_dspy.environments.babyai import BENCHMARK as BABYAI
    from rsso_dspy.environments.babyai.environment import BabyAi

    variant = BABYAI.tasks.parse("GoToRedBall::1234")
    plain = BabyAi()
    plain.reset(variant)
    rows = [{"goal": plain.task, "subgoals": ["The room has walls around you."]}] * 112
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    labelled = BabyAi(str(tmp_path))
    labelled.reset(variant)
    went = labelled.step("turn left")
    assert (went.score, went.done, labelled.achieved) == (100, True, False), "AgentBoard's success, not minigrid's"
    assert went.own_success is False, "the record names minigrid's verdict too"
    plain.reset(variant)
    assert plain.step("turn left").done is False
    rows[4] = {"goal": "open the moon", "subgoals": ["x"]}
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DamagedFile, match="line 5: it is of 'open the moon', and GoToRedBall::1234 of"):
        labelled.reset(variant)
    with pytest.raises(DamagedFile, match="line 5: it is of 'open the moon'"):
        BABYAI.check_data([variant], str(tmp_path))
    rows[4] = {"goal": plain.task, "subgoals": [1]}
    (tmp_path / "test.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(DamagedFile, match="line 5: "):
        BABYAI.check_data([variant], str(tmp_path))
    BABYAI.check_data([variant], None)


@pytest.mark.parametrize(("name", "package"), [("babyai", "minigrid"), ("alfworld", "alfworld")])
def test_a_benchmark_whose_extra_is_missing_says_how_to_install_it(rsso, monkeypatch, name, package):
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


@pytest.mark.parametrize(
    ("name", "train", "held_out"),
    [
        ("pddl", "gripper::0", "gripper::52"),
        ("babyai", "GoToRedBall::0", "GoToRedBall::1234"),
        ("alfworld", "pick_and_place_simple::0", "pick_and_place_simple::825"),
    ],
)
def test_a_test_problem_level_or_game_in_a_calibration_is_refused(rsso, name, train, held_out):
    if (package := EXTRAS.get(name)) and find_spec(package) is None:
        pytest.skip(f"the extra {name} is not installed")
    Path("calib.json").write_text(json.dumps({"train": [held_out], "val": [train]}))
    words = ("--benchmark", name, "--calib", "calib.json", *FAST)
    for command in (("compile", "--method", "react", "-o", "p.json"), ("constitution", "build", "-o", "c.json")):
        code, _, err = rsso(*command, *words)
        says = f"calib.json: these variants cannot calibrate: of the held-out test split: {held_out}"
        assert (code, says in " ".join(err.split()), "config key" in err) == (2, True, False), err


@pytest.mark.skipif(find_spec("alfworld") is None, reason="the extra alfworld is not installed")
@pytest.mark.parametrize(
    ("splits", "code", "says"),
    [
        (("train", "valid_unseen"), 0, "11 of 12 selected variants are left out"),
        (("train", "valid_seen"), 0, "1 train, 1 dev and 0 test variants: 1 of dev played instead, not the test set"),
        (("train",), 2, "none of the selected variants can be played: mine holds 1 train, 0 dev and 0 test variants"),
    ],
)
def test_a_folder_that_lacks_games_is_played_as_far_as_it_goes_and_that_is_said(rsso, splits, code, says):
    from rsso_dspy.environments.alfworld.tasks import load_made_game

    for split in splits:
        folder = Path("mine/json_2.1.1", split, "pick_and_place_simple-Pen-None-Desk-1", "trial_T1")
        folder.mkdir(parents=True)
        (folder / "game.tw-pddl").write_text(json.dumps(load_made_game("pick_and_place_simple", 1)))
    words = ("run", "--benchmark", "alfworld", "--methods", "react", "--per-task", "2", *FAST)
    found, _, err = rsso(*words, "--set", "environment.data=mine", "--dry-run", "--out", "r")
    assert (found, says in " ".join(err.split())) == (code, True), err
    if "valid_seen" in splits:
        played = rsso(*words, "--set", "environment.data=mine", "--trials", "1", "--out", "r")
        assert played[0] == 0, played[2]
        assert [(unit.key, unit.variant.split) for unit in Store(Path("r")).units()] == [
            ("pick_and_place_simple::790", "dev")
        ]
        assert rsso("run", "--replay", "r")[0] == 0
    found, _, err = rsso("compile", "--benchmark", "alfworld", "--set", "environment.data=mine", "--method", "react",
                         "--calib", "1-per-task", *FAST, "-o", "p.json")  # fmt: skip
    assert (found, "no calibration variants in train and none in val" in " ".join(err.split())) == (2, True), err
