"""What a compile deals in: rollouts, the programs they were played with, and what may be spent on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

import dspy

from rsso_dspy.environments.goals import Goal
from rsso_dspy.records import TrialResult, Variant

TracedCall = tuple[str, Mapping[str, Any], dspy.Prediction]
"""Predictor name, inputs, outputs."""

CompileEnding = Literal["rollouts", "lm-calls", "cost", "interrupted", "error"]
"""What cut a compile short: a budget, the user, or infrastructure."""


@dataclass(frozen=True, slots=True)
class CompileLimits:
    """What a compile may spend."""

    rollouts: int
    lm_calls: int | None = None
    cost: float | None = None
    """US dollars."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """One trial-sequence of one candidate."""

    variant: Variant
    score: float
    """The metric, 0 to 1."""
    trials: tuple[TrialResult, ...]
    progress: tuple[tuple[Goal, ...], ...]
    """Per trial the goals at its end: kinds and states, no texts."""
    calls: tuple[TracedCall, ...]
    """The informative calls, in order."""
    requests: int = 0
    """Requests to models that it took."""

    @property
    def accumulator(self) -> int:
        """Best accumulator over the trials, the paper's score."""
        return max(result.trajectory.accumulator for result in self.trials if result.trajectory)


@dataclass
class CandidateProgram:
    """A program that was tried."""

    program: str
    """Its fingerprint."""
    state: dict[str, Any]
    """Its DSPy state."""
    rollouts: dict[Variant, Rollout] = field(default_factory=dict)

    def mean_over(self, variants: Sequence[Variant], of: Literal["score", "accumulator"] = "score") -> float | None:
        """Mean over `variants`; None while one of them has not been played."""
        if not all(variant in self.rollouts for variant in variants):
            return None
        return fmean(getattr(self.rollouts[variant], of) for variant in variants)
