"""Rollouts, the candidates that they were played with, and the limits of a compile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

import dspy

from rsso_dspy.environments import Goal
from rsso_dspy.records import TrialResult, Variant

TracedCall = tuple[str, Mapping[str, Any], dspy.Prediction]
"""Predictor name, inputs, outputs."""

CompileEnding = Literal["rollouts", "lm-calls", "cost", "interrupted", "error"]
"""What cut a compile short: a budget, the user, or infrastructure."""


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """Limits of what a compile spends."""

    rollouts: int
    lm_calls: int | None = None
    cost: float | None = None
    """US dollars."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The trials of one candidate on one calibration variant."""

    variant: Variant
    score: float
    """The metric, 0 to 1."""
    trials: tuple[TrialResult, ...]
    progress: tuple[tuple[Goal, ...], ...]
    """The goals at the end of each trial: kinds and states, no texts."""
    calls: tuple[TracedCall, ...]
    """The informative calls, in order."""
    requests: int = 0
    """How many requests to models it took."""
    repeat: int = 0
    """Which of its variant's seeds it was played with, from 0."""

    @property
    def accumulator(self) -> int:
        """Best accumulator over the trials, the paper's score."""
        return max(result.trajectory.accumulator for result in self.trials if result.trajectory)


@dataclass(frozen=True, slots=True)
class Losses:
    """Trials whose environment score was lower at the end than before, which neither the metric nor Mean counts."""

    lost: int
    trials: int
    """All trials."""
    lowest: int | None
    """Lowest score that such a trial ended at, -100 to 100; None without one."""

    def __str__(self) -> str:
        return f"{self.lost} of {self.trials}" + (f" (down to {self.lowest})" if self.lost else "")


@dataclass
class CandidateProgram:
    """A program that was tried."""

    program: str
    """Fingerprint of the state."""
    state: dict[str, Any]
    """DSPy's state of the program."""
    rollouts: dict[Variant, Rollout] = field(default_factory=dict)
    """Rollouts with the first seed."""
    number: int = 0
    """Number in the order of trying, the same in the file, in progress and on pages; 0 is the program to improve."""
    placebo: bool = False
    """Whether it is a placebo, which shows what luck brings and is never chosen."""
    dropped: bool = False
    """Whether it fell too far behind on `val` to be played on all of it."""
    repeats: dict[tuple[Variant, int], Rollout] = field(default_factory=dict)
    """Rollouts with every further seed."""

    def list_rollouts(self, variant: Variant, seeds: int = 1) -> list[Rollout]:
        """The rollouts on a variant with the first `seeds` seeds, as far as they were played."""
        found = [self.rollouts.get(variant), *(self.repeats.get((variant, n)) for n in range(1, seeds))]
        return [rollout for rollout in found if rollout is not None]

    def mean_on(self, variant: Variant, seeds: int = 1, of: Literal["score", "accumulator"] = "score") -> float | None:
        """Mean over the first `seeds` seeds; None until all of them have been played."""
        played = self.list_rollouts(variant, seeds)
        return fmean(getattr(rollout, of) for rollout in played) if len(played) == seeds else None

    def mean_over(
        self, variants: Sequence[Variant], of: Literal["score", "accumulator"] = "score", seeds: int = 1
    ) -> float | None:
        """Mean over `variants`; None until all of them have been played."""
        means = [self.mean_on(variant, seeds, of) for variant in variants]
        known = [mean for mean in means if mean is not None]
        return fmean(known) if known and len(known) == len(means) else None

    def count_losses(self, variants: Sequence[Variant], seeds: int = 1) -> Losses:
        """What it lost in the trials that were played on `variants`."""
        rollouts = [rollout for variant in variants for rollout in self.list_rollouts(variant, seeds)]
        played = [result.trajectory for rollout in rollouts for result in rollout.trials if result.trajectory]
        ends = [trajectory.environment_score for trajectory in played if trajectory.lost_points]
        return Losses(len(ends), len(played), min(ends, default=None))
