from collections.abc import Callable

import pytest

from rsso_dspy.environments import Environment, Goal
from rsso_dspy.environments.scienceworld import ScienceWorld, tasks
from rsso_dspy.environments.scienceworld.environment import parse_goal_progress
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.errors import SimulatorDied, SplitError
from rsso_dspy.records import Variant

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


@pytest.mark.parametrize("text", ["", "Completed keys: \n", "0\ttrue\tGoalFind\ta row under no heading"])
def test_a_text_without_rows_has_no_goals(text: str):
    assert parse_goal_progress(text) == ()


def test_descriptions_are_nowhere_in_the_result():
    goals = parse_goal_progress(TEXT)
    assert "sodium" in TEXT
    assert "sodium" not in repr(goals)
    assert "box" not in repr(goals)
    assert set(Goal.__slots__) == {"kind", "done", "required"}


@pytest.mark.parametrize("task", tasks.tasks())
def test_goals_of_every_task_are_read(env: ScienceWorld, simulator: Jvm, task: str):
    variant = tasks.train_sample(task)[0]
    env.reset(variant)
    goals = env.goal_progress()
    simulator.call("load", variant.task, variant.index, variant.simplification, False)
    simulator.call("step", "look around")
    text = simulator.call("getGoalProgressStr")
    required, optional = (part.count(" Goal") for part in text.split("Unordered and Optional"))
    assert [goal.required for goal in goals] == [True] * required + [False] * optional
    assert all(goal.kind.startswith("Goal") and goal.kind in text for goal in goals)
    assert any(goal.required for goal in goals)
    assert not any(goal.done for goal in goals if goal.required)


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


def test_solving_a_variant_reaches_all_required_goals(env: ScienceWorld, solutions: dict[str, tuple[str, ...]]):
    for key, path in solutions.items():
        env.reset(tasks.parse(key))
        reached = []
        for action in path:
            env.step(action)
            reached.append(sum(goal.done for goal in env.goal_progress() if goal.required))
        assert reached[0] == 0
        assert reached == sorted(reached)
        assert all(goal.done for goal in env.goal_progress() if goal.required)


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
    with pytest.raises(SplitError, match=r"find-plant::229 is a test variant.*train or dev"):
        env.goal_progress()
    env.reset(tasks.parse("find-plant::150", "dev"))
    assert env.goal_progress()


def test_without_a_reset_there_is_no_progress():
    with ScienceWorld() as fresh, pytest.raises(SimulatorDied, match="reset"):
        fresh.goal_progress()


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


def test_a_dead_simulator_says_so():
    env = ScienceWorld()
    env.reset(tasks.parse("find-plant::28"))
    assert env.goal_progress()
    env.close()
    with pytest.raises(SimulatorDied, match="closed"):
        env.goal_progress()


def test_what_programs_play_through_offers_no_progress():
    assert not hasattr(Environment, "goal_progress")
