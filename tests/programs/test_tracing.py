"""What a trial leaves in DSPy's trace, which is what optimizers learn from."""

from collections import Counter
from contextvars import Context

import dspy
import pytest
from dspy.utils.exceptions import LMServerError

from rsso_dspy.config import load_config
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ROLE_OF
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.sessions import session
from tests.live import FAST, REWARDED, WALK, Engine, acting, model, says, walks

VARIANT = "lifespan-longest-lived::98"

GO = "teleport to outside"
"""Worth 50 points on that variant."""


def speaker(answers):
    """A flat actor that gives these answers in turn: an action, or None for an answer that nothing can be read from.
    Each answer's thought is its place among the actions, from 0."""
    left = iter(texts(answers))
    return Engine(lambda _: next(left))


def texts(answers):
    for place, said in enumerate(answers):
        # What cannot be read is asked for once more.
        yield from ["no answer"] * 2 if said is None else [says(thought=str(place), action=said)]


def thoughts(trace):
    return [said.thought for _, _, said in trace]


@pytest.mark.parametrize(
    ("answers", "trials", "kept"),
    [
        # Kept: repeated with the same answer, not understood, earned points, the last.
        pytest.param(["look around"] * 2 + ["opne door", GO, "look around", "wait"], 1, "1235", id="informative"),
        pytest.param(["look around", GO, "look around", "wait"], 1, "13", id="another answer is no repetition"),
        pytest.param([*["look around"] * 2, "inventory", "look around", "inventory", "wait"], 2, "125", id="by trial"),
        pytest.param([None, "look around", None, GO, None, "wait"], 1, "35", id="unreadable first and between"),
        pytest.param(["look around", GO, "look around", None], 1, "12", id="unreadable last"),
    ],
)
def test_of_the_actor_only_calls_that_teach_something_are_left(live, answers, trials, kept):
    rules, budget, engine = TrialRules(trials, stop_on_success=False), len(answers) // trials, speaker(answers)
    with acting(live, lambda *_: model(engine), budget=lambda _: budget, rules=rules), dspy.context(trace=[]):
        result = Agent("react")(variant=VARIANT)
        trace = dspy.settings.trace
    steps = [step for trial in result.trials for step in trial.trajectory.steps]
    assert [step.malformed for step in steps] == [not answer for answer in answers]
    assert "".join(thoughts(trace)) == kept


def test_an_entry_is_the_programs_own_predictor_with_what_it_read_and_said(live):
    agent = Agent("react")
    engine = speaker([GO, "wait"])
    with acting(live, lambda *_: model(engine), budget=lambda _: 2), dspy.context(trace=[]):
        agent(variant=VARIANT, trials=1)
        trace = dspy.settings.trace
    assert all(predictor is agent.actor for predictor, _, _ in trace)
    assert all(given["observation"] in prompt for (_, given, _), prompt in zip(trace, engine.prompts, strict=True))
    assert [len(given["history"].messages) for _, given, _ in trace] == [0, 1]
    assert [said.action for _, _, said in trace] == [GO, "wait"]


def test_every_call_of_the_other_roles_is_left(live):
    agent = Agent("rsso")
    names = {id(predictor): name for name, predictor in agent.named_predictors()}
    lm, _ = walks(live)
    with acting(live, lm, rules=TrialRules(3, stop_on_success=False)), dspy.context(trace=[]):
        result = agent(variant=REWARDED)
        left = Counter(ROLE_OF[names[id(predictor)]] for predictor, _, _ in dspy.settings.trace)
    calls = sum((Counter({role: u.calls for role, u in trial.usage.items()}) for trial in result.trials), Counter())
    assert min(calls["reflector"], calls["verbalizer"]) > 0
    assert (left["reflector"], left["verbalizer"]) == (calls["reflector"], calls["verbalizer"])
    assert 0 < left["actor"] < calls["actor"]
    assert calls["actor"] >= 3 * len(WALK)


def test_a_trial_that_fails_leaves_nothing(live):
    said = [*texts([GO, "wait"]), *texts([GO])]

    def answer(_):
        if not said:
            raise LMServerError("oops")
        return said.pop(0)

    lm = dspy.LM("embedded/explorer", engine=Engine(answer), cache=False, num_retries=0)
    with (
        acting(live, lambda *_: lm, budget=lambda _: 2, rules=TrialRules(2, stop_on_success=False)),
        dspy.context(trace=[]),
    ):
        result = Agent("react")(variant=VARIANT)
        trace = dspy.settings.trace
    assert [trial.error is None for trial in result.trials] == [True, False]
    assert thoughts(trace) == ["0", "1"]


def test_a_session_leaves_traces_as_they_are_and_an_agent_adds_nothing_to_the_process_wide_one():
    def play():
        before = len(dspy.settings.trace)  # of the process-wide trace, which DSPy never empties
        with session(load_config(overrides=(*FAST, "protocol.steps=1"))), dspy.context(lm=None):  # a context repeats it
            Agent("react")(variant=VARIANT, trials=1)
            return before, len(dspy.settings.trace)

    before, after = Context().run(play)  # no session is active there
    assert before == after
    with dspy.context(trace=[]), session(load_config(overrides=(*FAST, "protocol.steps=1"))):
        Agent("react")(variant=VARIANT, trials=1)
        assert [said.action for _, _, said in dspy.settings.trace]
