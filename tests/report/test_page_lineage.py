"""What was learnt where and read where, as it can be read off a record."""

from dataclasses import replace

from rsso_dspy.records import Step
from rsso_dspy.report.page import Page, write_page
from rsso_dspy.report.page_records import REFLECTIONS, trace_learnt_items
from tests.records import STATE, record
from tests.report.page_reading import at_step

OPENING = ["go kitchen", "open oven", "wait"]


def unit(memories, shown=(), actions=OPENING, recalled=(), subgoals=(), written=True):
    """Three trials that take the same actions; `shown` and `recalled` are of trial 3."""
    made = record("rsso", "boil", 22, [[1, 2, 3]] * 3)
    trials = []
    for result in made.trials:
        last = result.trial == 3
        steps = tuple(
            Step("", action, STATE, 1, number, True, "", None, ())
            if not last
            else Step(
                "", action, STATE, 1, number, True, "", dict(subgoals).get(number), dict(recalled).get(number, ())
            )
            for number, action in enumerate(actions, start=1)
        )
        counts = {REFLECTIONS: {"written": 1}} if written else {}
        trials.append(
            replace(
                result,
                trajectory=replace(result.trajectory, steps=steps),
                learnt=counts,
                shown=dict(shown) if last else {},
            )
        )
    return replace(made, trials=tuple(trials), memories=memories)


def plans(*entries):
    return {"reflections": {"plans": [{"trial": trial, "plan": plan} for trial, plan in entries]}}


def skills(*windows, actions=OPENING):
    piece = {"offset": 0, "actions": [0, 1, 2, 3], "states": [], "rewards": []}
    skill = {"id": "ab", "name": "heat", "target": "It is hot.", "instructions": ["open oven"]}
    return {
        "skills": {
            "texts": ["", *actions],
            "pieces": [piece | {"trial": 1}, piece | {"trial": 2}],
            "skills": [skill | {"windows": list(windows)}],
        }
    }


def rules(*entries, source="boil::22"):
    return {"constitution": {"rules": [{"id": name, "text": text, "source": source} for name, text in entries]}}


def test_a_plan_is_read_in_the_trials_whose_prompt_holds_it_under_its_number():
    shown = {REFLECTIONS: "Attempt 1: Try again.\n\nAttempt 2: Try again."}
    one, two, three = trace_learnt_items(unit(plans((2, "Try again."), (3, "Give up.")), shown))
    assert (one.id, one.trial, one.text, one.reads) == ("attempt-1", 1, "Try again.", ((3, 1, 3),))  # forgotten by now
    assert (two.trial, two.reads) == (2, ((3, 1, 3),))
    assert (three.trial, three.reads) == (3, ())


def test_a_plan_that_no_trial_here_wrote_was_brought_along():
    (plan,) = trace_learnt_items(unit(plans((28, "Try again.")), {REFLECTIONS: "Attempt 28: Try again."}))
    assert (plan.trial, plan.reads) == (0, ((3, 1, 3),))
    (plan,) = trace_learnt_items(unit(plans((2, "Try again.")), written=False))
    assert plan.trial == 0
    (plan,) = trace_learnt_items(unit(plans((3, "Try again.")), {REFLECTIONS: "Attempt 3: Try again."}))
    assert plan.trial == 0, "it was read before this trial 3 had ended"


def test_a_skill_names_its_examples_the_steps_that_saw_it_and_those_that_pursued_it():
    seen = {1: ("ab",), 2: ("ab", "cd"), 3: ("cd",)}
    (skill,) = trace_learnt_items(
        unit(skills([0, 0, 3], [1, 1, 4]), recalled=seen, subgoals={2: "It is hot.", 3: "It is hot."})
    )
    assert skill.trial == 2
    assert skill.drawn == ((1, 1, 2), (2, 2, 3))
    assert skill.reads == ((3, 1, 2),)
    assert skill.text == "Target: It is hot.\n  1. open oven"


