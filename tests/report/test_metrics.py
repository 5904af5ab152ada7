"""Metrics of arms: scores, learning and failures, and what other papers report of a task."""

from dataclasses import replace

import pytest

from rsso_dspy.records import Source, State, Step, Usage
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.doses import ShownMemory
from rsso_dspy.report.metrics import (
    FAILURES,
    REFLECTIONS,
    classify_failure,
    compute_arm_metrics,
    compute_learning,
)
from rsso_dspy.report.tables import build_measures_table
from tests.records import record
from tests.report.paper_run import play_curve

SCORES = {
    "a wrong end costs only the environment score": (
        [record("a", "boil", 1, [[10, 40, -100]])],
        {"mean": 40, "environment_score": -100, "solve": 0},
    ),
    "points at reset are in the second mean only": (
        [record("a", "find-plant", 1, [[33, 100]], at_reset=8)],
        {"mean": 92, "mean_with_reset": 100, "solve": 1, "acc100": 0},
    ),
    "a unit that stopped early keeps its best": (
        [record("a", "boil", 1, [[20], [60], [30]]), record("a", "boil", 2, [[100]])],
        {"mean": 80, "trial_1": 60, "best_of_t": (60, 80, 80), "trials_played": 4}
        | {"mean_over_trials": pytest.approx((110 / 3 + 100) / 2)},
    ),
    "micro and macro means differ": (
        [record("a", "boil", 1, [[0]]), record("a", "boil", 2, [[0]]), record("a", "freeze", 1, [[90]])],
        {"mean": 30, "macro_mean": 45},
    ),
    "an errored unit has no score and is counted": (
        [record("a", "boil", 1, [[50]]), record("a", "boil", 2, [[80], None])],
        {"units": 1, "errored": 1, "mean": 50},
    ),
}


@pytest.mark.parametrize(("units", "wanted"), SCORES.values(), ids=SCORES)
def test_scores_of_an_arm(units, wanted):
    row = compute_arm_metrics("a", units)
    assert {name: getattr(row, name) for name in wanted} == wanted


def test_measures_of_a_task_count_progress_grounding_calls_and_rules():
    won, lost = record("a", "boil", 1, [(0, 100)]), record("a", "boil", 2, [(50, 0), (25,)])
    blind = replace(lost.trials[1].trajectory.steps[0], understood=False)
    played = replace(lost.trials[1].trajectory, steps=(blind,))
    writing = {**lost.trials[1].usage, "advisor": Usage(calls=4, malformed=1, repaired=2)}
    trial = replace(lost.trials[1], trajectory=played, usage=writing, shown={"progress@1": "- x", "progress@2": "- x"})
    book = {"rules": [{"category": "abstract"}, {"category": "abstract"}, {"category": "error"}]}
    lost = replace(lost, trials=(lost.trials[0], trial), memories={"constitution": book})
    found = compute_arm_metrics("a", [won, lost, record("a", "boil", 3, [None])])
    assert (found.units, found.solve, found.progress) == (2, 1, 0.75)
    assert (found.turns, found.calls_per_unit, found.most_calls) == (2.5, 5, 8)
    assert found.grounding == pytest.approx(2 / 3)
    assert found.rules == {"abstract": 2, "error": 1, "progress": 1}
    sheet = build_measures_table(analyze([won, lost, replace(won, arm="plain")]))
    assert [cell.text for cell in sheet.rows[0]] == [
        "a", "2", "1/2", "75.0%", "66.7%", "2.5", "5.0", "8", "5", "39", "unpriced",
        "2.0", "1.0", "1.0", "4", "25.0%", "50.0%",
    ]  # fmt: skip


def test_rules_of_several_streams_are_those_after_the_last_unit_of_each():
    units = []
    for stream, held in (("a1", (1, 2)), ("b2", (5, 9))):
        for place, rules in enumerate(held, start=1):
            book = {"constitution": {"rules": [{"category": "error"}] * rules}}
            source = Source("constitution", "stream", f"{place}/2 of {stream}", place=place)
            units.append(replace(record("a", "boil", len(units), [[1]]), memories=book, sources=(source,)))
    assert compute_arm_metrics("a", units).rules == {"abstract": 0, "error": 5.5, "progress": 0}


UNITS = [
    record("reflexion", "boil", 1, [[0], [0], [100]]),
    record("reflexion", "boil", 2, [[100]]),
    record("reflexion", "melt", 1, [[10], [100]]),
    record("reflexion", "melt", 2, [[0], [0], [0]]),
]


def test_success_adds_up_and_tells_new_ones_apart():
    found = compute_learning(UNITS)
    assert [(t.solved, t.additional, t.accuracy) for t in found.success] == [(1, 1, 0.25), (2, 1, 0.5), (3, 1, 0.75)]
    assert found.by_task == {"boil": (2, 2), "melt": (1, 2)}
    assert sum(found.failures.values()) == 6


FIGURE_2 = {
    "reflexion": (["58.37", "69.24"], "+10.87"),
    "sso": (["75.30", "76.63", "77.57", "78.09", "79.46"], "+1.33"),
    "rsso": (["75.07", "84.49", "85.80", "87.55", "88.41"], "+9.42"),
}
"""Method to its means after 1, 2, ... trials and its gain from trial 1 to 2 (rSSO, section 5 and Figure 2)."""


