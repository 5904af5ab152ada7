"""Intervals of means: against closed forms, against the truth that they should cover, and on what is degenerate."""

import numpy as np
import pytest

from rsso_dspy.report.intervals import UnitValue, estimate_interval, estimate_mean


def list_values(tasks):
    """One value of each variant, by task."""
    return [UnitValue(task, variant, value) for task, values in tasks.items() for variant, value in enumerate(values)]


def estimate(tasks, **options):
    return estimate_interval(list_values(tasks), **options)


def test_no_interval_goes_beyond_what_scores_allow():
    wide = estimate({"boil": [90.0], "freeze": [-80.0]})
    assert (wide.low, wide.high) == (-100, 100)
    assert estimate({"boil": [90.0], "freeze": [-80.0]}, bounds=(-200, 200)).high > 100
    found = estimate_mean(list_values({f"task-{n}": [score] for n, score in enumerate([0.0, 100.0, 100.0])})).interval
    assert 0 == found.low < 200 / 3 < found.high == 100


def test_units_of_one_task_are_drawn_together():
    """Ten units that are the same ten times say no more than one; drawing units would make the interval shorter."""
    tasks = {f"task {n}": [float(n % 2 * 10 + 5)] * 10 for n in range(10)}
    found = estimate(tasks)
    assert found.mean == 10
    assert found.clusters == 10
    assert found.error == pytest.approx(5 / np.sqrt(9), rel=0.05)
    assert found.low == pytest.approx(10 - 2.262 * found.error, abs=0.3)
    assert found.high == pytest.approx(10 + 2.262 * found.error, abs=0.3)
    assert found.detectable_difference == pytest.approx(3.1496 * found.error, rel=1e-3)  # noncentral t, 9 degrees
    assert estimate(tasks) == found
    assert estimate({"b": [1.0], "a": [2.0, 4.0]}) == estimate({"a": [2.0, 4.0], "b": [1.0]})


def test_seeds_of_a_variant_are_no_further_variants():
    """Three equal copies of a run of one task type say as much as the run."""
    once = [UnitValue("boil", 1, 67.0), UnitValue("boil", 2, 67.0)]
    assert estimate_interval(once) == estimate_interval(once * 3)
    assert estimate_mean(once * 3).interval.low < 67 < estimate_mean(once * 3).interval.high

    apart = [UnitValue("boil", variant, value) for variant, value in enumerate([5.0, 50.0, 40.0, 90.0, 10.0, 20.0])]
    found, copied = estimate_interval(apart), estimate_interval(apart * 9)
    assert (copied.low, copied.high, copied.clusters, copied.over) == (found.low, found.high, 6, "variants")


def test_a_variant_with_many_seeds_counts_as_one_variant():
    few = [UnitValue("boil", 1, 10.0), *[UnitValue("boil", 2, 30.0)] * 9]
    found = estimate_interval(few)
    assert (found.mean, found.clusters) == (28.0, 2)
    assert (found.low, found.high) == (-100.0, 100.0)


# Few clusters that differ: two more are assumed.


def test_of_a_single_cluster_there_is_no_interval():
    assert estimate({"boil": [1.0]}) is None
    assert estimate({}) is None


def test_fifty_six_units_that_do_not_differ_leave_five_points_open():
    """Fourteen task types and two of one unit each, +100 and -100: error sqrt(20000 * 16 / 15) / 58, t(13) = 2.1604."""
    found = estimate({f"type-{number}": [0.0] * 4 for number in range(14)})
    assert (round(found.low, 1), round(found.high, 1)) == (-5.4, 5.4)
    assert found.mean == 0
    assert found.high == pytest.approx(2.1604 * (20_000 * 16 / 15) ** 0.5 / 58, abs=1e-3)


def test_variants_that_are_alike_assume_types_that_are_alike():
    """One of fourteen types is 50 points up on all four variants, so each assumed type has four units as well:
    sum 200, mean 200 / 64, error sqrt(16 / 15 * the squared residuals) / 64, t(13) = 2.1604."""
    found = estimate({f"type-{number}": [50.0 * (number == 0)] * 4 for number in range(14)})
    middle = 200 / 64
    squares = (200 - 4 * middle) ** 2 + 13 * (4 * middle) ** 2 + (400 - 4 * middle) ** 2 + (400 + 4 * middle) ** 2
    assert found.high == pytest.approx(middle + 2.1604 * (squares * 16 / 15) ** 0.5 / 64, abs=1e-3)
    assert found.low == pytest.approx(middle - 2.1604 * (squares * 16 / 15) ** 0.5 / 64, abs=1e-3)

    scattered = estimate({f"type-{number}": [50.0 * (number == 0), 0.0, 0.0, 0.0] for number in range(14)})
    assert scattered.high - scattered.low < 12, "variants of a type are no more alike than others: one unit each"


