"""Memories hold to the papers where these say how: what skills are made of, what summaries may lose, what is paid."""

import json
from dataclasses import replace

import dspy
import pytest

from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.forecast import forecast_calls
from rsso_dspy.memory.constitution import Constitution, ConstitutionMemory, ConstitutionSettings, RuleWriter
from rsso_dspy.memory.constitution.constitution import RuleEdit
from rsso_dspy.memory.constitution.file import format_examples as shipped_examples
from rsso_dspy.memory.skills import SkillSettings
from rsso_dspy.plan import make_plan
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.constitution_writer import select_category_fields
from rsso_dspy.programs.methods import get_method
from rsso_dspy.programs.roles import Roles, TrialLedger
from rsso_dspy.programs.runtime import Runtime, TrialRules
from rsso_dspy.protocol import PRESETS, resolve_protocol
from rsso_dspy.records import State, Step, Trajectory, Variant
from rsso_dspy.signatures import SummarizeConstitution, WriteRules
from rsso_dspy.store.run_folder import Arm
from tests.live import Engine, Recorder, acting, model, region, says, scripted
from tests.memory.memory_cases import error, fact, hash_embed, left, skill_memory, trajectory, walk

ALL = ("abstract", "error", "progress")

# Skills: which pieces make one.

ANY = SkillSettings(pairs="any")


def long_trial(trial=1):
    """Sixty states in which the same way to a reward is gone twice, far enough apart to be cut into two pieces."""
    way = ["door", "hall", "yard"]
    names = [*way, *(f"field {index}" for index in range(54)), *way]
    rewards = [10 if index in (2, 59) else 0 for index in range(1, len(names))]
    return trajectory(names, [f"go to {name}" for name in names[1:]], rewards, trial)


@pytest.mark.parametrize(
    ("settings", "skills"),
    [(SkillSettings(), 0), (ANY, 1)],
    ids=["default", "any"],
)
def test_one_trial_makes_a_skill_by_itself_only_where_the_setting_says_so(settings, skills):
    memory = skill_memory(settings)
    counts = memory.learn(long_trial())
    assert counts["pieces"] == 2
    assert (bool(counts["candidates"]), counts["library"]) == (bool(skills), skills)
    memory.learn(long_trial(2))
    assert memory.library, "two trials are evidence under every setting"


@pytest.mark.parametrize(
    ("preset", "pairs"), [("sso-adapt/1", "across-trials"), ("sso-adapt/1-cap60", "across-trials"), ("release", "any")]
)
def test_the_papers_protocols_pair_trials_and_the_release_whatever_is_stored(preset, pairs):
    assert PRESETS[preset].skills.pairs == pairs
    changed = resolve_protocol(load_config(overrides=[f"protocol.preset={preset}", "memory.skills.pairs=any"]))
    assert changed.skills.pairs == "any"
    assert ("skills.pairs=any" in changed.id) == (pairs != "any")


def test_trials_of_one_number_in_two_units_are_two_trajectories():
    """A library that is taken along holds trials of other units, whose numbers this unit's own trials have again."""
    first = skill_memory()
    first.learn(walk("a b c+10 d", 1))
    second = skill_memory()
    second.restore(json.loads(json.dumps(first.snapshot())))
    assert second.learn(walk("a b c+10 d", 1))["candidates"] == 1


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


@pytest.mark.parametrize("preset", PRESETS)
def test_learning_from_a_success_is_the_default_and_a_departure_is_named(preset):
    assert PRESETS[preset].rules.learn_after_success
    off = resolve_protocol(load_config(overrides=[f"protocol.preset={preset}", "protocol.learn_after_success=false"]))
    assert not off.rules.learn_after_success
    assert "learn_after_success=False" in off.id


