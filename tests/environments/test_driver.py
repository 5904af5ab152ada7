import os
import time

import pytest

from rsso_dspy.environments.scienceworld import ScienceWorld, actions, tasks
from rsso_dspy.environments.scienceworld.environment import STALLED
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.errors import SimulatorDied, UsageError
from tests.environments.frozen import freeze

SCRIPT = (
    "look around",
    "pick up lighter",
    "teleport to kitchen",
    "open cupboard",
    "activate stove",
    "pick up thermometer",
    "wait1",
    "teleport to greenhouse",
    "move soil to flower pot",
    "1",
    "teleport to outside",
    "use thermometer on axe",
)


def play(env: ScienceWorld, key: str, script: tuple[str, ...]) -> list[object]:
    return [env.reset(tasks.parse(key)), env.task, env.points_at_reset, *map(env.step, script)]


@pytest.mark.usefixtures("fresh_simulators")
@pytest.mark.parametrize("task", tasks.tasks()[::10])
def test_a_used_simulator_plays_like_a_fresh_one(env: ScienceWorld, task: str):
    key = tasks.held_out(task)[0].key
    used = play(env, key, SCRIPT)
    with ScienceWorld() as fresh:
        assert play(fresh, key, SCRIPT) == used


@pytest.mark.parametrize("task", ["find-plant", "boil", "use-thermometer", "mendelian-genetics-known-plant"])
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


def test_a_simulator_without_the_guard_sells_the_same_points_twice(simulator: Jvm):
    """Why ``reset task`` is not forwarded. If this fails, the guard has become unnecessary."""
    simulator.call("load", "find-plant", 229, "easy", False)
    scores = []
    for action in ("focus on banana tree", "reset task") * 4:
        simulator.call("step", action)
        scores.append(round(100 * simulator.call("getScore")))
    rewards = [after - before for before, after in zip([0, *scores], scores, strict=False)]
    assert sum(reward for reward in rewards if reward > 0) > 100


@pytest.mark.parametrize(
    "spelling",
    ["reset task", "RESET TASK", "reset the task.", " Reset\ttask!", "resettask", "reset\x01task", "Reset 'a task'"],
)
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


@pytest.mark.parametrize("answer", ["focus on air", "reset task", "help", "99"])
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
        hung = env._require_jvm().pid
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


def test_a_step_that_grows_over_the_limit_stalls():
    """A sink left running makes every later tick dearer, without bound."""
    with ScienceWorld(step_limit=60) as env:
        env.reset(tasks.parse("find-plant::229"))
        env.step("activate sink")
        waits = []
        for _ in range(5):
            begun = time.monotonic()
            quick = env.step("wait")
            waits.append(time.monotonic() - begun)
        assert not quick.stalled
        env._step_limit = 5 * min(waits)  # whatever this machine takes, and whatever kept it from going on once
        for _ in range(500):
            transition = env.step("wait")
            if transition.stalled:
                break
        assert transition.stalled
        assert transition.score == quick.score


def test_a_variant_that_does_not_exist_is_refused(env: ScienceWorld):
    from rsso_dspy.records import Variant

    with pytest.raises(UsageError, match="cannot load boil::9999"):
        env.reset(Variant("boil", 9999))


def test_a_closed_environment_says_so():
    env = ScienceWorld()
    env.close()
    env.close()
    assert not env.alive
    with pytest.raises(SimulatorDied, match="closed"):
        env.reset(tasks.parse("boil::22"))


def test_the_actor_sees_fourteen_templates_and_the_warning(env: ScienceWorld):
    warning, templates = env.action_templates.split("Templates:\n")
    assert len(templates.splitlines()) == 14
    assert "fails the task" in warning
    assert "reset" not in env.action_templates
