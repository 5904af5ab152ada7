"""The doors to Gymnasium: our benchmarks as its environments, and any text environment as a benchmark."""

import tomllib
import warnings
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

pytest.importorskip("gymnasium", reason="the extra gym is not installed")

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import namespace as in_namespace
from gymnasium.envs.registration import registry
from gymnasium.utils.env_checker import check_env

from rsso_dspy.benchmarks import from_gymnasium, to_gymnasium
from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from tests.toy_benchmark import BENCHMARK as TOY

ROOT = Path(__file__).resolve().parents[2]


class Guess(gymnasium.Env):
    """Guess a digit that the seed draws."""

    observation_space = spaces.Text(100, charset="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .")
    action_space = spaces.Text(20)
    mission = "Guess the digit."

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.digit = str(self.np_random.integers(10))
        return "Think of a digit.", {}

    def step(self, action):
        won = action == f"guess {self.digit}"
        return ("Right." if won else "Wrong."), float(won), won, False, {"won": won}


class Older:
    """An environment of the older form: no info at reset, four answers of a step, points so far, no seed."""

    objective = "Reach two points."

    def reset(self):
        self.points = 0
        return "You begin."

    def step(self, action):
        self.points += action == "go on"
        return f"You have {self.points}.", self.points / 2, self.points == 2, {"admissible_commands": ["go on"]}


def play(benchmark, key, actions):
    environment = benchmark.environment(None, lambda: False)
    variant = benchmark.table.parse(key)
    first = environment.reset(variant)
    moves = [environment.step(action) for action in actions]
    return environment, first, moves


OURS = [TOY, "pddl", pytest.param("babyai", marks=pytest.mark.filterwarnings("ignore"))]


@pytest.mark.parametrize("benchmark", OURS, ids=["toy", "pddl", "babyai"])
def test_our_benchmarks_pass_gymnasiums_checker(benchmark):
    if benchmark == "babyai":
        pytest.importorskip("minigrid", reason="the extra babyai is not installed")
    tasks = {"pddl": ["gripper"], "babyai": ["GoToRedBall"]}.get(benchmark, []) if isinstance(benchmark, str) else []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        world = to_gymnasium(benchmark, tasks=tasks)
        check_env(world, skip_render_check=True)
    assert not [each for each in told if "gymnasium" in each.filename and "spec" not in str(each.message)]
    first, info = world.reset(seed=5)
    assert world.reset(seed=5) == (first, info)
    assert first.startswith(info["task"].strip()[:20])
    world.close()


def test_a_game_of_ours_is_won_by_its_solution_and_test_variants_are_asked_for_by_name():
    pddl = get_benchmark("pddl")
    key = "gripper::0"
    with to_gymnasium("pddl", tasks=["gripper"]) as world:
        _, info = world.reset(options={"variant": key})
        assert info["variant"] == key
        total, ended = 0.0, False
        for action in pddl.find_gold_path(pddl.table.parse(key)):
            assert action in info["admissible_actions"]
            _, reward, ended, _, info = world.step(action)
            total += reward
        assert (total, ended, info["score"]) == (1.0, True, 100)
        with pytest.raises(SplitError, match="gripper::50 is a test variant, not train"):
            world.reset(options={"variant": "gripper::50"})
    with to_gymnasium("pddl", tasks=["gripper"], split="test", steps=1) as world:
        world.reset(seed=1)
        assert world.step("look around")[3], "one step, then it is cut short"


def test_every_benchmark_has_an_id_that_gymnasium_makes():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["gymnasium.envs"]
    ((namespace, value),) = declared.items()
    with in_namespace(namespace):  # as gymnasium calls it
        EntryPoint(namespace, value, "gymnasium.envs").load()()
    assert {f"rsso_dspy/{name}-v0" for name in list_benchmarks()} <= set(registry)
    with (
        gymnasium.make("rsso_dspy/pddl-v0", tasks=["gripper"]) as world,
        to_gymnasium("pddl", tasks=["gripper"]) as own,
    ):
        assert world.reset(seed=5) == own.reset(seed=5)
        assert world.step("check valid actions") == own.step("check valid actions")


def test_a_text_environment_is_a_benchmark():
    check_env(Guess(), skip_render_check=True)
    benchmark = from_gymnasium(lambda _variant: Guess(), name="guess", actions="guess DIGIT", steps=10)
    environment, first, moves = play(benchmark, "guess::70", [f"guess {digit}" for digit in range(10)])
    assert (environment.task, first.observation) == ("Guess the digit.", "Think of a digit.")
    won = next(place for place, move in enumerate(moves) if move.score == 100)
    assert moves[won].done
    assert [move.score for move in moves[:won]] == [0] * won
    assert not moves[-1].understood, "the episode is over"
    assert play(benchmark, "guess::70", ["guess 3"])[2] == [moves[3]], "the seed decides"
    assert int(1.5 * benchmark.gold_length(benchmark.table.parse("guess::70"))) == 10


def test_an_environment_of_the_older_form_is_a_benchmark():
    benchmark = from_gymnasium(lambda _variant: Older(), name="older", actions="go on\nstay", rewards="total")
    environment, _, moves = play(benchmark, "older::0", ["stay", "go on", "Go on"])
    assert [(move.score, move.done) for move in moves] == [(0, False), (50, False), (50, False)]
    assert environment.admissible_actions() == ["go on"]
    asked = environment.step("check valid actions")
    assert (asked.state.observation, asked.score) == ("You can take the following actions: go on", 50)
    assert environment.step("go on").score == 100


@pytest.mark.parametrize(
    ("info", "score"), [({}, 100), ({"won": False}, 50), ({"lost": True}, 50), ({"TimeLimit.truncated": True}, 50)]
)
def test_an_end_with_points_is_won_unless_the_environment_says_otherwise(info, score):
    class Ending(Older):
        def seed(self, number):
            self.seeded = number

        def step(self, action):  # noqa: ARG002
            return f"Seed {self.seeded}.", 0.5, True, info

    _, _, moves = play(from_gymnasium(Ending(), name="end", actions="go on"), "end::3", ["go on"])
    assert [(move.score, move.done, move.state.observation) for move in moves] == [(score, True, "Seed 3.")]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: from_gymnasium({}), "at least one environment"),
        (lambda: from_gymnasium(3, name="x"), "3 is neither the id of an environment"),
        (lambda: from_gymnasium(Older()), "pass name="),
        (lambda: from_gymnasium(Older(), name="x", seeds={"train": (0, 1)}), "must name train, dev and test"),
        (lambda: from_gymnasium(Older(), name="x", rewards="sum"), "'per step' or 'total'"),
        (lambda: from_gymnasium(Older(), name="x", steps=0), "at least 1"),
        (lambda: play(from_gymnasium(lambda _: Older(), name="x"), "x::0", []), "pass actions="),
        (lambda: play(from_gymnasium(Older(), name="x", actions="go on"), "x::0", []), "takes a seed, so all variants"),
        (lambda: play(from_gymnasium("CartPole-v1", name="x", actions=["l", "r"]), "x::0", []), "pass describe="),
        (lambda: to_gymnasium("pddl", split="validation"), "train, dev or test"),
        (lambda: to_gymnasium("pddl", tasks=["griper"]), "gripper"),
        (lambda: to_gymnasium(TOY).step("add 1"), "before its first step"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_to_pass(wrong, says):
    with pytest.raises((UsageError, UnknownName), match=says):
        wrong()
