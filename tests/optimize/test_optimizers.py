"""What optimizers may change, what a compile costs at most, and the program under DSPy's own tools."""

import json
import re
from contextvars import Context
from dataclasses import replace

import dspy
import pytest

from rsso_dspy.errors import UnknownName
from rsso_dspy.optimize.acceptance import CompileLimits
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.metric import metric
from rsso_dspy.optimize.optimizers import get_optimizer
from rsso_dspy.optimize.student import get_kept_instruction
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.signatures import FlatActor, SkillActor
from rsso_dspy.signatures.complete import SPOKEN
from tests.live import Engine, acting, model, says
from tests.optimize.conftest import REQUESTS, record
from tests.optimize.scripted import (
    ADVICE,
    GO,
    LONGEST,
    SHORTEST,
    STAY,
    STEPS,
    Models,
    actor,
    adding,
    advised,
    asks_for,
    proposer,
    shown,
    wanted,
)


def test_an_unknown_optimizer_offers_the_nearest():
    with pytest.raises(UnknownName, match="bootstrap"):
        get_optimizer("bootstraps")


# What may change


def instructions(state):
    return {name: predictor["signature"]["instructions"] for name, predictor in state.items()}


def asked_about(recorded):
    """The predictors that the proposer was asked about."""
    words = instructions(Agent("rsso").dump_state())
    return {name for name, said in words.items() if any(said in p for p in recorded.prompts["proposer"])}


def test_roles_that_are_named_are_asked_about_alone(live):
    named = ("actor", "reflector", "skill_verbalizer.target", "constitution_writer.write")
    recorded = record(live, replace(REQUESTS["gepa"], tuned=named))
    original = instructions(Agent("rsso").dump_state())
    candidates = [instructions(candidate.state) for candidate in recorded.observed.of.candidates.values()]
    changed = {name for said in candidates for name in said if said[name] != original[name]}
    called = {name for _, rollout in recorded.observed.told for name, _, _ in rollout.calls}
    assert {"actor", "reflector"} <= asked_about(recorded) <= called & set(named)
    assert changed
    assert changed <= set(named)


def test_of_a_program_without_memories_the_actor_alone_is_reworded(live):
    models = Models(actor=actor(advised), proposer=proposer([ADVICE]))
    compiled = compile_agent(Agent("react"), models.within(live), wanted(rollouts=6))
    original = Agent("react").dump_state()
    assert compiled.candidate
    assert {name for name in original if compiled.chosen_state[name] != original[name]} == {"actor"}
    assert compiled.lm_calls == sum(models.asked.values()), "no call is set aside for roles that were not called"
    said = original["actor"]["signature"]["instructions"]
    assert all(said in prompt for prompt in models.engines["proposer"].prompts)


def test_under_the_complete_interface_the_words_that_are_sent_are_shown_changed_and_played(live):
    within = replace(live, runtime=replace(live.runtime, rules=replace(live.runtime.rules, interface="complete")))
    models = Models(actor=actor(advised), proposer=proposer([ADVICE]))
    compiled = compile_agent(Agent("react"), models.within(within), wanted(rollouts=6))
    sent = SPOKEN[FlatActor.instructions]
    assert all(sent in prompt for prompt in models.engines["proposer"].prompts)
    assert compiled.chosen_state["actor"]["signature"]["instructions"] == f"{sent.strip()}\n{ADVICE}"
    assert compiled.tried[0].program == fingerprint_program(Agent("react")), "unchanged, it is the zero-shot program"


@pytest.mark.parametrize("kind", [FlatActor, SkillActor])
def test_unchanged_words_are_kept_as_the_programs_own(kind):
    sent = SPOKEN[kind.instructions]
    assert sent != kind.instructions
    assert get_kept_instruction(f"{sent}\n", "complete") == kind.instructions
    assert get_kept_instruction(sent, "sso") == sent


def test_bootstrap_changes_demonstrations_and_no_words(bootstrap_compile):
    original = instructions(Agent("rsso").dump_state())
    candidates = [candidate.state for candidate in bootstrap_compile.observed.of.candidates.values()]
    assert all(instructions(state) == original for state in candidates)
    assert any(state["actor"]["demos"] for state in candidates)


# What it costs


def test_no_role_is_asked_more_often_than_was_forecast(recorded, live):
    forecast = recorded.request.forecast(live.protocol)
    calls = {role: usage.calls for role, usage in recorded.compiled.usage.items()}
    assert {role: count for role, count in calls.items() if count > forecast.calls[role]} == {}
    assert recorded.compiled.lm_calls == sum(calls.values()) <= forecast.total_calls


def test_a_forecast_can_be_reached(live):
    """An actor that always uses its whole budget, and a proposer whose every line is worth another rollout."""
    models = Models(actor=actor(lambda _: False), proposer=proposer(map(str, range(99))))
    small = wanted(rollouts=8)
    compiled = compile_agent(Agent("react"), models.within(live), small)
    assert compiled.rollouts == 7, "then too few are left for another candidate"
    forecast = replace(small, limits=CompileLimits(7)).forecast(live.protocol)
    assert models.asked["actor"] == forecast.calls["actor"]
    assert models.asked["proposer"] <= forecast.calls["proposer"]


