"""Every optimizer finds what helps when what helps is known: scripted models whose score depends on one line of the
instruction, or on one demonstration."""

import os

import dspy
import pytest
from dspy.utils.exceptions import LMServerError

from rsso_dspy.errors import BackendFailure, UsageError
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.optimizers import OPTIMIZERS, get_optimizer
from rsso_dspy.optimize.program_file import ProgramScores, load
from rsso_dspy.optimize.student import PROPOSAL_CHARACTERS
from rsso_dspy.programs.agent import Agent
from tests.live import says
from tests.optimize.scripted import (
    ADVICE,
    GO,
    LONGEST,
    SHORTEST,
    STEPS,
    Keep,
    Models,
    actor,
    advised,
    asks_for,
    proposer,
    shown,
    wanted,
)

LINES = ["Be polite.", "Count to three.", ADVICE, "Think of the weather."]
NEW = ("mipro", "bootstrap")


def models(name, lines=None):
    """Models with which that optimizer can find something."""
    if name == "bootstrap":
        return Models(actor=actor(lambda prompt: asks_for("longest")(prompt) or shown(prompt)))
    return Models(actor=actor(advised), proposer=proposer(lines or LINES))


ENOUGH = {"mipro": 12, "bootstrap": 4, "none": 1}
"""Rollouts with which each of them finds it."""


def small(name, rollouts=None, **changes):
    """A request of that optimizer."""
    rollouts = ENOUGH[name] if rollouts is None else rollouts
    return wanted(name, train=LONGEST[:2], val=SHORTEST[:1], rollouts=rollouts, **changes)


def test_mipro_finds_a_demonstration(live):
    goes = actor(lambda prompt: asks_for("longest")(prompt) or shown(prompt))
    scripted = Models(actor=goes, proposer=proposer(["Be polite."]))
    compiled = compile_agent(Agent("react"), scripted.within(live), small("mipro"))
    assert (compiled.before, compiled.after) == (ProgramScores(0.0, 0), ProgramScores(0.5, 50))
    assert {demo["action"] for demo in compiled.chosen_state["actor"]["demos"]} == {GO}
    assert any(GO in prompt.rpartition("<user>")[2] for prompt in scripted.engines["proposer"].prompts)


def test_none_writes_the_program_as_it_is(live, tmp_path):
    scripted = models("mipro")
    request = small("none", 1)
    compiled = compile_agent(Agent("react"), scripted.within(live), request, out=tmp_path / "baseline.json")
    assert (compiled.improved, compiled.ended_by, compiled.rollouts) == (False, None, 1)
    assert compiled.before == compiled.after == ProgramScores(0.0, 0)
    assert scripted.asked == {"actor": STEPS, "proposer": 0}
    assert load(tmp_path / "baseline.json").state == Agent("react").dump_state()


# Budgets, and ends


@pytest.mark.parametrize("name", NEW)
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_budget_is_kept_and_no_candidate_begun_that_it_does_not_reach_for(live, name, jobs):
    request = small(name, 1)
    least = get_optimizer(name).least(request.calibration)
    for rollouts in (least, least + 3):
        scripted = models(name)
        small_ = small(name, rollouts)
        compiled = compile_agent(Agent("react"), scripted.within(live), small_, jobs)
        forecast = small_.forecast(live.protocol)
        assert compiled.ended_by is None
        assert compiled.rollouts <= rollouts
        assert len(compiled.tried) >= 2, "one candidate was compared at least"
        assert {role: n for role, n in scripted.asked.items() if n > forecast.calls.get(role, 0)} == {}
        assert compiled.lm_calls == sum(scripted.asked.values())


@pytest.mark.parametrize("name", NEW)
def test_a_search_ends_with_the_best_so_far_when_the_calls_run_out(live, name):
    full = compile_agent(Agent("react"), models(name, [ADVICE]).within(live), small(name))
    assert full.candidate
    calls = full.lm_calls - 1
    compiled = compile_agent(Agent("react"), models(name, [ADVICE]).within(live), small(name, lm_calls=calls))
    assert (compiled.ended_by, compiled.lm_calls) == ("lm-calls", calls)
    tried = [each.program for each in compiled.tried]
    assert tried == [each.program for each in full.tried][: len(tried)]
    assert compiled.after.metric == max(each.scores.metric for each in compiled.tried)


@pytest.mark.parametrize("name", NEW)
def test_a_perfect_program_is_not_searched_beyond(live, name, monkeypatch):
    monkeypatch.setattr("rsso_dspy.optimize.rollouts.score_trials", lambda _: 1.0)
    scripted = models(name)
    request = small(name)
    compiled = compile_agent(Agent("react"), scripted.within(live), request)
    assert (len(compiled.tried), compiled.ended_by) == (1, None)
    assert compiled.rollouts == len(request.calibration.val)


@pytest.mark.parametrize("name", NEW)
def test_a_perfect_candidate_ends_the_search(live, name, monkeypatch):
    def went(trials):
        return float(any(GO in step.action for trial in trials for step in trial.trajectory.steps))

    monkeypatch.setattr("rsso_dspy.optimize.rollouts.score_trials", went)
    compiled = compile_agent(Agent("react"), models(name, [ADVICE]).within(live), small(name))
    assert compiled.after.metric == 1.0
    assert len(compiled.tried) <= 3


# The prompt model


@pytest.mark.parametrize(
    "answer", ["[[ ## completed ## ]]", says(proposed_instruction="x" * (PROPOSAL_CHARACTERS + 1))]
)
def test_a_prompt_model_that_never_says_anything_usable_changes_nothing(live, answer):
    scripted = models("mipro")
    scripted.engines["actor"].answer = actor(lambda _: False)
    scripted.engines["proposer"].answer = lambda _: answer
    request = small("mipro", 20)
    compiled = compile_agent(Agent("react"), scripted.within(live), request)
    assert compiled.candidate is None
    assert len(compiled.tried) == 1


@pytest.mark.parametrize("name", NEW)
def test_a_dead_actor_is_no_score_of_a_candidate(live, name):
    scripted = models(name)
    goes = scripted.engines["actor"].answer

    def answer(prompt):
        if advised(prompt) or shown(prompt):
            raise LMServerError("oops")
        return goes(prompt)

    scripted.engines["actor"].answer = answer
    keep = Keep()
    with pytest.raises(BackendFailure, match=r"could not be played: .*oops"):
        compile_agent(Agent("react"), scripted.within(live), small(name), events=keep)
    assert all(rollout.trials[0].error is None for _, rollout in keep.told)


# The same compile again


@pytest.mark.parametrize("name", NEW)
def test_neither_jobs_nor_prints_nor_files(live, name, capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compiled = []
    for jobs in (1, 2):
        compiled.append(compile_agent(Agent("react"), models(name).within(live), small(name), jobs))
    assert compiled[0] == compiled[1]
    assert len(compiled[0].tried) > 1
    assert capfd.readouterr() == ("", "")
    assert not os.listdir(tmp_path)
    assert dspy.settings.lm is None


# Single rules


def test_mipro_says_what_to_install(monkeypatch):
    monkeypatch.setattr("rsso_dspy.optimize.optimizers.find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'rsso-dspy\[mipro\]'"):
        get_optimizer("mipro")
    assert get_optimizer("gepa").name == "gepa"


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_least_is_within_the_most(name):
    calibration = Calibration(LONGEST[:2], SHORTEST[:2])
    most = get_optimizer(name).most(calibration)
    assert most is None or get_optimizer(name).least(calibration) <= most
