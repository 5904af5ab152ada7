"""What a program must not know does not reach it, neither while it is compiled nor afterwards."""

import json
import re
from dataclasses import replace

import pytest

from rsso_dspy.environments.scienceworld.environment import ScienceWorld
from rsso_dspy.environments.scienceworld.tasks import held_out
from rsso_dspy.optimize.calibration import build_examples
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.feedback import build_feedback
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.student import Search, Student
from rsso_dspy.programs.agent import Agent
from tests.live import Recorder, acting, model
from tests.optimize.conftest import MARKER, TRAIN, VAL
from tests.optimize.scripted import Models, actor, asks_for, list_names, mentions_any, proposer, wanted

FORBIDDEN = {
    "what a goal is about": re.compile(re.escape(MARKER)),
    "the simulator's class of a goal": re.compile(r"\bGoal[A-Z]"),
    "a variant": re.compile(r"[a-z]::\d|" + "|".join({variant.task for variant in (*TRAIN, *VAL)})),
    "a gold path": re.compile(r"gold (path|action)", re.I),
}


def found(text: str) -> list[str]:
    return [what for what, pattern in FORBIDDEN.items() if pattern.search(text)]


def test_no_prompt_of_a_compile_holds_what_the_simulator_says_of_its_goals(recorded):
    assert recorded.described, "the simulator was asked, so there was something to leak"
    assert all(MARKER in text and "Goal" in text for text in recorded.described)
    roles = {"actor", "reflector", "verbalizer"} | (
        {"proposer"} if recorded.request.optimizer.name == "gepa" else set()
    )
    assert recorded.prompts.keys() == roles
    for role, prompts in recorded.prompts.items():
        assert not [(role, found(prompt)) for prompt in prompts if found(prompt)]


def test_nothing_of_it_is_in_any_candidate_or_the_compiled_state(recorded):
    states = [candidate.state for candidate in recorded.observed.of.candidates.values()]
    assert len(states) > 1
    for state in (*states, recorded.compiled.state):
        assert not found(json.dumps(state))


def test_no_advice_of_a_real_compile_names_a_thing_of_its_variant(gepa_compile):
    """Of what the simulator and the embedded player said: facts name things, advice none."""
    facts, advice = 0, 0
    for _, rollout in gepa_compile.observed.told:
        states = [state for result in rollout.trials for state in result.trajectory.states]
        names = {name for state in states for name in list_names(state)}
        for name, given, said in rollout.calls:
            text = build_feedback(name, given, said, rollout.trials, rollout.progress)
            told, _, advised = text.partition("Advice:\n")
            facts += any(mentions_any(line, names) for line in told.splitlines())
            advice += len(advised.splitlines())
            assert not [line for line in advised.splitlines() if mentions_any(line, names)]
    assert facts > 0
    assert advice > 0


def test_no_proposer_is_told_of_a_variant_to_choose_by(gepa_compile):
    def tell(variants):
        rollouts = [rollout for _, rollout in gepa_compile.observed.told if rollout.variant in variants]
        return {rollout.trials[0].trajectory.task for rollout in rollouts}

    prompts = "\n".join(gepa_compile.prompts["proposer"])
    assert any(" ".join(task.split()) in prompts for task in tell(TRAIN)), "the tasks to learn from are told"
    assert not [task for task in tell(VAL) if " ".join(task.split()) in prompts or task in prompts]


def test_goals_are_kept_without_what_they_are_about(recorded):
    goals = [goal for _, rollout in recorded.observed.told for trial in rollout.progress for goal in trial]
    assert goals
    assert not any(MARKER in str(goal) for goal in goals)


@pytest.fixture
def asked(monkeypatch):
    """Variants whose goals were asked for."""
    variants = []
    goal_progress = ScienceWorld.goal_progress

    def spied(environment):
        variants.append(environment._variant)
        return goal_progress(environment)

    monkeypatch.setattr(ScienceWorld, "goal_progress", spied)
    return variants


def test_a_compiled_program_plays_held_out_variants_as_any_program_does(recorded, live, asked):
    prompts: list[str] = []
    agent = recorded.compiled.agent()
    rules = replace(live.runtime.rules, trials=2, stop_on_success=False)
    with acting(live, lambda _, rollout: model(Recorder(rollout, prompts)), rules=rules, budget=lambda _: 4):
        for variant in held_out("use-thermometer", n=1):
            agent(variant=variant)
    assert len(prompts) == 2 * 4 + 1, "two trials and a reflection"
    assert not [found(prompt) for prompt in prompts if found(prompt)]
    assert asked == []


def test_the_goals_of_calibration_variants_alone_are_asked_for(live, asked):
    models = Models(actor=actor(asks_for("longest")), proposer=proposer(["Be polite."]))
    request = wanted(rollouts=6)
    compile_agent(Agent("react"), models.within(live), request)
    assert set(asked) == set(request.calibration.variants)
    assert {variant.split for variant in asked} == {"train"}


def test_a_student_plays_no_other_variant(live):
    rollouts = Rollouts(live, wanted())
    student = Student(Search(Agent("react"), rollouts), lambda rollout: list(rollout.calls))
    for example in build_examples(held_out("lifespan-longest-lived", n=1)):
        with pytest.raises(Exception):  # noqa: B017, PT011
            student(**example.inputs())
