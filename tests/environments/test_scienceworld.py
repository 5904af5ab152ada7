"""ScienceWorld through its driver: what is sent, what is said, how far its goals are."""

import os
from collections.abc import Callable

import pytest

from rsso_dspy.environments import Goal
from rsso_dspy.environments.scienceworld import ScienceWorld, actions, environment, tasks
from rsso_dspy.environments.scienceworld.environment import STALLED, parse_goal_progress
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.errors import SimulatorDied, SplitError
from rsso_dspy.records import State, Variant
from tests.environments.frozen import freeze

SCRIPT = (
    "look around", "pick up lighter", "teleport to kitchen", "open cupboard", "activate stove", "pick up thermometer",
    "wait1", "teleport to greenhouse", "move soil to flower pot", "1", "teleport to outside", "use thermometer on axe",
)  # fmt: skip


def play(env: ScienceWorld, key: str, script: tuple[str, ...]) -> list[object]:
    return [env.reset(tasks.parse(key)), env.task, env.points_at_reset, *map(env.step, script)]


@pytest.mark.usefixtures("fresh_simulators")
@pytest.mark.parametrize("task", tasks.tasks()[::17])
def test_a_used_simulator_plays_like_a_fresh_one(env: ScienceWorld, task: str):
    key = tasks.held_out(task)[0].key
    used = play(env, key, SCRIPT)
    with ScienceWorld() as fresh:
        assert play(fresh, key, SCRIPT) == used


@pytest.mark.parametrize("task", ["find-plant", "boil"])
def test_reset_gives_what_the_stock_wrapper_gives(env: ScienceWorld, simulator: Jvm, task: str):
    variant = tasks.held_out(task)[0]
    state = env.reset(variant)
    # What ScienceWorldEnv.load and .reset send.
    simulator.call("load", variant.task, variant.index, variant.simplification, False)
    simulator.call("reset")
    answer = simulator.call("step", "look around")
    assert answer.startswith(state.observation)
    assert state.look == answer == simulator.call("freeActionLook").strip()
    assert state.inventory == simulator.call("freeActionInventory").strip()
    assert env.points_at_reset == round(100 * simulator.call("getScore"))
    assert simulator.call("freeActionTaskDesc").endswith(env.task)
    assert env.task.startswith("Your task is to")


def test_gold_paths_solve_their_variants(env: ScienceWorld, gold_paths: dict[str, tuple[str, ...]]):
    for key, path in gold_paths.items():
        env.reset(tasks.parse(key))
        points = env.points_at_reset
        transitions = [env.step(action) for action in path]
        assert transitions[-1].score == 100, key
        assert [t.done for t in transitions] == [t.score == 100 for t in transitions]
        assert points + sum(t.reward for t in transitions) == 100
        assert all(t.understood and t.action == action.lower() for t, action in zip(transitions, path, strict=True))


@pytest.mark.parametrize("spelling", ["RESET TASK", "reset the task.", "resettask", "reset\x01task"])
def test_reset_task_is_never_forwarded(env: ScienceWorld, spelling: str):
    env.reset(tasks.parse("find-plant::229"))
    accumulator = 0
    for action in ("focus on banana tree", spelling) * 4:
        transition = env.step(action)
        accumulator += max(transition.reward, 0)
    assert not transition.understood
    assert transition.state.observation == actions.NOT_KNOWN
    assert transition.score == env.points_at_reset + accumulator <= 100


def test_a_failure_is_not_carried_into_the_next_trial(env: ScienceWorld):
    env.reset(tasks.parse("lifespan-longest-lived::98"))
    failed = env.step("focus on air")
    assert (failed.score, failed.done) == (-100, True)
    for key, points in (("find-plant::229", 8), ("lifespan-longest-lived::98", 0)):
        env.reset(tasks.parse(key))
        assert env.points_at_reset == points
        for action in ("task", "help", "objects"):  # these do not make the simulator compute a score
            transition = env.step(action)
            assert (transition.score, transition.reward, transition.done) == (points, 0, False)
            assert transition.understood


