"""ALFWorld: tiny games won, both wordings, the engine's process, and a folder of games as a download leaves it."""

import json
import os
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("alfworld") is None:
    pytest.skip("the extra alfworld is not installed", allow_module_level=True)

import rsso_dspy
from benchmarks.alfworld_examples import play_examples
from rsso_dspy.environments.alfworld import BENCHMARK, environment, tasks
from rsso_dspy.environments.alfworld.environment import MOST_STEPS, AlfWorld, find_counterpart, parse_goal, to_engine
from rsso_dspy.environments.alfworld.tasks import load_made_game
from rsso_dspy.environments.lessons import read_data
from rsso_dspy.environments.wrappers import DemonstratingEnvironment
from rsso_dspy.errors import EnvironmentFailure, SimulatorDied, SplitError, UsageError
from rsso_dspy.records import Step
from scripts.make_alfworld_games import make_game

TABLE = BENCHMARK.tasks
PUT = "pick_and_place_simple"
REFUSED = (
    {"pddl_problem": load_made_game(PUT, 2)["pddl_problem"][:300]},
    {"pddl_problem": load_made_game(PUT, 2)["pddl_problem"].replace("(atLocation agent1", "(standsOn agent1")},
    {"pddl_problem": load_made_game(PUT, 2)["pddl_problem"].replace("(:goal (and", "(:goal (and (flies agent1)")},
)
"""Parts of games that only the engine finds damaged."""


@pytest.fixture(autouse=True)
def no_games_of_the_user(monkeypatch):
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)


@pytest.fixture(scope="module")
def env():
    played = AlfWorld()
    yield played
    played.close()


def write_game(data: Path, number: int | str, content: object, split: str = "train") -> Path:
    """Put a game into a folder as a download has it; its path. Forgets what was read there."""
    kind = number if isinstance(number, str) else f"{PUT}-Pen-None-Desk-{number:02}"
    path = data / "json_2.1.1" / split / kind / "trial_T1" / "game.tw-pddl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    tasks.read_games.cache_clear()
    return path


@pytest.fixture
def data(tmp_path):
    """Two made games as a download has them, and what cannot be played beside them."""
    write_game(tmp_path, 0, load_made_game(PUT, 0))
    write_game(tmp_path, 1, load_made_game(PUT, 1), "valid_unseen")
    write_game(tmp_path, 7, '{"pddl_problem": "", "gram')
    write_game(tmp_path, f"{PUT}-PenSliced-None-Desk-7", load_made_game(PUT, 2))
    write_game(tmp_path, "fly-Pen-None-Desk-7", load_made_game(PUT, 2))
    write_game(tmp_path, 8, load_made_game(PUT, 2) | {"solvable": False})
    write_game(tmp_path, 10, load_made_game(PUT, 2) | {"grammar": " "})
    return tmp_path


@pytest.mark.parametrize("task", TABLE.names())
def test_a_made_game_of_every_type_is_won_by_its_walkthrough_in_either_wording(env, task):
    train, (test, *_) = TABLE.variant(task, 0), TABLE.held_out(task, n=1)
    for variant, interface, verb in ((train, "complete", "move"), (test, "sso", "put")):
        env.choose_interface(interface)
        first = env.reset(variant)
        assert first.observation.startswith("You are in the middle of a room.")
        assert parse_goal(env.task), env.task
        steps, states, scores = [], [first], []
        for action in load_made_game(task, variant.index)["walkthrough"]:
            moved = env.step(to_engine(action, verb == "move"))
            states.append(moved.state)
            steps.append(Step(action, moved.action, moved.state, moved.reward, moved.score, moved.understood))
            scores.append(moved.score)
            env.lessons(states, steps)
        assert (moved.done, moved.score, scores) == (True, 100, sorted(scores))
        told = "\n".join(state.observation for state in states)
        assert ("You move" in told, "You put" in told, "You arrive" in told) == (
            (verb == "move" and task != "look_at_obj_in_light"),
            (verb == "put" and task != "look_at_obj_in_light"),
            verb == "move",
        )
    with pytest.raises(SplitError):
        env.goal_progress()


