"""The result of an agent: a `dspy.Prediction` with a short text; and the metric, which says how well the trials of one
variant went, from 0 to 1: predictions report it, optimizers maximize it."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import dspy

from rsso_dspy.errors import RssoError
from rsso_dspy.records import SOLVED_SCORE, Trajectory, TrialResult, Variant


def make_plain(value: Any) -> Any:
    """Return a value as JSON can hold it: dataclasses as objects of their fields, tuples and sets as lists."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: make_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): make_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [make_plain(part) for part in value]
    if isinstance(value, set | frozenset):
        return sorted(make_plain(part) for part in value)
    return value


class AgentPrediction(dspy.Prediction):
    """The trials of one variant.

    - ``trials``: tuple of `TrialResult`, in order
    - ``memories``: memory to its snapshot after the last trial, JSON data
    - ``score``: 0 to 1, as `rsso_dspy.metric` computes it; None if infrastructure failed in the last trial
    - ``points``: best accumulator over the trials, 0 to 100, the paper's score; None in the same case
    - ``variant``, ``method``, ``benchmark``: what was played, by which method; no benchmark where it is the default
    """

    @classmethod
    def from_trials(
        cls, method: str, variant: Variant, trials: Sequence[TrialResult], memories: Mapping[str, Any], benchmark: str
    ) -> "AgentPrediction":
        values = {"method": method, "variant": variant.key, "trials": tuple(trials), "memories": dict(memories)}
        has_failed = trials[-1].trajectory is None
        score = None if has_failed else score_trials(trials)
        points = None if has_failed else max(trial.trajectory.accumulator for trial in trials if trial.trajectory)
        return cls(**values, score=score, points=points, **({"benchmark": benchmark} if benchmark else {}))

    def __repr__(self) -> str:
        outcomes = ", ".join(trial.trajectory.outcome if trial.trajectory else "error" for trial in self.trials)
        scores = f"score {'none, a trial errored' if self.score is None else f'{self.score:.2f}'}, points {self.points}"
        return f"AgentPrediction({self.method} on {self.variant}: {scores}, trials: {outcomes})"

    __str__ = __repr__

    def items(self, include_dspy: bool = False) -> list[tuple[str, Any]]:
        """Return names and values as plain data, as files of `dspy.Evaluate` hold them."""
        return [(name, make_plain(value)) for name, value in super().items(include_dspy)]

    def toDict(self) -> dict[str, Any]:
        """Return all values as plain data, which JSON can hold."""
        return dict(self.items())


FIRST_WEIGHT = 0.25  # of trial 1: one that is worse lowers the score, even if memories make up for it later
INVALID_COST = 0.05  # what a trial loses if all of its actions are invalid: less than most differences in points
STEP_COST, MANY_STEPS = 0.02, 100  # what a solved trial of so many steps or more loses; a shorter one loses its share
UNSOLVED = 0.9  # upper limit for a trial that did not solve the task, even if it earned all points
SOLVED = 1 - STEP_COST  # scores from here on mean that trial 1 solved the task: a search can gain nothing more


def score_trials(trials: Sequence[TrialResult]) -> float:
    """Return the metric of the trials of one variant, from 0 to 1: three quarters of the best trial's value plus one
    quarter of trial 1's. A trial that solved the task is worth 1, less `STEP_COST` times the share of `MANY_STEPS` that
    it took; any other its points as a share of 100, including those held after reset and at most `UNSOLVED`, less
    `INVALID_COST` times the share of its actions that were invalid. Raises `RssoError` when a trial ended in an error
    or no trial was played: an error is not a score."""
    if not trials:
        raise RssoError("there is no trial to score: the program has to play at least one")
    if failed := [trial for trial in trials if trial.trajectory is None]:
        raise RssoError(
            f"trial {failed[0].trial} was not played to its end, so it has no score: {failed[0].error}. Remove the "
            "cause (`rsso-dspy doctor` checks model and simulator), then repeat the call or the command."
        )
    values = [_value_trial(trial.trajectory) for trial in trials if trial.trajectory]
    return (1 - FIRST_WEIGHT) * max(values) + FIRST_WEIGHT * values[0]


def _value_trial(trajectory: Trajectory) -> float:
    steps = len(trajectory.steps)
    if trajectory.solved:
        return 1 - STEP_COST * min(1.0, steps / MANY_STEPS)
    # An ending that takes all points away does not lower them.
    share = max(0.0, (trajectory.accumulator + trajectory.points_at_reset) / SOLVED_SCORE)
    return max(0.0, min(UNSOLVED, share) - INVALID_COST * trajectory.invalid_actions / max(1, steps))
