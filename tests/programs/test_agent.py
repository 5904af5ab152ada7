import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from rsso_dspy.errors import UsageError
from rsso_dspy.programs import runtime
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.prediction import SOLVED
from rsso_dspy.programs.runtime import TrialRules
from tests.live import REWARDED, Engine, acting, model, region, says, scripted, walks

VARIANT = "lifespan-longest-lived::98"


@pytest.fixture(scope="module")
def list_prompts(live):
    """Gives every actor prompt of three trials of a method, trial by trial; each is played once."""

    @cache
    def list_prompts(method_name, mute=frozenset()):
        lm, actors = walks(live, mute=mute)
        with acting(live, lm, rules=TrialRules(3, stop_on_success=False, layout="paper")):
            result = Agent(method_name)(variant=REWARDED)
        assert result.points == 67
        return [actors[trial].prompts for trial in (1, 2, 3)]

    return list_prompts


@pytest.mark.parametrize(
    ("row", "mute", "like"),
    [
        ("rsso", {"reflector"}, "sso"),
        ("rsso", {"verbalizer"}, "reflexion-sso"),
        ("rsso", {"reflector", "verbalizer"}, "react-sso"),
        ("sso", {"verbalizer"}, "react-sso"),
        ("reflexion-sso", {"reflector"}, "react-sso"),
        ("reflexion", {"reflector"}, "react"),
    ],
)
def test_a_row_whose_memory_stays_empty_sends_the_bytes_of_the_row_without_it(list_prompts, row, mute, like):
    assert list_prompts(row, frozenset(mute)) == list_prompts(like)


def test_rows_of_one_scaffold_are_the_same_at_trial_1(list_prompts):
    plain, both = list_prompts("react-sso"), list_prompts("rsso")
    assert plain[0] == both[0]
    assert region(both[1][0], "plans_from_past_attempts")
    assert region(plain[1][0], "plans_from_past_attempts") is None
    assert "Constitution" not in both[2][-1]


def test_the_step_budget_and_the_variants_name_are_never_shown(live):
    with live.activate_for_run(), pytest.raises(UsageError, match="at least 1"):
        Agent("react")(variant=VARIANT, trials=0)
    budget = 19
    lm, actors = walks(live)
    with acting(live, lm, budget=lambda _: budget, rules=TrialRules(3, stop_on_success=False)):
        result = Agent("rsso")(variant=REWARDED)
    assert {trial.trajectory.outcome for trial in result.trials} == {"budget"}
    assert {len(trial.trajectory.steps) for trial in result.trials} == {budget}
    prompts = [prompt for actor in actors.values() for prompt in actor.prompts]
    assert not any(re.search(rf"\b{budget}\b|::|find-plant", prompt) for prompt in prompts)


def test_a_malformed_answer_is_a_step_that_does_nothing_and_is_counted(live):
    answers = iter(["What a nice room.", "Still nice.", says(action="1. `look around`\nand then some")])
    actor = Engine(lambda _: next(answers, says(thought="r", subgoal="none", action='"look around"')))
    with acting(live, lambda *_: model(actor), budget=lambda _: 3):
        result = Agent("react-sso")(variant=VARIANT, trials=1)
    steps = result.trials[0].trajectory.steps
    # An unreadable answer is asked for once more; both were unreadable.
    assert [step.malformed for step in steps] == [True, False, False]
    assert (steps[0].action, steps[0].understood, steps[0].reward) == ("", False, 0)
    assert {step.proposed for step in steps[1:]} == {"look around"}
    assert result.trials[0].usage["actor"].malformed == 1
    assert result.trials[0].usage["actor"].calls == 4


def test_history_shows_the_action_that_was_sent_and_ten_states_at_most(live):
    actor = scripted(["Teleport to the Kitchen", *["look around"] * 20])
    with acting(live, lambda *_: model(actor), budget=lambda _: 15):
        Agent("react-sso")(variant=VARIANT, trials=1)
    assert "action: teleport to kitchen" in actor.prompts[1].lower().replace("to the", "to")
    assert actor.prompts[-1].count("Observation:") == 10
    assert actor.prompts[0].count("Observation:") == 1


def test_the_subgoal_is_remembered_only_when_it_is_an_offered_one(live):
    lm, actors = walks(live)
    with acting(live, lm, rules=TrialRules(3, False)):
        result = Agent("sso")(variant=REWARDED)
    assert {step.subgoal for step in result.trials[2].trajectory.steps} == {None}
    offered = re.search(r"Subgoal 1: (.*)", region(actors[3].prompts[0], "skills")).group(1)
    lm, _ = walks(live, subgoal=f'"{offered.upper()}"')
    with acting(live, lm, rules=TrialRules(3, False)):
        result = Agent("sso")(variant=REWARDED)
    assert result.trials[2].trajectory.steps[0].subgoal == offered
    assert {step.subgoal for step in result.trials[0].trajectory.steps} == {None}


