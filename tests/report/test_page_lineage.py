"""What was learnt where and read where, as it can be read off a record."""

from dataclasses import replace

import pytest

from rsso_dspy.records import Step
from rsso_dspy.report.page import REFLECTIONS, trace_learnt_items
from tests.records import STATE, record

OPENING = ["go kitchen", "open oven", "wait"]


def unit(memories, shown=(), recalled=(), written=True):
    """Three trials that take the same actions; `shown` and `recalled` are of trial 3."""
    made = record("rsso", "boil", 22, [[1, 2, 3]] * 3)
    trials = []
    for result in made.trials:
        seen = dict(recalled) if result.trial == 3 else {}
        steps = tuple(
            Step("", action, STATE, 1, number, True, recalled=seen.get(number, ()))
            for number, action in enumerate(OPENING, start=1)
        )
        told = {"learnt": {REFLECTIONS: {"written": 1}}} if written else {}
        told |= {"shown": dict(shown)} if result.trial == 3 else {}
        trials.append(replace(result, trajectory=replace(result.trajectory, steps=steps), **told))
    return replace(made, trials=tuple(trials), memories=memories)


def plans(*entries):
    return {"reflections": {"plans": [{"trial": trial, "plan": plan} for trial, plan in entries]}}


def skills(*windows, actions=OPENING):
    piece = {"offset": 0, "actions": [0, 1, 2, 3], "states": [], "rewards": []}
    skill = {"id": "ab", "name": "heat", "target": "It is hot.", "instructions": ["open oven"]}
    pieces = [piece | {"trial": 1}, piece | {"trial": 2}]
    return {"skills": {"texts": ["", *actions], "pieces": pieces, "skills": [skill | {"windows": list(windows)}]}}


def rules(*entries, source="boil::22"):
    return {"constitution": {"rules": [{"id": name, "text": text, "source": source} for name, text in entries]}}


AGAIN = {REFLECTIONS: "Attempt 1: Try again.\n\nAttempt 2: Try again."}
RULES = {"constitution@1": "How:\n- Old.", "constitution@3": "How:\n- Old.\n- New."}
SEEN = {1: ("ab",), 2: ("ab", "cd"), 3: ("cd",)}
TRACED = {
    "a plan is read in the trials whose prompt holds it under its number": (
        unit(plans((2, "Try again."), (3, "Give up.")), AGAIN),
        [("attempt-1", 1, 0, ((3, 1, 3),)), ("attempt-2", 2, 0, ((3, 1, 3),)), ("attempt-3", 3, 0, ())],
    ),
    "a plan of a trial that is not here was brought along": (
        unit(plans((28, "Try again.")), {REFLECTIONS: "Attempt 28: Try again."}),
        [("attempt-28", 0, 0, ((3, 1, 3),))],
    ),
    "so was one that no trial here wrote": (unit(plans((2, "Try again.")), written=False), [("attempt-2", 0, 0, ())]),
    "and one that was read before this trial 3 had ended": (
        unit(plans((3, "Try again.")), {REFLECTIONS: "Attempt 3: Try again."}),
        [("attempt-3", 0, 0, ((3, 1, 3),))],
    ),
    "a skill names the steps that saw it": (
        unit(skills([0, 0, 3], [1, 1, 4]), recalled=SEEN),
        [("ab", 2, 0, ((3, 1, 2),))],
    ),
    "examples that the trials here never took are not claimed": (
        unit(skills([0, 0, 3], [1, 1, 4], actions=["go hall", "read book", "wait"])),
        [("ab", 0, 0, ())],
    ),
    "a rule is dated by the first prompt that holds it": (
        unit(rules(("A1", "Old."), ("A2", "New."), ("A3", "Last.")), RULES),
        [("A1", 0, 0, ((3, 1, 3),)), ("A2", 3, 3, ((3, 3, 3),)), ("A3", 3, 0, ())],
    ),
    "a rule from another variant is not learnt here": (
        unit(rules(("A1", "Old."), source="boil::3"), {"constitution@2": "- Old."}),
        [("A1", 0, 0, ((3, 2, 3),))],
    ),
}
"""A unit, and id, trial, step and reads of what is traced."""


@pytest.mark.parametrize(("made", "wanted"), TRACED.values(), ids=TRACED)
def test_what_was_learnt_is_traced_to_where_it_was_written_and_read(made, wanted):
    assert [(item.id, item.trial, item.step, item.reads) for item in trace_learnt_items(made)] == wanted


def test_a_skill_has_its_examples_and_its_words():
    (skill,) = trace_learnt_items(unit(skills([0, 0, 3], [1, 1, 4])))
    assert (skill.drawn, skill.text) == (((1, 1, 2), (2, 2, 3)), "Target: It is hot.\n  1. open oven")


def test_snapshots_of_another_kind_are_passed_over():
    odd = {"reflections": {"plans": 7}, "skills": {"skills": [{"name": "x"}]}, "constitution": [], "other": {}}
    assert trace_learnt_items(unit(odd | {"ace": {"entries": [7]}})) == []
    assert trace_learnt_items(unit({"skills": None} | plans((1, "Try again.")))) != []