def test_examples_that_the_trials_here_never_took_are_not_claimed():
    (skill,) = trace_learnt_items(unit(skills([0, 0, 3], [1, 1, 4], actions=["go hall", "read book", "wait"])))
    assert (skill.trial, skill.drawn) == (0, ())


def test_a_rule_is_dated_by_the_first_prompt_that_holds_it():
    texts = {"constitution@1": "How:\n- Old.", "constitution@3": "How:\n- Old.\n- New."}
    old, new, last = trace_learnt_items(unit(rules(("A1", "Old."), ("A2", "New."), ("A3", "Last.")), texts))
    assert (old.id, old.trial, old.reads) == ("A1", 0, ((3, 1, 3),))
    assert (new.id, new.trial, new.step, new.reads) == ("A2", 3, 3, ((3, 3, 3),))
    assert (last.id, last.trial, last.step, last.reads) == ("A3", 3, 0, ())


def test_a_rule_from_another_variant_is_not_learnt_here():
    (rule,) = trace_learnt_items(unit(rules(("A1", "Old."), source="boil::3"), {"constitution@2": "- Old."}))
    assert (rule.trial, rule.reads) == (0, ((3, 2, 3),))


def test_an_entry_names_the_trials_that_wrote_it_and_the_steps_that_read_it():
    rows = [
        {"id": "S1", "text": "Old.", "learned": [["boil::3", 2]], "data": {"title": "Doors"}},
        {"id": "S2", "text": "Edited.", "learned": [["boil::3", 2], ["boil::22", 3]]},
        {"id": "S3", "text": "New.", "learned": [["boil::22", 1], ["boil::22", 2]]},
        {"id": "S4", "text": "Given.", "learned": []},
    ]
    seen = {1: ("S1", "S2"), 2: ("S1", "S2", "S3"), 3: ("S3",)}
    memories = {"reasoningbank": {"schema": 1, "numbered": 4, "entries": rows}}
    found = {item.id: item for item in trace_learnt_items(unit(memories, recalled=seen))}
    assert {item.kind for item in found.values()} == {"entry"}
    assert {name: item.trial for name, item in found.items()} == {"S1": 0, "S2": 2, "S3": 1, "S4": 0}
    assert (found["S1"].name, found["S4"].name) == ("S1: Doors, from boil::3 trial 2", "S4")
    assert (found["S1"].drawn, found["S1"].reads) == ((), ((3, 1, 2),))
    assert (found["S3"].drawn, found["S3"].reads) == (((1, 1, 3), (2, 1, 3)), ((3, 2, 3),))


def test_snapshots_of_another_kind_are_passed_over():
    odd = {"reflections": {"plans": 7}, "skills": {"skills": [{"name": "x"}]}, "constitution": [], "other": {}}
    odd["ace"] = {"entries": [7]}
    assert trace_learnt_items(unit(odd)) == []
    assert trace_learnt_items(unit({"skills": None} | plans((1, "Try again.")))) != []


def test_the_page_shows_where_an_entry_was_learned_and_read(visit, tmp_path):
    rows = [
        {"id": "S1", "text": "Old.", "learned": [["boil::3", 2]]},
        {"id": "S3", "text": "New.", "learned": [["boil::22", 1]]},
    ]
    memories = {"reasoningbank": {"schema": 1, "numbered": 4, "entries": rows}}
    shown = {"past_strategies": "- Old.\n- New."}
    made = unit(memories, shown, recalled=dict.fromkeys((1, 2, 3), ("S1", "S3")))
    page_file = tmp_path / "page.html"
    write_page(page_file, Page("A run"), [made])
    page = visit("#/trials/rsso/boil::22/s0/t3/n2", page_file)
    at_step(page, 2, of=3)
    origins = page.locator(".origins")
    assert origins.count() == 1, "regions that no memory fills name no origin"
    assert "S1, from boil::3 trial 2: there before the first trial" in origins.inner_text()
    origins.get_by_role("link", name="learned after trial 1").click()
    page.get_by_text("There before the first trial: 1 entry").wait_for()
    assert "entry S3" in page.locator("section.learnt").inner_text()