def test_a_proposer_that_says_nothing_new_is_not_asked_more_often_than_was_forecast(live):
    models = Models(actor=actor(lambda _: False), proposer=lambda prompt: adding(prompt, ""))
    small = wanted(rollouts=7)
    compile_agent(Agent("react"), models.within(live), small)
    assert models.asked["proposer"] <= small.forecast(live.protocol).calls["proposer"]


# The program under DSPy's own tools


def test_a_program_is_saved_and_loaded_by_dspy(tmp_path):
    agent = Agent("rsso")
    agent.reflector.signature = agent.reflector.signature.with_instructions("Reflect.")
    agent.actor.demos = [dspy.Example(task="t", history="h", reasoning="r", current_subgoal="none", next_action="wait")]
    agent.save(tmp_path / "agent.json")
    other = Agent("rsso")
    assert fingerprint_program(other) != fingerprint_program(agent)
    other.load(tmp_path / "agent.json")
    assert fingerprint_program(other) == fingerprint_program(agent)
    assert other.reflector.signature.instructions == "Reflect."


@pytest.fixture
def playing(live):
    """The live session with scripted models and one trial of that many steps."""

    def enter(models, steps=STEPS):
        return acting(live, models, rules=TrialRules(1), budget=lambda _: steps)

    return enter


REFLECTING = Engine(lambda _: json.dumps({"new_instruction": f"Play. {ADVICE}"}))
SET = [dspy.Example(variant=variant.key).with_inputs("variant") for variant in (LONGEST[0], SHORTEST[0])]


@pytest.mark.parametrize("threads", [1, 2])
def test_dspy_evaluates_the_program(playing, threads):
    models = Models(actor=actor(asks_for("longest")))
    with playing(models):
        result = dspy.Evaluate(devset=SET, metric=metric, num_threads=threads, display_progress=False)(Agent("react"))
    assert [score for _, _, score in result.results] == [0.5, 0.0]
    assert models.asked["actor"] == STEPS * 2


def answer_everything(prompt):
    """An actor that goes outside where the task asks for the longest, or where a demonstration or the advice says so.
    To an optimizer's question, the advice in every field."""
    went = GO in prompt.rpartition("<user>")[2]
    action = GO if not went and (asks_for("longest")(prompt) or shown(prompt) or advised(prompt)) else STAY
    said = {"action": action, "next_action": action, "module_advice": json.dumps({"actor": ADVICE})}
    fields = re.findall(r"\[\[ ## (\w+) ## \]\]", prompt.rpartition("Respond with")[2])
    return says(**{name: said.get(name, ADVICE) for name in fields if name != "completed"})


DSPYS_OPTIMIZERS = {
    "bootstrap": (
        lambda: dspy.BootstrapFewShot(metric=metric, metric_threshold=0.5, max_labeled_demos=0),
        {"trainset": SET},
        ({GO}, False),
    ),
    "gepa": (
        lambda: dspy.GEPA(metric, max_metric_calls=4, reflection_minibatch_size=1, reflection_lm=model(REFLECTING)),
        {"trainset": SET[1:], "valset": SET[1:]},
        (set(), True),
    ),
    "mipro": (
        lambda: dspy.MIPROv2(metric, auto=None, num_candidates=3, max_labeled_demos=0, num_threads=1),
        {"trainset": SET[:1], "valset": SET[1:], "num_trials": 2, "minibatch": False},
        ({GO}, True),
    ),
    "simba": (
        lambda: dspy.SIMBA(metric=metric, bsize=2, num_candidates=2, max_steps=1, num_threads=1),
        {"trainset": SET, "seed": 3},  # a seed that draws a demonstration, not a rule, for the better variant
        ({GO}, False),
    ),
}
"""How to make each, what it compiles with, and what the actor has then: demonstrated actions, whether the advice."""


@pytest.fixture
def short_default_session(tmp_path, monkeypatch):
    """A default session of the test's own, with trials of one step, one trial a variant."""
    (tmp_path / "rsso.toml").write_text(
        'embedder.model = "hash"\nprotocol = {preset = "sso-adapt/1-cap60", trials = 1, steps = 1}'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rsso_dspy.sessions._default", opened := [])
    yield
    for each in opened:
        each.runtime.environments.close()


@pytest.mark.parametrize("method_name", ["react", "rsso"])
@pytest.mark.parametrize("name", DSPYS_OPTIMIZERS)
@pytest.mark.usefixtures("short_default_session")
def test_dspys_optimizers_improve_a_program_without_a_session(name, method_name):
    make_optimizer, data, learned = DSPYS_OPTIMIZERS[name]

    def optimize():
        with dspy.context(lm=model(Engine(answer_everything))):
            program = make_optimizer().compile(Agent(method_name), **data)
            return program, metric(None, program(variant=SHORTEST[0].key))

    program, score = Context().run(optimize)  # no session is active there
    demonstrated = {demo.get("action") or demo.get("next_action") for demo in program.actor.demos}
    assert (demonstrated, ADVICE in program.actor.signature.instructions) == learned
    assert score == 0.5
