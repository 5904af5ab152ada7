"""How well the trials of one variant went, as one number between 0 and 1: what predictions say and optimizers raise."""

from collections.abc import Sequence

from rsso_dspy.errors import BackendFailure, EnvironmentFailure, GoldUnknown, JavaMissing, SimulatorDied
from rsso_dspy.records import SOLVED_SCORE, Trajectory, TrialResult

FIRST_WEIGHT = 0.25
"""Weight of trial 1; the rest is the best trial's. What does worse until its memories make up for it is worse."""

INVALID_COST = 0.05
"""What a trial loses all of whose actions are invalid. Smaller than most differences in points, so that invalid
actions decide between programs that earn about the same, and little else."""

STEP_COST = 0.02
"""What a solved trial of `MANY_STEPS` and more loses; of fewer, its share. So 4 steps are worth more than 13."""
MANY_STEPS = 100

UNSOLVED = 0.9
"""The most that a trial is worth which earned all points but solved nothing."""

SOLVED = 1 - STEP_COST
"""From here on, trial 1 solved the task: a search has nothing left to find there."""

_OF_THE_ENVIRONMENT = {kind.__name__ for kind in (EnvironmentFailure, JavaMissing, SimulatorDied, GoldUnknown)}


def score_trials(trials: Sequence[TrialResult]) -> float:
    """How well the trials of one variant went, 0 to 1: three quarters of what the best trial is worth and one quarter
    of what trial 1 is worth (of a single trial, all of it).

    A trial that solved the task is worth 1 less `STEP_COST` times its share of `MANY_STEPS` steps. Any other is worth
    its points, those held after reset included, of 100, `UNSOLVED` at most, less `INVALID_COST` times the share of its
    actions that were invalid, which also tells apart programs that earn nothing.

    So the score is `SOLVED` or more if and only if trial 1 solved the task: that is where a search stops looking.

    Raises `EnvironmentFailure` or `BackendFailure` when a trial errored or none was played: an error is no score.
    """
    worth = [_value_trial(_require_trajectory(result)) for result in trials]
    if not worth:
        raise BackendFailure("there is no trial to score: the program was expected to play at least one.")
    return (1 - FIRST_WEIGHT) * max(worth) + FIRST_WEIGHT * worth[0]


def _value_trial(trajectory: Trajectory) -> float:
    steps = len(trajectory.steps)
    if trajectory.solved:
        return 1 - STEP_COST * min(1.0, steps / MANY_STEPS)
    points = min(UNSOLVED, _compute_points_share(trajectory))
    return max(0.0, points - INVALID_COST * trajectory.invalid_actions / max(1, steps))


def _require_trajectory(result: TrialResult) -> Trajectory:
    if result.trajectory is not None:
        return result.trajectory
    kind = EnvironmentFailure if result.failure and result.failure.kind in _OF_THE_ENVIRONMENT else BackendFailure
    raise kind(
        f"trial {result.trial} was not played to its end, so it has no score: {result.error or 'cause unknown'}. "
        "Mend the cause (`rsso-dspy doctor` checks model and simulator) and compile again."
    )


def _compute_points_share(trajectory: Trajectory) -> float:
    """Points of one trial as a share of 100: an ending that takes all points away does not erase what was earned."""
    return min(1.0, max(0.0, (trajectory.accumulator + trajectory.points_at_reset) / SOLVED_SCORE))
