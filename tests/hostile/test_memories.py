"""Memories hold to the papers where these say how: what skills are made of, what summaries may lose, what is paid."""

from types import SimpleNamespace

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.memory.constitution import Constitution, ConstitutionMemory, ConstitutionSettings
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.roles import Roles, TrialLedger
from rsso_dspy.programs.runtime import Runtime, TrialRules
from rsso_dspy.records import State, Step, Trajectory, Variant
from tests.live import Engine, Recorder, acting, model, says, scripted
from tests.memory.memory_cases import error, fact, hash_embed, left

ALL = ("abstract", "error", "progress")


# Skills: which trials they learn from.

VARIANT = "find-plant::229"


def solved_at_second(live, gold, **rules):
    """A unit of up to three trials: the first earns points and fails, the second is the solution."""

    actors = {1: scripted([*gold[:-1], "look around"]), 2: scripted(gold)}

    def lm(role, rollout):
        return model(actors[rollout]) if role == "actor" else live.backend.lm(role, rollout)

    with acting(live, lm, budget=lambda _: len(gold), rules=TrialRules(3, **rules)):
        return Agent("rsso")(variant=VARIANT)


@pytest.mark.parametrize("learns", [True, False])
def test_skills_learn_from_the_trial_that_solves_the_variant(live, gold_paths, learns):
    played = solved_at_second(live, gold_paths[VARIANT], learn_after_success=learns)
    assert [trial.trajectory.outcome for trial in played.trials] == ["budget", "solved"]
    held = played.memories["skills"]
    assert {piece["trial"] for piece in held["pieces"]} == ({1, 2} if learns else {1})
    assert bool(held["library"]) is learns
    assert bool(played.trials[1].learnt) is learns
    assert len(played.memories["reflections"]["plans"]) == 1, "a success is reflected on under no setting"


# Constitutions: what a summary may lose.


def book():
    lessons = [fact("Doors open."), fact("Water boils."), error("Waited.", "Look."), error("Ran.", "Walk.")]
    return Constitution().with_lessons([*lessons, left("Found z.")], "boil", "boil::3")


ABSTRACT, ERRORS, NONE = '["Doors open and water boils."]', '[{"mistake": "Idled.", "solution": "Look."}]', "[]"


@pytest.mark.parametrize(
    ("answer", "held", "counts"),
    [
        ({"abstract_rules": ABSTRACT, "error_rules": ERRORS}, ["A5", "E6"], (1, 0)),
        ({"abstract_rules": ABSTRACT, "error_rules": NONE}, ["A5", "E3", "E4"], (1, 0)),
        ({"abstract_rules": ABSTRACT, "error_rules": '["none"]'}, ["A5", "E3", "E4"], (1, 0)),
        ({"abstract_rules": NONE, "error_rules": ERRORS}, ["E5", "A1", "A2"], (1, 0)),
        ({"abstract_rules": NONE, "error_rules": NONE}, ["A1", "A2", "E3", "E4"], (0, 1)),
        ({"abstract_rules": ABSTRACT}, ["A1", "A2", "E3", "E4"], (0, 1)),
    ],
    ids=["both", "no errors", "none said", "no facts", "nothing", "a field missing"],
)
def test_no_answer_of_a_summarizer_wipes_a_category(answer, held, counts):
    advisor = Advisor(lambda _: says(**answer))
    memory = advisor.memory(ConstitutionSettings(s_freq=1, r_freq=100))
    memory.restore(book().keep_categories(("abstract", "error")).dump())
    learnt = play(memory, 3)
    assert [rule.id for rule in memory.constitution.rules] == held
    assert (learnt["summaries"], learnt["malformed"]) == counts


# Constitutions: what is asked for.


class Advisor:
    """The advisor's role of a method, on a model whose answers a function gives, without any simulator."""

    def __init__(self, answer, name="omnireflect-neural"):
        self.engine = Engine(answer) if answer else Recorder(0, [])
        self.agent = Agent(name)

    def memory(self, settings, examples="", lm=model) -> ConstitutionMemory:
        runtime = Runtime(
            environments=None, variant=Variant, budget=len, lm=lambda *_: lm(self.engine), embed=hash_embed,
            constitution=settings, examples=examples,
        )  # fmt: skip
        roles = Roles(self.agent.modules, self.agent.method, runtime)
        self.ledger = TrialLedger(runtime.spend)
        roles.begin_trial(self.ledger, 1)
        roles.environment = SimpleNamespace(render=lambda states: [state.description for state in states])
        memory = ConstitutionMemory(roles)
        memory.begin_trial(Variant("boil", 3), "task")
        return memory


def play(memory, count):
    """An episode of so many steps, in which something opens; the counts."""
    seen = State("The cupboard is now open.", "This room is the kitchen.", "nothing")
    steps = [Step("open cupboard", "open cupboard", seen, 0, 0, True)] * count
    variant = Variant("boil", 3, "train")
    memory.begin_trial(variant, "task")
    with dspy.context(adapter=ChatAdapter()):
        for n in range(1, count):
            memory.observe([seen] * (n + 1), steps[:n])
        return memory.learn(Trajectory(variant, 1, "task", seen, 0, tuple(steps), "budget"))


@pytest.mark.parametrize(
    ("kept", "calls"), [((), 0), (("progress",), 3), (("error",), 4 + 1), (ALL, 4 + 1)], ids=["none", "progress", *"12"]
)
def test_no_call_is_made_whose_answer_would_be_thrown_away(kept, calls):
    """Eight steps, a writing every two: the one after the last step is for the next episode, which reads no
    progress."""
    advisor = Advisor(None)
    play(advisor.memory(ConstitutionSettings(r_freq=2, s_freq=1, categories=kept)), 8)
    assert len(advisor.engine.prompts) == calls
    assert sum(usage.calls for usage in advisor.ledger.usage_by_role().values()) == calls


@pytest.mark.parametrize(("usual", "samples", "sent"), [(0.0, 1, 0.0), (0.0, 3, 0.7), (0.4, 3, 0.4)])
def test_samples_can_differ_whatever_the_temperature(usual, samples, sent):
    class Thermometer(Engine):
        def complete(self, request):
            drawn.append(request.config.temperature)
            return super().complete(request)

    def make(engine):
        return dspy.LM("test/model", engine=engine, cache=False, temperature=usual)

    drawn, advisor = [], Advisor(None)
    advisor.engine = Thermometer(lambda _: says(abstract_rules=ABSTRACT, error_rules=NONE, progress_rules=NONE))
    learnt = play(advisor.memory(ConstitutionSettings(r_freq=2, samples=samples), lm=make), 3)
    assert (drawn, learnt["written"]) == ([sent] * samples, 1)


def test_rules_and_their_summary_are_asked_for_with_priorities_only_where_these_are_wanted():
    for asked in (False, True):
        advisor = Advisor(lambda _: says(abstract_rules='["Priority 1: look."]', error_rules=NONE))
        settings = ConstitutionSettings(r_freq=2, s_freq=1, categories=("abstract", "error"), priorities=asked)
        play(advisor.memory(settings), 3)
        assert ["by its priority" in prompt for prompt in advisor.engine.prompts] == [asked] * 2
        assert not any("Progress rules" in prompt for prompt in advisor.engine.prompts)