def test_made_games_are_what_their_script_makes():
    for task in TABLE.names():
        for index in (0, TABLE.indices(task, "dev")[0], TABLE.indices(task, "test")[-1]):
            shipped = read_data(tasks.__package__, f"data/games/{task}.json.bz2")
            assert make_game(task, index) == tuple(shipped[index])


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("put some mug on shelf", ("mug", "shelf", "put", 1)),
        ("look at mug under the desklamp", ("mug", "desklamp", "look", 1)),
        ("examine the mug with the desklamp", ("mug", "desklamp", "look", 1)),
        ("put a hot mug in shelf", ("mug", "shelf", "heat", 1)),
        ("clean some mug and put it in shelf", ("mug", "shelf", "clean", 1)),
        ("put two mug in shelf", ("mug", "shelf", "put", 2)),
        ("find two mug and put them in shelf", ("mug", "shelf", "put", 2)),
    ],
)
def test_goals_are_read_off_every_wording_of_a_task(text, goal):
    found = parse_goal(f"Your task is to: {text}.")
    assert (found.thing, found.place, found.verb, found.count) == goal


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("put apple 1 in fridge 1", "put apple 1 in/on fridge 1"),
        ("put apple 1 on fridge 1", "put apple 1 in/on fridge 1"),
        ("put apple 1 in / on fridge 1", "put apple 1 in/on fridge 1"),
        ("put apple 1 into fridge 1", "put apple 1 in/on fridge 1"),
        ("place apple 1 in/on fridge 1", "put apple 1 in/on fridge 1"),
        ("place mug 2 onto desk 1", "move mug 2 to desk 1"),
        ("move mug 2 in desk 1", "move mug 2 to desk 1"),
        ("move apple 1 to fridge 1", "move apple 1 to fridge 1"),  # known to every game
        ("put apple 1 in fridge 2", "put apple 1 in fridge 2"),  # cannot be done
        ("put apple in fridge 1", "put apple in fridge 1"),  # which one?
        ("put pen 1 on desk 1", "put pen 1 on desk 1"),  # two are possible
        ("go to fridge 1", "go to fridge 1"),
    ],
)
def test_other_words_for_put_are_the_one_action_that_they_mean(said, meant):
    possible = ["put apple 1 in/on fridge 1", "move mug 2 to desk 1", "put pen 1 in/on desk 1", "move pen 1 to desk 1"]
    assert find_counterpart(said, possible) == meant


def test_a_game_is_won_in_other_words_for_put(env):
    env.choose_interface("sso")
    env.reset(TABLE.variant(PUT, 0))
    for action in load_made_game(PUT, TABLE.variant(PUT, 0).index)["walkthrough"]:
        moved = env.step(to_engine(action, False).replace(" in/on ", " in "))
    assert (moved.done, moved.score) == (True, 100)
    assert " in/on " in moved.action, "the action that was played, in the interface's words"


def test_what_is_not_understood_is_a_step_and_a_game_ends_at_its_limit(env):
    env.choose_interface("sso")
    env.reset(TABLE.variant(PUT, 0))
    assert [goal.kind for goal in env.goal_progress()] == ["see", "take", "put", "task"]
    listed = set(env.admissible_actions())
    assert "look" in listed
    for text in ("", "dance", "take", "...", "x" * 5000, 'quote " and \n line'):
        moved = env.step(text)
        assert (moved.understood, moved.state.observation) == (False, "Nothing happens.")
    assert env.step("  LOOK. ").understood, "letter case and full stop are overlooked"
    assert set(env.admissible_actions()) == listed
    asked = env.step("Check valid actions.")
    assert asked.state.observation == f"Choose an action from these valid actions: {', '.join(sorted(listed))}"
    dones = [env.step("look").done for _ in range(MOST_STEPS - 8)]
    assert (dones.count(True), dones[-1]) == (1, True)


def test_a_killed_process_is_reported_and_a_used_one_replaced(monkeypatch):
    monkeypatch.setattr(environment, "MOST_LOADED", 1)
    played = AlfWorld()
    variant = TABLE.variant(PUT, 0)
    played.reset(variant)
    first = played._process.pid
    played.reset(variant)
    assert played._process.pid != first
    os.kill(played._process.pid, signal.SIGKILL)
    with pytest.raises(SimulatorDied, match="ended"):
        played.step("look")
    assert not played.alive
    played.close()
    with pytest.raises(SimulatorDied, match="closed"):
        played.reset(variant)


def test_a_game_that_the_engine_cannot_load_is_named_and_the_next_is_played(monkeypatch):
    game, variant, played = load_made_game(PUT, 0), TABLE.variant(PUT, 0), AlfWorld()
    for part in REFUSED:
        monkeypatch.setattr(environment, "load_game", lambda *_, part=part: (game | part, "this one"))
        with pytest.raises(EnvironmentFailure, match=r"cannot load this one: \w+") as raised:
            played.reset(variant)
        assert not isinstance(raised.value, SimulatorDied), "it would be played again"
    monkeypatch.setattr(environment, "load_game", lambda *_: (game, "this one"))
    played.reset(variant)
    assert played.admissible_actions()
    played.close()


