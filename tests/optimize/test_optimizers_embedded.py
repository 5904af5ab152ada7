"""Every optimizer compiles the whole program on the embedded model; what a program must not know reaches no prompt."""

import json
from dataclasses import replace

import pytest

from rsso_dspy.config import load_config as load_config
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.optimizers import OPTIMIZERS
from rsso_dspy.optimize.program_file import load
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.sessions import session
from tests.live import FAST
from tests.optimize.conftest import MARKER, REQUESTS, THERMOMETER, TRAIN, VAL, record
from tests.optimize.scripted import Keep, wanted
from tests.optimize.test_hygiene import found

ROLLOUTS = {"mipro": 7, "none": 1}
STEPS = dict.fromkeys((*TRAIN, *VAL), 5) | {THERMOMETER: 8}
CHANGES = {
    "mipro": {"instructions", "demos"},
    "none": set(),
}


def test_no_optimizer_is_left_out():
    assert {*ROLLOUTS, *REQUESTS} == set(OPTIMIZERS)


@pytest.fixture(scope="module", params=ROLLOUTS)
def searched(request, live):
    """A compile by each of them, every prompt of which was kept."""
    name, rollouts = request.param, ROLLOUTS[request.param]
    small = wanted(name, TRAIN, VAL, rollouts, method_name="rsso", trials=2)
    return record(live, replace(small, budgets=STEPS))


def said(state):
    return {
        name: (predictor["signature"]["instructions"], json.dumps(predictor["demos"]))
        for name, predictor in state.items()
    }


def test_candidates_differ_in_what_the_optimizer_changes_and_in_nothing_else(searched):
    original = said(Agent("rsso").dump_state())
    states = [candidate.state for candidate in searched.observed.of.candidates.values()]
    changed = {
        (name, what)
        for state in states
        for name, texts in said(state).items()
        for what, text, was in zip(("instructions", "demos"), texts, original[name], strict=True)
        if text != was
    }
    may = CHANGES[searched.request.optimizer.name]
    assert {what for _, what in changed} <= may
    assert bool(changed) == bool(may)
    called = {name for _, rollout in searched.observed.told for name, _, _ in rollout.calls}
    assert {name for name, _ in changed} <= called
    assert all(fingerprint_of(state) == name for name, state in programs(searched))


def programs(searched):
    return [(name, candidate.state) for name, candidate in searched.observed.of.candidates.items()]


def fingerprint_of(state):
    agent = Agent("rsso")
    agent.load_state(state)
    return fingerprint_program(agent)


def test_it_stays_within_budget_and_forecast(searched, live):
    forecast = searched.request.forecast(live.protocol)
    calls = {role: usage.calls for role, usage in searched.compiled.usage.items()}
    assert {role: count for role, count in calls.items() if count > forecast.calls[role]} == {}
    assert searched.compiled.rollouts <= searched.request.limits.rollouts
    assert searched.compiled.lm_calls == sum(map(len, searched.prompts.values()))
    assert ("proposer" in searched.prompts) == ("instructions" in CHANGES[searched.request.optimizer.name])
    assert searched.compiled.ended_by is None


def test_no_prompt_and_no_candidate_holds_what_is_not_to_be_known(searched):
    assert all(MARKER in text for text in searched.described)
    assert searched.described
    for role, prompts in searched.prompts.items():
        assert not [(role, found(prompt)) for prompt in prompts if found(prompt)]
    for _, state in programs(searched):
        assert not found(json.dumps(state))


def test_what_it_found_is_written_and_read(searched, tmp_path):
    searched.compiled.save(tmp_path / "compiled.json")
    assert load(tmp_path / "compiled.json").agent().dump_state() == searched.compiled.agent().dump_state()


@pytest.fixture(scope="module")
def two():
    """A session with two simulators."""
    with session(load_config(overrides=FAST), jobs=2) as pair:
        yield pair


@pytest.mark.parametrize("name", ["mipro", "bootstrap"])
def test_the_same_compile_again_is_the_same_to_the_byte(live, two, name, tmp_path):
    """Once one rollout at a time, then two at a time; and once more with everything read from its logs."""
    small = replace(
        wanted(name, TRAIN, VAL, 6, method_name="rsso"),
        budgets=dict.fromkeys((*TRAIN, *VAL), 4),
    )
    once = tmp_path / "once.json"
    compile_agent(Agent("rsso"), live, small, out=once)
    first = once.read_bytes()
    compile_agent(Agent("rsso"), two, small, 2, out=tmp_path / "two.json")
    assert (tmp_path / "two.json").read_bytes() == first
    keep = Keep()
    compile_agent(Agent("rsso"), live, small, events=keep, out=once)
    assert keep.of.recalled == keep.of.spent
    assert once.read_bytes() == first