def test_an_ambiguous_request_can_be_answered_with_two_digits(env: ScienceWorld):
    env.reset(tasks.parse("find-plant::229"))
    before = env.step("look around")
    asked = env.step("move soil to flower pot")
    assert asked.understood
    assert asked.ticks == before.ticks
    options = asked.state.observation.splitlines()[1:]
    assert len(options) > 12
    assert options[12].startswith("12:\t")
    answered = env.step("I choose number 12, please")
    assert answered.action == "12"
    # "move soil (in flower pot 1, in greenhouse) to flower pot 3 (in greenhouse)"
    target = options[12].split(" to ")[-1].split(" (")[0]
    assert answered.state.observation == f"You move the soil to the {target}."


@pytest.mark.parametrize("answer", ["focus on air", "reset task"])
def test_anything_else_cancels_an_ambiguous_request(env: ScienceWorld, answer: str):
    env.reset(tasks.parse("find-plant::229"))
    assert env.step("focus on soil").state.observation.startswith(actions.AMBIGUOUS)
    cancelled = env.step(answer)
    assert not cancelled.understood
    assert cancelled.score == env.points_at_reset
    assert env.step("open bee hive").state.observation == "The bee hive is now open."


PERTURBATIONS = (
    str.upper,
    lambda action: f"{action}.",
    lambda action: action.replace(" ", " the ", 1),
    lambda action: action.replace(" on ", " ").replace(" to ", " "),
    lambda action: f'"{action}"!',
    lambda action: f"  {action.replace(' ', '   ')}\n",
    lambda action: action.replace(" to ", " for the "),
    lambda action: action.replace("focus on", "focus on the"),
    lambda action: f"in {action}",
    lambda action: f"please {action}",
)


def test_repair_after_sending_gives_the_outcomes_of_repair_before_sending(
    env: ScienceWorld, simulator: Jvm, gold_paths: dict[str, tuple[str, ...]]
):
    """The SSO reference lists the valid actions before each action; here they are listed only when it failed."""
    repaired = 0
    for key, path in gold_paths.items():
        variant = tasks.parse(key)
        env.reset(variant)
        simulator.call("load", variant.task, variant.index, variant.simplification, False)
        simulator.call("step", "look around")
        for number, action in enumerate(path):
            text = PERTURBATIONS[number % len(PERTURBATIONS)](action)
            transition = env.step(text)
            valid = simulator.call("getValidActionObjectCombinations")
            first = actions.find_equal_action(text, valid) or text.lower()
            answer = simulator.call("step", first)
            assert answer.startswith(transition.state.observation), (key, text)
            assert transition.state.look == simulator.call("freeActionLook").strip(), (key, text)
            assert transition.score == round(100 * simulator.call("getScore")), (key, text)
            assert transition.ticks == simulator.call("getNumMoves"), (key, text)
            repaired += transition.action != actions.clean_action(text)
    assert repaired > 10


def test_what_cannot_be_understood_is_a_step_without_time(env: ScienceWorld):
    start = env.reset(tasks.parse("find-plant::229"))
    for text in ("", "   ", "dance", "\ud800", "7", "pick up\nnothing", "x" * 5000):
        transition = env.step(text)
        assert not transition.understood
        assert (transition.reward, transition.ticks, transition.done) == (0, 0, False)
        assert (transition.state.look, transition.state.inventory) == (start.look, start.inventory)


def test_a_hanging_step_ends_the_trial_and_not_the_environment():
    variant = tasks.parse("find-plant::229")
    with ScienceWorld(step_limit=60) as env:
        start = env.reset(variant)
        scored = env.step("focus on banana tree")
        assert scored.reward > 0
        hung = env._jvm.pid
        env._step_limit = 0.5
        freeze(hung)
        stalled = env.step("wait")
        assert stalled.stalled
        assert stalled.state.observation == STALLED
        assert (stalled.score, stalled.reward, stalled.ticks) == (scored.score, 0, scored.ticks)
        with pytest.raises(ProcessLookupError):
            os.kill(hung, 0)
        with pytest.raises(SimulatorDied, match="reset"):
            env.step("wait")
        assert env.alive
        env._step_limit = 60
        assert env.reset(variant) == start