def test_a_trial_keeps_what_memories_showed(live):
    lm, actors = walks(live)
    with acting(live, lm, rules=TrialRules(3, False, layout="paper")):
        trial = Agent("rsso")(variant=REWARDED).trials[2]
    assert trial.shown["plans_from_past_attempts"] == region(actors[3].prompts[0], "plans_from_past_attempts")
    for step, prompt in zip(trial.trajectory.steps, actors[3].prompts, strict=True):
        assert 1 <= len(step.recalled) <= 3
        assert trial.shown[f"skills:{','.join(step.recalled)}"] == region(prompt, "skills")


def test_learning_is_skipped_after_the_last_trial_unless_asked_for(live):
    for after_last, learnt in ((False, [True, False]), (True, [True, True])):
        rules = TrialRules(2, stop_on_success=False, learn_after_last=after_last)
        with acting(live, walks(live)[0], rules=rules):
            result = Agent("rsso")(variant=REWARDED)
        assert [bool(trial.learnt) for trial in result.trials] == learnt


def test_a_solved_variant_is_left_alone_by_default(live, gold_paths):
    solution = scripted(gold_paths[VARIANT])
    with acting(live, lambda *_: model(solution), budget=lambda _: 60):
        result = Agent("rsso")(variant=VARIANT, trials=3)
    assert [trial.trajectory.outcome for trial in result.trials] == ["solved"]
    assert result.score >= SOLVED
    assert result.points == 100
    learnt = result.trials[0].learnt
    assert (learnt["skills"]["pieces"], learnt["plans_from_past_attempts"]["written"]) == (1, 0)
    assert set(result.trials[0].usage) == {"actor"}, "one success is no evidence of a skill: no model is asked"


@pytest.mark.parametrize(
    ("action", "rules", "outcome", "steps"),
    [("look around", {"max_repeat": 10}, "repeated", 11), ("wait", {"max_ticks": 100}, "budget", 10)],
)
def test_equal_actions_and_simulator_ticks_end_a_trial_where_the_protocol_says_so(live, action, rules, outcome, steps):
    with acting(live, lambda *_: model(scripted([action] * 50)), rules=TrialRules(1, **rules), budget=lambda _: 40):
        trial = Agent("react")(variant=VARIANT).trials[0].trajectory
    assert (trial.outcome, len(trial.steps)) == (outcome, steps)


def kills(live, at_steps):
    """A stop hook that kills the simulator's process at these checks instead of stopping anything. Checks while one
    starts, which a busy machine makes many, do not count."""
    count = 0

    def check():
        nonlocal count
        running = list(live.runtime.environments._all)
        count += len(running)
        if running and count in at_steps:
            (environment,) = running
            os.kill(environment._jvm.pid, signal.SIGKILL)
        return False

    return check


def test_a_simulator_that_dies_is_replaced_and_the_trial_played_again_once(live):
    actor = ["look around"] * 4
    with acting(live, lambda *_: model(scripted(actor * 2)), budget=lambda _: 4):
        whole = Agent("react")(variant=VARIANT, trials=1).trials[0]
    with acting(live, lambda *_: model(scripted(actor * 3)), budget=lambda _: 4, stopped=kills(live, {3})):
        again = Agent("react")(variant=VARIANT, trials=1).trials[0]
    assert (again.replayed, again.error) == (1, None)
    assert again.trajectory == whole.trajectory
    with acting(live, lambda *_: model(scripted(actor * 3)), budget=lambda _: 4, stopped=kills(live, {2, 5})):
        result = Agent("react")(variant=VARIANT, trials=3)
    assert [(trial.trajectory, "SimulatorDied" in trial.error) for trial in result.trials] == [(None, True)]
    assert result.score is None


def test_without_a_session_the_default_one_is_opened():
    with ThreadPoolExecutor() as threads:  # the session of the other tests is this thread's
        result = threads.submit(Agent("react"), variant=VARIANT, trials=1).result()
    assert [trial.error for trial in result.trials] == [None]


def test_where_no_session_can_be_opened_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setattr(runtime, "_default_session", None)
    with ThreadPoolExecutor() as threads, pytest.raises(UsageError, match=r"rsso_dspy\.session"):
        threads.submit(Agent("react"), variant=VARIANT).result()


def test_the_module_holds_predictors_and_no_state(live):
    agent = Agent("rsso")
    before = agent.dump_state()
    with acting(live, live.runtime.lm, budget=lambda _: 6):
        agent(variant=VARIANT, trials=2)
    assert agent.dump_state() == before
    assert all(predictor.lm is None for predictor in agent.predictors())
