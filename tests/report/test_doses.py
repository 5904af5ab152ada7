"""How much of a memory stood in prompts, beside a comparison."""

from dataclasses import replace

import pytest

from rsso_dspy.regions import TEMPLATES
from rsso_dspy.report.compare import compare_arms
from rsso_dspy.report.doses import Dose, ShownText, describe_doses, is_untested, list_shown_texts, measure_doses
from tests.records import record

TASKS = ("boil", "freeze", "melt", "find-plant")
PLANS = "plans_from_past_attempts"


def play(arm, *trials, shown=None):
    """A unit of each task with these scores; `shown` are the texts of each trial."""
    units = [record(arm, task, 1, trials, allowed=len(trials), shown={}) for task in TASKS]
    return [show(unit, shown or [{}] * len(trials)) for unit in units]


def show(unit, texts):
    trials = [replace(trial, shown=shown) for trial, shown in zip(unit.trials, texts, strict=True)]
    return replace(unit, trials=tuple(trials))


TWO_PLANS = [{}, {PLANS: "- Look around."}, {PLANS: "- Look around.\n- Open the door."}]


def test_the_dose_counts_later_trials_items_and_tokens():
    """Two later trials a unit: one plan of 14 characters, then two of 31; tokens are characters by four, rounded up."""
    react, reflexion = play("react", [0], [0], [0]), play("reflexion", [0], [0], [0], shown=TWO_PLANS)
    (dose,) = measure_doses(react, reflexion, trials=3)
    assert dose == Dose(
        "reflexion", "reflections", units=4, compared=4, trials=8, possible_trials=8, are_later=True, items=1.5,
        tokens=(4 + 8) / 2,
    )  # fmt: skip
    assert describe_doses([dose]) == "reflections shown in 8 of 8 later trials"


def test_only_trials_that_are_compared_count():
    react, reflexion = play("react", [0], [0]), play("reflexion", [0], [0], [0], shown=TWO_PLANS)
    (dose,) = measure_doses(react, reflexion, trials=2)
    assert (dose.trials, dose.possible_trials, dose.items) == (4, 4, 1)


def test_of_a_memory_that_stands_in_first_trials_all_trials_count():
    rules = [{"constitution": "Look first; Open doors"}, {"constitution@1": "- Look first."}]
    react, guided = play("react", [0], [0]), play("react+constitution", [0], [0], shown=rules)
    (dose,) = measure_doses(react, guided, trials=2)
    assert (dose.memory, dose.trials, dose.possible_trials, dose.are_later) == ("constitution", 8, 8, False)
    assert dose.items == 1.5


def test_a_method_that_is_unknown_here_has_the_dose_of_what_stood_in_its_prompts():
    """As of a run of `add_method`, which another process reports."""
    hints = [{TEMPLATES: "Act."}, {"hints:H1": "- Doors open towards you."}]
    react = play("react", [0], [0])
    added = [recall(unit, trial=1, items=("H1",)) for unit in play("added-elsewhere", [0], [0], shown=hints)]
    assert describe_doses(measure_doses(react, added, trials=2)) == "hints shown in 4 of 4 later trials"
    assert measure_doses(react, play("added-elsewhere", [0], [0]), trials=2) == (), "nothing is known of its memory"


def test_arms_with_other_memories_each_have_a_dose():
    attempts = [{}, {"past_attempts:T1": "Attempt 1 at this task:\nA lamp."}, {}]
    ours, theirs = play("last-trajectory", [0], [0], [0], shown=attempts), play("rsso", [0], [0], [0], shown=TWO_PLANS)
    ours = [recall(unit, trial=1, items=("T1",)) for unit in ours]
    doses = measure_doses(ours, theirs, trials=3)
    assert [(dose.arm, dose.memory, dose.trials) for dose in doses] == [
        ("rsso", "reflections", 8), ("rsso", "skills", 0), ("last-trajectory", "last-trajectory", 4),
    ]  # fmt: skip
    assert not is_untested(doses)


def recall(unit, trial, items):
    result = unit.trials[trial]
    steps = tuple(replace(step, recalled=items) for step in result.trajectory.steps)
    result = replace(result, trajectory=replace(result.trajectory, steps=steps))
    return replace(unit, trials=(*unit.trials[:trial], result, *unit.trials[trial + 1 :]))


def test_the_same_memories_have_no_dose_nor_have_trials_of_which_no_step_is_known():
    assert measure_doses(play("sso", [0]), play("sso", [0]), trials=1) == ()
    bare = [replace(unit, trials=tuple(drop_steps(trial) for trial in unit.trials)) for unit in play("reflexion", [0])]
    assert measure_doses(play("react", [0]), bare, trials=1) == ()
    assert not is_untested(())


def drop_steps(trial):
    return replace(trial, trajectory=replace(trial.trajectory, steps=()))


@pytest.mark.parametrize(("units", "word"), [(0, "not tested"), (1, "not tested"), (2, "undecided"), (4, "undecided")])
def test_a_memory_shown_in_fewer_than_two_units_was_not_tested(units, word):
    from rsso_dspy.report.compare import compare_all

    skills = [{}, {"skills": "- Open the door."}]
    theirs = [show(unit, skills if number < units else [{}, {}]) for number, unit in enumerate(play("sso", [0], [90]))]
    ours = play("react-sso", [0], [10])
    found = compare_arms("react-sso", ours, "sso", theirs)
    assert (found.interval is None, found.flips.p is None) == (units < 2, units < 2)
    (pair,) = compare_all({"react-sso": ours, "sso": theirs}).comparisons
    assert pair.verdict.word == word
    assert pair.difference == 80


def test_a_text_stands_from_its_step_to_the_next_one():
    unit = record("react+neural", "boil", 1, [[0, 10, 20, 30]], shown={"constitution@2": "- A", "constitution@4": ""})
    assert list_shown_texts("constitution", unit.trials[0]) == [ShownText("- A", 1, 2)]
