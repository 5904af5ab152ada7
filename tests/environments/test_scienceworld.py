"""ScienceWorld through its driver: what is sent, what is said, how far its goals are."""

import os
from collections.abc import Callable

import pytest

from rsso_dspy.environments import STALLED, Goal
from rsso_dspy.environments.scienceworld import ScienceWorld, actions, environment, tasks
from rsso_dspy.environments.scienceworld.environment import parse_goal_progress
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


def test_gold_paths_solve_their_variants(env: ScienceWorld, gold_paths: dict[str, tuple[str, ...]]):
    for key, path in gold_paths.items():
        env.reset(tasks.parse(key))
        steps = [env.step(action) for action in path]
        assert [step.done for step in steps] == [step.score == 100 for step in steps]
        assert steps[-1].done
        assert env.points_at_reset + sum(step.reward for step in steps) == 100
        assert all(step.understood and step.action == action.lower() for step, action in zip(steps, path, strict=True))


@pytest.mark.parametrize("interface", ["sso", "complete"])
@pytest.mark.parametrize("spelling", ["RESET TASK", "**reset the task.**", "resettask", "reset\x01task"])
def test_reset_task_is_never_forwarded(env: ScienceWorld, spelling: str, interface):
    env.choose_interface(interface)
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


@pytest.mark.parametrize(
    ("answer", "sent", "says"),
    [
        ("I choose number 12, please", "12", "You move the soil to the"),
        ("focus on air", actions.CANCEL, actions.NO_EFFECT),
        ("reset task", actions.CANCEL, actions.NO_EFFECT),
    ],
)
def test_an_ambiguous_request_is_answered_by_a_number_and_cancelled_by_anything_else(env, answer, sent, says):
    env.reset(tasks.parse("find-plant::229"))
    before = env.step("look around")
    asked = env.step("move soil to flower pot")
    options = asked.state.observation.splitlines()[1:]
    assert (asked.understood, asked.ticks, asked.asked_back) == (True, before.ticks, True)
    assert options[12].startswith("12:\t")
    answered = env.step(answer)
    assert (answered.action, answered.understood, answered.score) == (sent, sent == "12", env.points_at_reset)
    assert answered.state.observation.startswith(says)
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
        with pytest.raises(SplitError, match="find-plant::229"):
            env.goal_progress()
        with pytest.raises(ProcessLookupError):
            os.kill(hung, 0)
        with pytest.raises(SimulatorDied, match="reset"):
            env.step("wait")
        assert env.alive
        env._step_limit = 60
        assert env.reset(variant) == start


@pytest.mark.parametrize(
    "said", ["look around\r\x00reset task\x1b[2J\n", "open door" * 100_000, "\u2028look\u2029y", "\ud800 half a pair"]
)
def test_whatever_was_said_is_sent_as_one_short_printable_line(said):
    sent = actions.clean_action(said)
    assert len(sent) <= actions.LONGEST
    assert sent.isprintable()
    assert sent == sent.strip()
    sent.encode("utf-8")


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


KEYS = ("find-living-thing::28", "lifespan-longest-lived::40")  # training variants with a gold path of few steps


def test_a_goal_is_its_kind_whether_it_is_done_and_whether_it_is_required():
    assert parse_goal_progress(TEXT) == (
        Goal("GoalFind", done=True, required=True),
        Goal("GoalObjectInContainer", done=False, required=True),
        Goal("GoalInRoomWithObject", done=False, required=False),
    )


def test_asking_for_progress_changes_nothing(env: ScienceWorld):
    def play(key: str, script: tuple[str, ...], ask: Callable[[], object]) -> list[object]:
        seen: list[object] = [env.reset(tasks.parse(key)), ask() and None]
        for action in script:
            seen += [env.step(action), ask() and None]
        return [*seen, env.points_at_reset, env.task]

    paths = tasks.compute_gold_paths(map(tasks.parse, KEYS))
    for key, path in zip(KEYS, paths, strict=True):
        script = ("open door", "focus on soil", *path)
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