def test_six_of_six_solved_do_not_say_that_all_are():
    """Scores of 100 on six task types, and one of 0 and one of 100: mean 87.5, error 12.5, t(5) = 2.5706."""
    found = estimate_mean(list_values({f"type-{number}": [100.0] for number in range(6)}))
    assert (found.mean, found.interval.high) == (100, 100)
    assert found.interval.low == pytest.approx(87.5 - 2.5706 * 12.5, abs=0.01)


@pytest.mark.parametrize("differences", [[20.0, 20.67], [100, 0, 100, 0, 100, 0], [50.0] * 6, [0.0] * 5 + [80.0]])
def test_few_task_types_never_exclude_that_nothing_differs(differences):
    assert not estimate({f"type-{number}": [value] for number, value in enumerate(differences)}).is_decided


SIZES, SHARES = [20, 34, 67, 80, 100], [0.10, 0.20, 0.25, 0.10, 0.35]  # of differences between two arms on a unit


@pytest.mark.parametrize(("types", "variants"), [(6, 1), (8, 1), (14, 1), (14, 4)])
@pytest.mark.parametrize("gain", [0, 10])
def test_where_most_units_tie_the_interval_still_covers_the_truth(types, variants, gain):
    """Four of five units tie, as in runs of real models; the others differ by 20 to 100 points."""
    dice = np.random.default_rng((types, variants, gain))
    goes_up = 0.5 + gain / (2 * 0.2 * np.dot(SIZES, SHARES))
    inside = 0
    for _ in range(200):
        sizes = dice.choice(SIZES, (types, variants), p=SHARES) * (dice.random((types, variants)) < 0.2)
        values = np.where(dice.random((types, variants)) < goes_up, sizes, -sizes).astype(float)
        found = estimate({f"type-{number:02}": row.tolist() for number, row in enumerate(values)})
        inside += found.low <= gain <= found.high
    assert inside / 200 >= 0.93


# Over variants: the task types stay as they are.


def test_over_variants_the_variance_is_that_within_task_types():
    """Means 10 and 50 of two types differ by nature; their four variants each vary by a standard deviation of 2.582."""
    tasks = {"boil": [7.0, 9.0, 11.0, 13.0], "freeze": [47.0, 49.0, 51.0, 53.0]}
    found = estimate(tasks, over="variants")
    assert (found.mean, found.clusters, found.over) == (30, 8, "variants")
    assert found.freedom == pytest.approx(6)
    assert found.error == pytest.approx((2 * (20 / 3) / 4 / 4) ** 0.5)
    assert found.high == pytest.approx(30 + 2.4469 * found.error, abs=1e-3)
    assert estimate(tasks).high == 100, "over task types, two of them say next to nothing"


def test_over_variants_a_task_type_of_one_variant_says_nothing():
    assert estimate({"boil": [1.0, 2.0], "freeze": [3.0]}, over="variants") is None


def test_over_variants_equal_variants_of_each_task_type_have_an_interval_with_a_width():
    """Types 20, 40 and 60 points up, two variants each: with the assumed ones eight, whose mean is 30."""
    found = estimate({"boil": [20.0, 20.0], "freeze": [40.0, 40.0], "melt": [60.0, 60.0]}, over="variants")
    assert found.mean == 40
    assert (found.low + found.high) / 2 == pytest.approx(240 / 8)
    squares = 4 * 10**2 + 2 * 30**2 + 70**2 + 130**2
    assert found.error == pytest.approx((squares * 8 / 7) ** 0.5 / 8)


@pytest.mark.parametrize("tasks", [8, 18])
def test_the_interval_covers_the_truth_as_often_as_it_says(tasks):
    rng = np.random.default_rng(7)
    inside = 0
    for _ in range(80):
        found = estimate({str(n): rng.normal(3, 4) + rng.normal(0, 2, size=5) for n in range(tasks)})
        inside += found.low <= 3 <= found.high
    assert 0.88 <= inside / 80 <= 1
