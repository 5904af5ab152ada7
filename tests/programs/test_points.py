"""Points that an environment gives: the reward of a step is the change of the score, which is at most 100."""

from types import SimpleNamespace

import pytest

from rsso_dspy.environments import Transition
from rsso_dspy.errors import EnvironmentFailure
from rsso_dspy.programs.trial import TrialRun
from rsso_dspy.records import State

STATE = State("You wait.", "A room.", "")


def check_first_step(reward: int, score: int, at_reset: int = 0) -> None:
    trial = object.__new__(TrialRun)
    trial.environment = SimpleNamespace(points_at_reset=at_reset)
    trial._check_points(
        Transition(state=STATE, action="wait", reward=reward, score=score, understood=True, done=False), []
    )


@pytest.mark.parametrize(("reward", "score", "at_reset"), [(10, 10, 0), (0, 3, 3), (-100, -100, 0), (100, 100, 0)])
def test_points_that_add_up_are_taken(reward, score, at_reset):
    check_first_step(reward, score, at_reset)


@pytest.mark.parametrize(("reward", "score", "at_reset"), [(150, 100, 0), (10, 0, 0), (450, 450, 0), (0, 0, 3)])
def test_other_points_end_the_trial_with_an_error(reward, score, at_reset):
    with pytest.raises(EnvironmentFailure, match=f"gave {reward} points and a score of {score} after {at_reset}"):
        check_first_step(reward, score, at_reset)
