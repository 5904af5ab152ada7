"""Metrics of arms: scores, learning and failures, and what other papers report of a task."""

from dataclasses import replace

import pytest

from rsso_dspy.records import Source, State, Step, Usage
from rsso_dspy.report.analysis import analyze, serialize_analysis
from rsso_dspy.report.metrics import (
    FAILURES,
    classify_failure,
    compute_arm_metrics,
    compute_learning,
    measure_tasks,
)
from rsso_dspy.report.tables import build_measures_table
from tests.records import record


def test_the_accumulator_sums_positive_rewards_so_that_a_wrong_end_costs_only_the_environment_score():
    row = compute_arm_metrics("a", [record("a", "boil", 1, [[10, 40, -100]])])
    assert row.mean == 40
    assert row.environment_score == -100
    assert row.solve == 0


def test_points_at_reset_are_in_the_second_mean_only():
    row = compute_arm_metrics("a", [record("a", "find-plant", 1, [[33, 100]], at_reset=8)])
    assert row.mean == 92
    assert row.mean_with_reset == 100
    assert (row.solve, row.acc100) == (1, 0)


def test_best_is_over_trials_and_a_unit_that_stopped_early_keeps_its_best():
    rows = [record("a", "boil", 1, [[20], [60], [30]]), record("a", "boil", 2, [[100]])]
    row = compute_arm_metrics("a", rows)
    assert row.mean == 80
    assert row.trial_1 == 60
    assert row.best_of_t == (60, 80, 80)
    assert row.mean_over_trials == pytest.approx((110 / 3 + 100) / 2)
    assert row.trials_played == 4


def test_micro_and_macro_means_differ_when_tasks_have_different_numbers_of_variants():
    rows = [record("a", "boil", 1, [[0]]), record("a", "boil", 2, [[0]]), record("a", "freeze", 1, [[90]])]
    row = compute_arm_metrics("a", rows)
    assert (row.mean, row.macro_mean) == (30, 45)


def test_an_errored_unit_has_no_score_and_is_counted():
    row = compute_arm_metrics("a", [record("a", "boil", 1, [[50]]), record("a", "boil", 2, [[80], None])])
    assert (row.units, row.errored, row.mean) == (1, 1, 50)


def test_the_report_says_when_no_language_model_acted():
    data = serialize_analysis(analyze([record("a", "boil", 1, [[10]]), record("b", "boil", 1, [[30]])]))
    assert "nothing about language models" in data["note"]
    assert [row["arm"] for row in data["arms"]] == ["a", "b"]
    assert data["comparisons"][0]["difference"] == 20


def test_measures_of_a_task_count_progress_grounding_calls_and_rules():
    won, lost = record("a", "boil", 1, [(0, 100)]), record("a", "boil", 2, [(50, 0), (25,)])
    blind = replace(lost.trials[1].trajectory.steps[0], understood=False, own_success=True)
    played = replace(lost.trials[1].trajectory, steps=(blind,))
    writing = {**lost.trials[1].usage, "advisor": Usage(calls=4, malformed=1, repaired=2)}
    trial = replace(lost.trials[1], trajectory=played, usage=writing, shown={"progress@1": "- x", "progress@2": "- x"})
    book = {"rules": [{"category": "abstract"}, {"category": "abstract"}, {"category": "error"}]}
    lost = replace(lost, trials=(lost.trials[0], trial), memories={"constitution": book})
    found = measure_tasks([won, lost, record("a", "boil", 3, [None])])
    assert (found.units, found.solved, found.solved_by_own_rule, found.progress) == (2, 1, 1, 0.75)
    assert (found.turns, found.calls, found.most_calls) == (2.5, 5, 8)
    assert found.grounding == pytest.approx(2 / 3)
    assert found.rules == {"abstract": 2, "error": 1, "progress": 1}
    sheet = build_measures_table(analyze([won, lost, replace(won, arm="plain")]))
    assert [cell.text for cell in sheet.rows[0]] == [
        "a", "2", "1/2", "1/1", "75.0%", "66.7%", "2.5", "5.0", "8", "5", "39", "unpriced",
        "2.0", "1.0", "1.0", "4", "25.0%", "50.0%",
    ]  # fmt: skip
    assert "own rule" not in build_measures_table(analyze([won])).columns