def test_what_a_solved_last_trial_may_cost_is_in_the_forecast():
    budgets = {Variant("boil", 22): 47}
    for rules, alone, verbalizer in (
        (TrialRules(2, learn_after_success=False), False, 0),
        (TrialRules(2), False, 4 * (96 // 8)),
        (TrialRules(2), True, 4 * (48 // 8 + 96 // 8)),
        (TrialRules(2, frozen=True), True, 0),
    ):
        plan = replace(make_plan("p", rules, [Arm(get_method("sso"))], budgets, 0), alone=alone)
        assert forecast_calls(plan).calls.get("verbalizer", 0) == verbalizer


@pytest.mark.parametrize(("kept", "calls"), [(ALL, 3 + 1), (("error",), 3 + 1), (("progress",), 3), ((), 0)])
def test_the_forecast_counts_no_call_that_is_not_made(kept, calls):
    plan = make_plan("p", TrialRules(1), [Arm(get_method("omnireflect-neural"))], {Variant("boil", 22): 35}, 0)
    plan = replace(plan, writings=ConstitutionSettings(categories=kept))
    assert forecast_calls(plan).calls.get("advisor", 0) == calls


@pytest.mark.parametrize(
    ("kept", "steps", "end"), [(ALL, 3, 1), (ALL, 10, 1), (ALL, 25, 3), (("progress",), 25, 2), (("error",), 9, 1)]
)
def test_the_end_of_an_episode_is_asked_about_once_and_in_the_forecast(kept, steps, end):
    """The words of the last call are those of an episode that is over; none is asked for rules of this task then."""
    settings = ConstitutionSettings(at_end=True, categories=kept)
    advisor = Advisor(None)
    counts = play(advisor.memory(settings), steps)
    assert counts["calls"] == len(advisor.engine.prompts) == end
    over = [region(prompt, "outcome") is not None for prompt in advisor.engine.prompts]
    assert over == [False] * (end - 1) + ["error" in kept]
    assert not (over[-1] and "`progress_rules`" in advisor.engine.prompts[-1])
    plan = make_plan("p", TrialRules(1), [Arm(get_method("omnireflect-neural"))], {Variant("boil", 22): steps}, 0)
    summary = set(kept) != {"progress"}
    assert forecast_calls(replace(plan, writings=settings)).calls["advisor"] == end + summary
    patterns = ConstitutionMemory(RuleWriter(lambda *_: [fact("x")], lambda _: None, True), settings)
    assert play(patterns, steps)["calls"] == 0


# Constitutions: what a summary may lose.


def book():
    lessons = [fact("Doors open."), fact("Water boils."), error("Waited.", "Look."), error("Ran.", "Walk.")]
    return Constitution().with_lessons([*lessons, left("Found z.")], "boil", "boil::3")


@pytest.mark.parametrize(
    ("summary", "kept", "gone"),
    [
        ([fact("Doors open and water boils.")], "error", ("A1", "A2")),
        ([error("Waited or ran.", "Look or walk.")], "abstract", ("E3", "E4")),
    ],
)
def test_a_category_that_a_summary_leaves_empty_stands_as_it_was(summary, kept, gone):
    before = book()
    after = before.apply_summary(summary, "boil::9")
    assert after.select_rules(kept) == before.select_rules(kept)
    assert after.progress == before.progress
    assert not {rule.id for rule in after.rules} & set(gone)
    (edit,) = (edit for edit in after.edits if edit.what == "keep")
    names = tuple(rule.id for rule in before.select_rules(kept))
    assert edit == RuleEdit("keep", names[0], "boil::9", of=names, why=f"no {kept} rules in the summary")
    assert Constitution.load(json.loads(json.dumps(after.dump()))) == after


def test_a_summary_of_both_categories_keeps_nothing_by_the_way():
    after = book().apply_summary([fact("Doors open."), error("Waited.", "Look.")], "boil::9")
    assert "keep" not in {edit.what for edit in after.edits}
    assert [rule.lesson.text for rule in after.select_rules("abstract", "error")] == ["Doors open.", "Waited."]


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
    memory.restore(book().drop_categories(["progress"]).dump())
    learnt = play(memory, 3)
    assert [rule.id for rule in memory.constitution.rules] == held
    assert (learnt["summaries"], learnt["malformed"]) == counts


# Constitutions: what is asked for.


class Advisor:
    """The advisor's role of a method, on a model whose answers a function gives, without any simulator."""

    def __init__(self, answer, name="omnireflect-neural"):
        self.engine = Engine(answer) if answer else Recorder(0, [])
        self.agent = Agent(name)

    def memory(self, settings, examples="") -> ConstitutionMemory:
        runtime = Runtime(
            environments=None, variant=Variant, budget=len, lm=lambda *_: model(self.engine), embed=hash_embed,
            constitution=settings, examples=examples,
        )  # fmt: skip
        roles = Roles(self.agent.modules, self.agent.method, runtime)
        self.ledger = TrialLedger(runtime.spend)
        roles.begin_trial(self.ledger, 1)
        memory = ConstitutionMemory.make(roles)
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


ABLATIONS = [("abstract", "error"), ("abstract", "progress"), ("error", "progress"), ("abstract",), ("error",)]


@pytest.mark.parametrize("kept", ABLATIONS, ids="+".join)
def test_a_category_that_is_not_kept_is_neither_asked_for_nor_shown(kept):
    advisor = Advisor(None, "omnireflect-neuro-symbolic")
    memory = advisor.memory(
        ConstitutionSettings(r_freq=2, s_freq=1, categories=kept),
        shipped_examples(None, get_benchmark().hints.examples()),
    )
    counts = play(memory, 4)
    assert counts["calls"] == 2
    assert counts["malformed"] == 0
    *written, summarized = advisor.engine.prompts
    assert len(written) == 2
    for category in ALL:
        for prompt in written:
            assert (f"`{category}_rules`" in prompt) == (category in kept)
            assert (f"{category.capitalize()} rules" in prompt) == (category in kept)
        assert (f"`{category}_rules`" in summarized) == (category in kept and category != "progress")
        assert (f"gathered_{category}_rules" in summarized) == (category in kept and category != "progress")
    assert {rule.lesson.category for rule in memory.constitution.rules} == set(kept) - {"progress"}


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


def test_with_all_categories_the_prompt_is_that_of_the_signatures():
    """A compiled program's instruction is somebody else's: of it goes what is plainly about another category."""
    assert all(select_category_fields(signature, ALL) is signature for signature in (WriteRules, SummarizeConstitution))
    advisor = Advisor(None)
    writer = advisor.agent.constitution_writer.write
    writer.signature = writer.signature.with_instructions("Write rules. Error rules matter most. Be brief.")
    for kept, told in (
        (ALL, "Write rules. Error rules matter most. Be brief."),
        (("abstract",), "Write rules. Be brief."),
    ):
        advisor.engine.prompts.clear()
        play(advisor.memory(ConstitutionSettings(r_freq=2, categories=kept)), 3)
        assert told in advisor.engine.prompts[0]


def test_the_writer_is_asked_what_could_have_been_done_in_fewer_steps():
    advisor = Advisor(None)
    play(advisor.memory(ConstitutionSettings(r_freq=2)), 3)
    (prompt,) = advisor.engine.prompts
    told = " ".join(prompt.split())
    assert "steps that were wasted" in told
    assert "mistake that was really made" in told
    assert region(prompt, "task") == "task"