@pytest.mark.parametrize("method", FIGURE_2)
def test_the_points_of_figure_2_have_its_means_and_its_gain_of_trial_2(method):
    row = compute_arm_metrics(method, play_curve(method))
    assert ([f"{mean:.2f}" for mean in row.best_of_t], f"{row.gain.mean:+.2f}") == FIGURE_2[method]


def test_success_by_reflections_held_is_that_of_the_notes():
    """Notes on Reflexion, analysis 3: 45 of 100 without a reflection, 15 of 22 with one, 6 of 8 with two, 2 of 4 with
    three."""
    units = [record("reflexion", "env", index, [[100]]) for index in range(45)]
    units += [record("reflexion", "env", index, [[0]]) for index in range(45, 66)]
    for count, (solved, trials) in {1: (15, 22), 2: (6, 8), 3: (2, 4)}.items():
        for number in range(trials):
            unit = record("reflexion", "env", 100 * count + number, [[0], [100 if number < solved else 0]])
            first = replace(unit.trials[0], learnt={REFLECTIONS: {"written": count, "held": count}})
            units.append(replace(unit, trials=(first, unit.trials[1])))
    assert compute_learning(units).held == {0: (45, 100), 1: (15, 22), 2: (6, 8), 3: (2, 4)}


def test_an_arm_tells_its_gain_of_trial_2_its_scaffold_and_the_reflections_of_a_unit():
    later = replace(UNITS[0].trials[0], learnt={REFLECTIONS: {"written": 1, "held": 1}})
    units = [replace(UNITS[0], trials=(later, *UNITS[0].trials[1:])), *UNITS[1:]]
    found = compute_arm_metrics("reflexion", units)
    assert (found.scaffold, found.gain.mean, found.learning.written) == ("flat", 90 / 4, 1 / 4)
    assert (found.gain.interval.low, found.gain.interval.clusters) == (0, 2)
    assert compute_arm_metrics("mine", [record("mine", "boil", 1, [[1]])]).gain is None


def show(unit, *trials):
    """The unit with what stood in the prompts of each of its trials: texts, and the ids recalled at each step."""
    results = []
    for result, (shown, recalled) in zip(unit.trials, trials, strict=True):
        pairs = zip(result.trajectory.steps, recalled, strict=True)
        steps = tuple(replace(step, recalled=ids) for step, ids in pairs)
        results.append(replace(result, shown=shown, trajectory=replace(result.trajectory, steps=steps)))
    return replace(unit, trials=tuple(results))


def test_a_memory_is_shown_in_the_trials_and_steps_whose_prompts_had_its_text():
    """Plans throughout a trial, skills at the steps that recall them, whatever else the prompt has."""
    unit = record("rsso", "boil", 1, [[0, 10], [0, 10, 20], [0, 10]])
    plans, skills = {REFLECTIONS: "Attempt 1: look."}, {"skills:s1,s2": "Boil it."}
    played = show(
        unit,
        ({"action_templates": "look"}, [(), ()]),
        (plans, [(), (), ()]),
        (plans | skills, [(), ("s2",)]),
    )
    assert compute_arm_metrics("rsso", [played]).shown == (
        ShownMemory("reflections", trials=2, later_trials=2, steps=5),
        ShownMemory("skills", trials=1, later_trials=1, steps=1),
    )


def test_rules_are_shown_from_the_step_on_that_they_were_written_at():
    unit = record("react+neural", "boil", 1, [[0, 10, 20, 30]])
    played = show(unit, ({"constitution@3": "- Look.", "constitution@4": ""}, [()] * 4))
    assert compute_arm_metrics("x", [played]).shown == (ShownMemory("constitution", 1, 0, 1),)


def test_a_memory_that_no_prompt_had_is_counted_as_that_and_one_of_an_unknown_method_by_its_region():
    unit = record("sso", "boil", 1, [[0]], shown={})
    assert compute_arm_metrics("sso", [unit]).shown == (ShownMemory("skills", 0, 0, 0),)
    mine = show(record("mine", "boil", 1, [[0]]), ({"diary": "Dear diary"}, [()]))
    assert compute_arm_metrics("mine", [mine]).shown == (ShownMemory("diary", 1, 0, 1),)


@pytest.mark.parametrize(
    ("outcome", "actions", "first", "last", "why"),
    [
        ("failed", ("a", "focus on cup"), 0, -100, "wrong answer"),
        ("failed", "ab", 0, 0, "wrong answer"),
        ("stalled", "ab", 0, 0, "other"),
        ("repeated", "aa", 0, 0, "loops"),
        ("exhausted", "aa", 0, 0, "loops"),
        ("budget", "abababababab", 0, 0, "loops"),
        ("budget", "abcd", 0, 0, "not found"),
        ("budget", "abcd", 10, 0, "out of steps"),
    ],
)
def test_every_failure_has_one_reason(outcome, actions, first, last, why):
    points = [first, *[0] * (len(actions) - 2), last]
    steps = tuple(Step(a, a, State("", "", ""), p, 0, True) for a, p in zip(actions, points, strict=True))
    assert classify_failure(replace(UNITS[0].trajectories[0], outcome=outcome, steps=steps)) == why
    assert why in FAILURES