def test_grounding_by_the_rule_of_another_harness_is_named_where_it_differs():
    def play(*kinds: str):
        """Steps that were ``known``, ``unknown`` or, known too, without effect (``idle``)."""
        unit = record("a", "boil", 1, [[0] * len(kinds)])
        steps = [
            replace(step, understood=kind != "unknown", no_effect=kind == "idle")
            for step, kind in zip(unit.trajectories[0].steps, kinds, strict=True)
        ]
        trial = replace(unit.trials[0], trajectory=replace(unit.trajectories[0], steps=tuple(steps)))
        return replace(unit, trials=(trial,), provenance={"benchmark": "other 1.0"})

    unit = play("idle", "known", "idle", "unknown", "idle")
    found = measure_tasks([unit])
    assert (found.grounding, found.grounding_repeated) == (0.8, 0.4)
    (_, note) = build_measures_table(analyze([unit, replace(play("known", "idle", "unknown"), arm="b")])).notes
    assert note.startswith("grounding is 40.0% for a if a step without effect repeats the verdict of the step before")
    assert measure_tasks([replace(unit, provenance={})]).grounding_repeated is None


def test_rules_of_several_streams_are_those_after_the_last_unit_of_each():
    units = []
    for stream, held in (("a1", (1, 2)), ("b2", (5, 9))):
        for place, rules in enumerate(held, start=1):
            book = {"constitution": {"rules": [{"category": "error"}] * rules}}
            source = Source("constitution", "stream", f"{place}/2 of {stream}", place=place)
            units.append(replace(record("a", "boil", len(units), [[1]]), memories=book, sources=(source,)))
    assert measure_tasks(units).rules == {"abstract": 0, "error": 5.5, "progress": 0}


UNITS = [
    record("reflexion", "boil", 1, [[0], [0], [100]]),
    record("reflexion", "boil", 2, [[100]]),
    record("reflexion", "melt", 1, [[10], [100]]),
    record("reflexion", "melt", 2, [[0], [0], [0]]),
]


def test_success_adds_up_and_tells_new_ones_apart():
    found = compute_learning("reflexion", UNITS)
    assert [(t.solved, t.additional, t.accuracy) for t in found.success] == [(1, 1, 0.25), (2, 1, 0.5), (3, 1, 0.75)]
    assert found.by_task == {"boil": (2, 2), "melt": (1, 2)}
    assert sum(found.failures.values()) == 6


def steps_of(*actions: str, rewards: int = 0, last: int = 0) -> tuple[Step, ...]:
    """Steps with these actions; the first earns `rewards`, the last one `last`."""
    points = [rewards, *[0] * (len(actions) - 2), last]
    return tuple(Step(a, a, State("", "", ""), p, 0, True) for a, p in zip(actions, points, strict=True))


@pytest.mark.parametrize(
    ("outcome", "steps", "why"),
    [
        ("failed", steps_of("a", "focus on cup", last=-100), "wrong answer"),
        ("failed", steps_of("a", "b"), "other"),
        ("stalled", steps_of("a", "b"), "other"),
        ("repeated", steps_of("a", "a"), "loops"),
        ("exhausted", steps_of("a", "a"), "loops"),
        ("budget", steps_of(*"abababababab"), "loops"),
        ("budget", steps_of(*"abcd"), "not found"),
        ("budget", steps_of(*"abcd", rewards=10), "out of steps"),
    ],
)
def test_every_failure_has_one_reason(outcome, steps, why):
    trajectory = UNITS[0].trajectories[0]
    assert classify_failure(replace(trajectory, outcome=outcome, steps=steps)) == why
    assert why in FAILURES