@pytest.mark.parametrize(
    "said",
    [
        "look around\nreset task",
        "look around\r\x00reset task\x1b[2J",
        "open door" * 100_000,
        "\u2028teleport to kitchen\u2029y\n",
        "\ud800 half a pair",
        "move " + "a" * 5000 + " to pot",
        "\x1b]0;title\x07look",
        "",
    ],
)
def test_whatever_was_said_is_sent_as_one_short_printable_line(said):
    sent = actions.clean_action(said)
    assert len(sent) <= actions.LONGEST
    assert sent.isprintable()
    assert sent == sent.strip()
    sent.encode("utf-8")


@pytest.mark.parametrize(
    ("action", "equal"),
    [("Open the door, to the hallway.", "open door to hallway"), ("look on jug", "look in jug"), ("look in pot", None)],
)
def test_an_equal_action_is_given_in_the_simulators_spelling(action, equal):
    assert actions.find_equal_action(action, ["look in jug", "move jug to pot", "open door to hallway"]) == equal


@pytest.fixture(scope="module")
def states(env: ScienceWorld) -> list[State]:
    """A short walk on find-plant 229: greenhouse, a mistake, a focus, something picked up, hallway."""
    return [
        env.reset(tasks.parse("find-plant::229")),
        *(
            env.step(action).state
            for action in ("dance", "focus on banana tree", "pick up jug", "teleport to hallway", "look around")
        ),
    ]


def test_features_are_the_lines_that_are_seen_and_carried(states: list[State]):
    features = environment.list_features(states[3])
    assert "a flower pot 1 (containing a banana tree in the adult stage, soil)" in features
    assert "a sink, which is turned off. in the sink is: nothing" in features
    assert "a door to the hallway (that is open)" in features
    assert "this room is called the greenhouse" in features
    assert "a jug (containing nothing) in your inventory" in features
    assert "a jug (containing nothing)" not in features
    assert not [one for one in features if "you see" in one or "also see" in one]
    # Nothing is lost: the room's name, every indented line of the surroundings, every line carried.
    carried = len(states[3].inventory.splitlines()) - 1
    assert len(features) == 1 + states[3].look.count("\n\t") + carried


def test_the_first_state_is_shown_whole_and_later_ones_by_what_is_new(states: list[State]):
    first, mistake, focus, picked, moved, looked = environment.render_states(states)
    assert first.startswith("This room is called the greenhouse.\nYou also observe:\n\t")
    assert first.count("\n\t") == len(environment.list_features(states[0])) - 1  # the room's name is the observation
    assert mistake == actions.NOT_KNOWN
    assert focus.startswith("You focus on the plant.\nYou also observe:")  # pots water themselves, time has passed
    assert "(containing a substance called water)" in focus
    assert "nothing" not in focus
    assert picked.startswith("You move the jug to the inventory.\nYou also observe:\n\t")
    assert "a jug (containing nothing) in your inventory" in picked
    assert "a shovel" not in picked
    assert "\n\tthis room is called the hallway" in moved
    assert "a jug" not in moved
    assert looked == "This room is called the hallway."


def test_long_lines_come_first_and_parts_of_them_are_left_out():
    look = (
        "This room is called the x. In it, you see: \n\ta cup\n\ta cup (containing a cup, milk)\n"
        "You also see:\n\ta door"
    )
    shown = environment.render_states([State("Hello.", look, "In your inventory, you see:\n\tmilk\n")])
    assert shown == [
        "Hello.\nYou also observe:\n\ta cup (containing a cup, milk)\n\tthis room is called the x\n\ta door"
    ]