def test_a_run_skips_a_game_that_the_engine_cannot_load_and_goes_on(data):
    for index, part in ((2, REFUSED[0]), (3, {})):
        write_game(data, index, load_made_game(PUT, index) | part, "valid_unseen")
    bad = TABLE.held_out(PUT, n=2)[1].key
    settings = [f"environment.data={data}", "embedder.model=hash", "protocol.steps=2", "protocol.trials=1"]
    with pytest.warns(UserWarning, match="5 skipped: fly is none of the six types"):
        played = rsso_dspy.run(
            ["react"], benchmark="alfworld", out=data / "run", settings=settings, tasks=PUT, per_task=3, progress=False
        )
    found = played.analysis
    assert [(row.units, row.errored) for row in found.arms] == [(2, 1)]
    assert {each.unit for each in found.errored if each.is_skipped and "Desk-02" in each.error} == {bad}
    assert f"Skipped, as the environment refuses them: {bad} of react." in played.headline
    assert "1 skipped, as the environment refuses them" in repr(played)


def test_examples_that_come_along_are_what_their_script_makes():
    assert play_examples() == BENCHMARK.hints.examples()


def test_games_of_the_user_are_played_and_those_that_cannot_be_are_named_and_counted(data, monkeypatch):
    games = tasks.read_games(str(data))
    assert (games.total, len(games.skipped)) == (2, 5)
    said = games.describe()
    for text in ("5 skipped", "damaged: ", "sliced", "fly is none of the six types", "no solution", "it is no game"):
        assert text in said
    played = AlfWorld(str(data))
    played.reset(TABLE.variant(PUT, 0))
    for action in load_made_game(PUT, 0)["walkthrough"]:
        moved = played.step(action)
    assert moved.score == 100
    with pytest.raises(UsageError, match=r"::1 is game 2 of pick_and_place_simple in .*train, which holds 1.*5 skipp"):
        played.reset(TABLE.variant(PUT, 1))
    played.close()
    monkeypatch.setenv("ALFWORLD_DATA", str(data))
    assert BENCHMARK.locate_data(None) == str(data)
    assert BENCHMARK.identify_data(str(data)) == BENCHMARK.identify_data(str(data / "json_2.1.1"))


def test_a_game_of_the_old_wording_is_won_and_answered_in_either(data):
    game = load_made_game(PUT, 0)
    old = game["grammar"].replace("move {o} to {r}", "put {o} in/on {r}")
    old = old.replace("You move the {o.name} to the {r.name}.", "You put the {o.name} in/on the {r.name}.")
    assert old != game["grammar"]
    write_game(data, 0, game | {"grammar": old})
    played = AlfWorld(str(data))
    for interface, said in (("sso", "You put the "), ("complete", "You move the ")):
        played.choose_interface(interface)
        played.reset(TABLE.variant(PUT, 0))
        for action in game["walkthrough"][:-1]:
            played.step(action)
        assert game["walkthrough"][-1] in [to_engine(each, True) for each in played.admissible_actions()]
        last = played.step(game["walkthrough"][-1])
        assert (last.score, last.state.observation.startswith(said)) == (100, True)
    played.close()


def test_gold_paths_are_those_of_the_folder_in_the_wording_of_the_interface(data):
    write_game(data, 0, load_made_game(PUT, 7))
    variant, walk = TABLE.variant(PUT, 0), load_made_game(PUT, 7)["walkthrough"]
    for interface, verb in (("sso", "put "), ("complete", "move ")):
        found = BENCHMARK.find_gold_path(variant, str(data), interface)
        assert [to_engine(action, True) for action in found] == walk
        assert found[-1].startswith(verb)
    made = [to_engine(each, True) for each in BENCHMARK.find_gold_path(variant)]
    assert made == load_made_game(PUT, 0)["walkthrough"]
    with pytest.raises(SplitError, match="shown of training variants alone"):
        BENCHMARK.find_gold_path(TABLE.held_out(PUT, n=1)[0], str(data))


def test_a_demonstration_leaves_out_games_that_cannot_be_loaded(data):
    for index, game in ((2, {"pddl_problem": "(define (problem x))"}), (3, {})):
        write_game(data, index, load_made_game(PUT, index) | game)
    write_game(data, 0, '{"solvable": true, "broken')
    known = BENCHMARK.limit_to_data(str(data))
    played = DemonstratingEnvironment(AlfWorld(str(data)), known, 2, {}, str(data))
    played.reset(known.tasks.held_out(PUT)[0])
    assert len(played.solved_examples) == 1, "of the three games one is damaged, one cannot be loaded"
    played.close()
