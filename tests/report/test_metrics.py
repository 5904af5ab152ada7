import pytest

from rsso_dspy.report.analysis import RunRecords, analyze_run, serialize_analysis
from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
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


def test_an_arm_without_finished_units_has_no_numbers():
    row = compute_arm_metrics("a", [record("a", "boil", 1, [None])])
    assert row.mean is None
    assert row.best_of_t == ()


def test_tokens_add_up_per_role():
    row = compute_arm_metrics("a", [record("a", "boil", 1, [[20], [60]])])
    assert (row.tokens["actor"].calls, row.tokens["actor"].input) == (4, 20)


def test_the_report_says_when_no_language_model_acted():
    data = serialize_analysis(analyze_run(RunRecords([record("a", "boil", 1, [[10]]), record("b", "boil", 1, [[30]])])))
    assert "nothing about language models" in data["note"]
    assert [row["arm"] for row in data["arms"]] == ["a", "b"]
    assert data["comparisons"][0]["difference"] == 20


def test_arms_keep_their_order():
    assert list(group_by_arm([record("b", "boil", 1, [[1]]), record("a", "boil", 1, [[1]])])) == ["b", "a"]
