"""The number that compilation optimizes."""

import dspy
import pytest

from rsso_dspy.errors import BackendFailure, EnvironmentFailure
from rsso_dspy.optimize.feedback import metric
from rsso_dspy.programs.prediction import INVALID_COST, SOLVED, score_trials
from rsso_dspy.records import Failure, State, Step, Trajectory, TrialResult, Variant
from tests.records import record, trajectory

VARIANT = Variant("boil", 0, "train")


def trials(*scores, at_reset=0):
    return record("rsso", "boil", 0, scores, at_reset).trials


def with_invalid(invalid, of):
    """One trial of 50 points in which so many actions were not understood."""
    state = State("", "", "")
    steps = [Step("look", "look", state, 0, 50, understood=number >= invalid) for number in range(of - 1)]
    steps.append(Step("open door", "open door", state, 50, 50, understood=True))
    return (TrialResult(1, Trajectory(VARIANT, 1, "A task.", state, 0, tuple(steps), "budget")),)


@pytest.mark.parametrize(
    ("scores", "at_reset", "worth"),
    [
        ([[50, 0, 50, 100]], 0, 0.9992),
        ([[50, -100], [20, 100]], 0, 0.75 * 0.9996 + 0.25 * 0.50),  # a collapse of trial 1 is seen
        ([[90, 99]], 0, 0.9),
        ([[10, 30], [40]], 0, 0.75 * 0.40 + 0.25 * 0.30),
        ([[30, 30]], 20, 0.30),
        ([[20, 60, -100]], 0, 0.60),  # what was earned is not erased by a wrong ending
        ([[-100]], 0, 0.0),
    ],
)
def test_three_quarters_for_the_best_trial_and_one_for_trial_1(scores, at_reset, worth):
    played = score_trials(trials(*scores, at_reset=at_reset))
    assert played == pytest.approx(worth)
    assert (played >= SOLVED) == (100 in scores[0])


def test_invalid_actions_break_ties_and_no_more():
    clean, clumsy = score_trials(with_invalid(0, of=10)), score_trials(with_invalid(5, of=10))
    assert clean - clumsy == pytest.approx(INVALID_COST / 2)
    assert clean == pytest.approx(0.50)
    assert clumsy > score_trials(trials([40]))


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure("SimulatorDied", "gone"), EnvironmentFailure),
        (Failure("LMServerError", "SimulatorDied: 500"), BackendFailure),
    ],
)
def test_an_error_is_no_score(failure, kind):
    played = TrialResult(1, trajectory(VARIANT, 1, [100]))
    with pytest.raises(kind, match=str(failure)):
        score_trials((played, TrialResult(2, None, failure=failure)))
    with pytest.raises(BackendFailure, match="at least one"):
        score_trials(())


def test_the_metric_is_a_number_until_a_predictor_is_named():
    prediction = dspy.Prediction(trials=trials([25]))
    assert metric(None, prediction) == pytest.approx(0.25)
    said = metric(None, prediction, None, "actor", [(None, {"history": ""}, dspy.Prediction(action="look"))])
    assert said.score == pytest.approx(0.25)
    assert "25 of 100 points" in said.feedback
    assert metric(None, None) == 0, "what SIMBA asks about a program that raised"
