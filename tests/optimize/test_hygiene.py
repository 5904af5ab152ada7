"""What a program must not know does not reach it, neither while it is compiled nor afterwards."""

import json
import re
from contextlib import contextmanager
from dataclasses import replace

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.scienceworld.environment import ScienceWorld
from rsso_dspy.environments.scienceworld.tasks import held_out
from rsso_dspy.environments.wrappers import DemonstratingEnvironment
from rsso_dspy.optimize.calibration import build_examples
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.optimizers import Search, Student
from rsso_dspy.programs.agent import Agent
from rsso_dspy.sessions import session
from tests.live import FAST, Recorder, acting, model
from tests.optimize.conftest import MARKER, TRAIN, VAL
from tests.optimize.scripted import LONGEST, Keep, Models, actor, asks_for, proposer, wanted

FORBIDDEN = {
    "what a goal is about": re.compile(re.escape(MARKER)),
    "the simulator's class of a goal": re.compile(r"\bGoal[A-Z]"),
    "a variant": re.compile(r"[a-z]::\d|" + "|".join({variant.task for variant in (*TRAIN, *VAL)})),
    "a gold path": re.compile(r"gold (path|action)", re.I),
}


def found(text: str) -> list[str]:
    return [what for what, pattern in FORBIDDEN.items() if pattern.search(text)]


def test_neither_prompts_nor_candidates_of_a_compile_hold_what_the_simulator_says_of_its_goals(recorded):
    assert recorded.described, "the simulator was asked, so there was something to leak"
    assert all(MARKER in text and "Goal" in text for text in recorded.described)
    roles = {"actor", "reflector", "verbalizer"}
    assert recorded.prompts.keys() == roles | ({"proposer"} if recorded.request.optimizer.name == "gepa" else set())
    assert not [(role, found(text)) for role, texts in recorded.prompts.items() for text in texts if found(text)]
    states = [candidate.state for candidate in recorded.observed.of.candidates.values()]
    assert len(states) > 1
    assert not [state for state in (*states, recorded.compiled.state) if found(json.dumps(state))]
    goals = [goal for _, rollout in recorded.observed.told for trial in rollout.progress for goal in trial]
    assert goals, "kept without what they are about"
    assert not any(MARKER in str(goal) for goal in goals)


@pytest.mark.usefixtures("fresh_simulators")
def test_neither_jobs_nor_fresh_simulators_nor_what_goals_say_change_a_compile(gepa_compile, tmp_path):
    """Once one rollout at a time, in a used simulator that describes its goals otherwise; then two at a time in fresh
    ones."""
    once, again = tmp_path / "once.json", tmp_path / "again.json"
    gepa_compile.compiled.save(once)
    with session(load_config(overrides=FAST), jobs=2) as two:
        compile_agent(Agent("rsso"), two, gepa_compile.request, jobs=2, out=again)
    assert again.read_bytes() == once.read_bytes()


def test_no_proposer_is_told_of_a_variant_to_choose_by(gepa_compile):
    def tell(variants):
        rollouts = [rollout for _, rollout in gepa_compile.observed.told if rollout.variant in variants]
        return {rollout.trials[0].trajectory.task for rollout in rollouts}

    prompts = "\n".join(gepa_compile.prompts["proposer"])
    assert any(" ".join(task.split()) in prompts for task in tell(TRAIN)), "the tasks to learn from are told"
    assert not [task for task in tell(VAL) if " ".join(task.split()) in prompts or task in prompts]


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


class Demonstrating:
    """Environments that show two solutions, as with `protocol.demonstrations`."""

    def __init__(self, environments):
        self.environments, self.texts = environments, {}

    @contextmanager
    def lease(self):
        with self.environments.lease() as environment:
            yield DemonstratingEnvironment(environment, get_benchmark(), 2, self.texts)


def test_a_compile_plays_calibration_variants_alone_and_shows_goals_and_solutions_of_no_other(live, asked, monkeypatch):
    """No solution of a variant to choose or confirm by either, though these two would be the first to be shown."""
    first = [get_benchmark().tasks.parse(f"{LONGEST[0].task}::{index}") for index in (0, 1)]
    request, observed, shown = wanted(val=tuple(first[:1]), confirm=tuple(first[1:]), rollouts=6), Keep(), []
    monkeypatch.setattr(DemonstratingEnvironment, "_play", lambda _, each: shown.append(each) or f"Task: {each.key}")
    models = Models(actor=actor(asks_for("longest")), proposer=proposer(["Be polite."]))
    within = replace(live, runtime=replace(live.runtime, environments=Demonstrating(live.runtime.environments)))
    compile_agent(Agent("react"), models.within(within), request, events=observed)
    assert {each.index for each in shown} == {2, 3}
    assert all("Task: lifespan-longest-lived::2" in prompt for prompt in models.engines["actor"].prompts)
    assert set(asked) == {*request.calibration.train, *request.calibration.val}
    assert {variant.split for variant in (*asked, *shown)} == {"train"}
    student = Student(Search(Agent("react"), observed.of), lambda rollout: list(rollout.calls))
    for example in build_examples(held_out("lifespan-longest-lived", n=1)):
        with pytest.raises((StopIteration, RuntimeError)):
            student(**example.inputs())
