"""A clause is kept for the task type that it raised, and for no other."""

from dataclasses import replace

from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.proposing.edits import HEADING
from rsso_dspy.optimize.teacher import Teacher
from rsso_dspy.programs.agent import Agent
from tests.optimize.scripted import ADVICE, LONGEST, SHORTEST, Keep, Models, actor, adding, advised, asks_for, wanted

VAL = (LONGEST[2], SHORTEST[2])
CONFIRM = (LONGEST[3], SHORTEST[3])


def compile_clauses(live, goes, rollouts=20, line=ADVICE, **more):
    models = Models(actor=actor(goes), proposer=lambda _: adding(line))
    request = wanted("clauses", (LONGEST[0], SHORTEST[0]), VAL, rollouts, confirm=CONFIRM, **more)
    observed = Keep()
    return compile_agent(Agent("react"), models.within(live), request, events=observed), observed, models


def goes_if_longest(prompt):
    return advised(prompt) and asks_for("longest")(prompt)


def test_what_raised_its_own_type_is_kept_and_what_did_not_is_not(live):
    found, observed, models = compile_clauses(live, goes_if_longest)
    (lines,) = (each["signature"]["instructions"].partition(HEADING)[2] for each in found.chosen_state.values())
    topics = [line for line in lines.splitlines() if line.startswith("- In tasks about")]
    assert len(topics) == 1
    assert "longest" in topics[0]
    assert topics[0].endswith(ADVICE)
    assert (found.before.metric, found.after.metric) == (0.0, 0.25)
    assert models.asked["proposer"] == 3, "the type that was not raised is asked about once more"
    half, kept = (each for each in observed.of.candidates.values() if each.number)
    assert half.dropped
    assert not kept.dropped
    assert len(found.confirmation.per_variant) == len(CONFIRM)


def test_nothing_is_kept_that_raised_nothing(live):
    found, _, _ = compile_clauses(live, lambda _: False)
    assert (found.improved, found.candidate) == (False, None)
    assert found.search_end == "the optimizer had nothing left to propose"


def test_a_solved_or_unaffordable_search_asks_nothing(live):
    found, _, models = compile_clauses(live, goes_if_longest, rollouts=7)
    assert models.asked["proposer"] == 0
    assert found.search_end == "the budget was too small for another candidate"
    assert found.rollouts <= 7


def test_gold_shows_the_way_and_costs_no_rollout(live):
    models = Models(actor=actor(goes_if_longest), proposer=lambda _: adding(ADVICE))
    request = wanted("clauses", LONGEST[:1], LONGEST[2:3], 6, spare=LONGEST[1:2])
    observed = Keep()
    found = compile_agent(
        Agent("react"), models.within(live), replace(request, teacher=Teacher("gold")), events=observed
    )
    shown = observed.of.taught
    assert set(shown) == set(LONGEST[:2])
    assert found.rollouts == 2, "val, twice"
    prompt = models.engines["proposer"].prompts[0]
    assert "In tasks about" in prompt
    assert ", then focus on" in prompt
    assert "Solution 1, of" in prompt
    assert found.fresh == (LONGEST[1].key,)
