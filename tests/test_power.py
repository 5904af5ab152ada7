"""Which difference a run can find."""

import numpy as np
import pytest
from scipy.stats import t

from rsso_dspy.config import load_config
from rsso_dspy.plan import describe_detectable, plan_held_out
from rsso_dspy.power import FEWEST_TYPES, Design, compute_detectable_difference, forecast_detectable_difference
from rsso_dspy.sign_flips import count_needed_differences


@pytest.mark.parametrize(
    ("clusters", "errors"),
    [(2, 16.334), (3, 5.653), (5, 3.761), (8, 3.270), (14, 3.031), (18, 2.973)],
)
def test_the_difference_in_standard_errors_is_that_of_tables_of_power(clusters, errors):
    assert compute_detectable_difference(1.0, clusters - 1) == pytest.approx(errors, abs=1e-3)
    assert compute_detectable_difference(5.0, clusters - 1) == pytest.approx(5 * errors, abs=5e-3)


@pytest.mark.parametrize("clusters", [3, 8, 14])
def test_a_t_test_finds_it_in_four_of_five_drawn_runs(clusters):
    difference = compute_detectable_difference(1.0, clusters - 1)
    drawn = np.random.default_rng(0).normal(difference, clusters**0.5, (100_000, clusters))
    statistic = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / clusters**0.5)
    assert (abs(statistic) > t.ppf(0.975, clusters - 1)).mean() == pytest.approx(0.8, abs=0.005)


def test_the_fewest_task_types_of_a_design_are_those_that_a_test_needs():
    assert FEWEST_TYPES == count_needed_differences() == 6  # all of six alike: 2 / 2^6 = .031


def test_a_run_of_fourteen_task_types_and_four_variants_each_finds_twenty_points():
    assert forecast_detectable_difference(Design(14, 4)) == pytest.approx(20.25, abs=0.01)  # 50 / sqrt(56) times 3.031


@pytest.mark.parametrize(
    ("methods", "tasks", "words"),
    [
        (("react",), ("GoToDoor",), ""),
        (("react", "reflexion"), ("GoToDoor", "Open"), "2 of the 6 task types or more that it takes"),
        (
            ("react", "reflexion"),
            ("GoToDoor", "Open", "Pickup", "PickupLoc", "FindObjS7", "OpenDoorLoc"),
            "finds a difference of 36 points or more in four of five such runs",
        ),
    ],
)
def test_the_plan_says_which_difference_a_run_can_find(methods, tasks, words):
    plan = plan_held_out(load_config(overrides=["benchmark=babyai"]), list(methods), tasks=list(tasks), per_task=4)
    assert describe_detectable(plan).startswith(words)
    assert bool(describe_detectable(plan)) == bool(words)
