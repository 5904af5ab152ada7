"""How well the trials of one variant went, as one number between 0 and 1: what predictions say and optimizers raise."""

from collections.abc import Sequence

from rsso_dspy.errors import BackendFailure, EnvironmentFailure, GoldUnknown, JavaMissing, SimulatorDied
from rsso_dspy.records import SOLVED_SCORE, Trajectory, TrialResult

INVALID_COST = 0.05
"""What a player loses all of whose actions are invalid. Smaller than most differences in points, so that invalid
actions decide between programs that earn about the same, and little else."""

_OF_THE_ENVIRONMENT = {kind.__name__ for kind in (EnvironmentFailure, JavaMissing, SimulatorDied, GoldUnknown)}


def score_trials(trials: Sequence[TrialResult]) -> float:
    """How well the trials of one variant went, 0 to 1.

    1.0 when any trial solved the task, so that the best value can be reached and an optimizer that stops at a perfect
    score does stop. Else the best trial's points, those held after reset included, of 100, less `INVALID_COST` times
    the share of invalid actions over all trials: a tie-break that also tells apart programs which earn nothing.

    Raises `EnvironmentFailure` or `BackendFailure` when a trial errored or none was played: an error is no score.
    """
    trajectories = [_require_trajectory(result) for result in trials]
    if not trajectories:
        raise BackendFailure("there is no trial to score: the program was expected to play at least one.")
    if any(trajectory.solved for trajectory in trajectories):
        return 1.0
    best = max(_compute_points_share(trajectory) for trajectory in trajectories)
    steps = sum(len(trajectory.steps) for trajectory in trajectories)
    invalid = sum(trajectory.invalid_actions for trajectory in trajectories)
    return max(0.0, best - INVALID_COST * invalid / max(1, steps))


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