def test_the_focus_is_remembered_when_it_has_left_the_window(env: ScienceWorld):
    start = env.reset(tasks.parse("find-plant::229"))
    focused = env.step("focus on banana tree").state
    later = [env.step(action).state for action in ("pick up jug", "wait1")]
    line = "\n\tyou focus on the plant"
    assert focused.observation == "You focus on the plant."
    assert line not in "".join(env.render([start, focused, *later]))
    assert line in env.render(later)[0]
    assert line not in env.render(later)[1]
    assert line not in env.render([env.reset(tasks.parse("find-plant::229"))])[0]


TEXT = """Completed keys: move1, move2a
-----
Sequential Subgoals:
-----
0\ttrue\t                                GoalFind\tfocus on result chemical (sodium acetate)
1\tfalse\t                   GoalObjectInContainer\tmove it to the true\tfalse box
-----
Unordered and Optional Subgoals:
-----
0\tfalse\t                    GoalInRoomWithObject\tbe in same location as sodium acetate
something else
1\tperhaps\tGoalFind\tfocus
-----
"""


KEYS = ("find-living-thing::28", "lifespan-longest-lived::40", "use-thermometer::57")
"""Training variants with a gold path of few steps."""


@pytest.fixture(scope="module")
def solutions() -> dict[str, tuple[str, ...]]:
    return dict(zip(KEYS, tasks.compute_gold_paths(map(tasks.parse, KEYS)), strict=True))


def test_a_goal_is_its_kind_whether_it_is_done_and_whether_it_is_required():
    assert parse_goal_progress(TEXT) == (
        Goal("GoalFind", done=True, required=True),
        Goal("GoalObjectInContainer", done=False, required=True),
        Goal("GoalInRoomWithObject", done=False, required=False),
    )


def test_a_goal_is_done_once_an_action_reached_it(env: ScienceWorld):
    def heaters() -> list[bool]:
        return [goal.done for goal in env.goal_progress() if goal.kind == "GoalActivateDeviceWithName"]

    env.reset(tasks.parse("boil::10"))
    assert heaters() == [False] * 4
    env.step("teleport to kitchen")
    assert heaters() == [False] * 4
    env.step("activate stove")
    assert heaters() == [True, False, False, False]
    env.reset(tasks.parse("boil::10"))
    assert heaters() == [False] * 4


def test_asking_for_progress_changes_nothing(env: ScienceWorld, solutions: dict[str, tuple[str, ...]]):
    def play(key: str, script: tuple[str, ...], ask: Callable[[], object]) -> list[object]:
        seen: list[object] = [env.reset(tasks.parse(key)), ask() and None]
        for action in script:
            seen += [env.step(action), ask() and None]
        return [*seen, env.points_at_reset, env.task]

    scripts = [(key, ("open door", "focus on soil", *path)) for key, path in solutions.items()]
    scripts.append(("boil::10", ("teleport to kitchen", "activate stove", "focus on air", "wait")))
    scripts.append(("grow-fruit::28", ("teleport to greenhouse", "move soil to flower pot", "1", *["wait"] * 20)))
    for key, script in scripts:
        asked: list[tuple[Goal, ...]] = []
        unasked = play(key, script, lambda: None)
        assert play(key, script, lambda asked=asked: asked.append(env.goal_progress())) == unasked
        assert len(set(asked)) > 1, key


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_progress_of_a_held_out_variant_is_refused_whatever_the_variant_says(env: ScienceWorld, split):
    env.reset(Variant("find-plant", 229, split))
    with pytest.raises(SplitError, match="find-plant::229 is a test variant"):
        env.goal_progress()
    env.reset(tasks.parse("find-plant::150", "dev"))
    assert env.goal_progress()


def test_a_stalled_trial_has_no_goals_and_still_hides_a_held_out_variant():
    with ScienceWorld(step_limit=10) as env:
        for key in ("find-plant::28", "find-plant::229"):
            env.reset(tasks.parse(key))
            env._step_limit = 1e-6
            assert any(env.step("wait").stalled for _ in range(20))  # the answer may be faster than the limit
            env._step_limit = 10
            if key == "find-plant::28":
                assert env.goal_progress() == ()
            else:
                with pytest.raises(SplitError, match="find-plant::229"):
                    env.goal_progress()
