"""Scores of candidates: each of four measures relative to its own mean (SSO, section 3.2; release,
skillset.py:206-225).

A measure x with mean m and standard deviation s counts max(0, (x - m + 2s) / s): 2 when average, 0 from two deviations
below. The score is the weighted mean of the four, and of feedback if enabled.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from rsso_dspy.memory import BILLION
from rsso_dspy.memory.skills.skill import Piece, SkillCandidate, SkillScores, SkillSettings

Floats = NDArray[np.float64]

NEUTRAL = 2.0
"""Value of a measure at its mean, and of every candidate if the measure does not vary."""


@dataclass(slots=True)
class RunningMoments:
    """Running count, sum and sum of squares of integers: exact in any order."""

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def from_values(cls, values: Iterable[int]) -> "RunningMoments":
        moments = cls()
        moments.add_values(values)
        return moments

    def add_values(self, values: Iterable[int]) -> None:
        for value in values:
            self.count += 1
            self.total += value
            self.squares += value * value

    @property
    def is_constant(self) -> bool:
        return self.count * self.squares == self.total * self.total

    def standardise(self, values: Floats) -> Floats:
        """Return max(0, (x - mean + 2 sd) / sd) with the population deviation; ``NEUTRAL`` if that is zero."""
        if self.is_constant:
            return np.full(values.shape, NEUTRAL)
        mean = self.total / self.count
        deviation = sqrt(self.count * self.squares - self.total * self.total) / self.count
        return np.maximum(0.0, (values - mean + 2 * deviation) / deviation)


COVERAGE = RunningMoments.from_values((3, 4, 5, 6))
"""Numbers of steps are compared with the lengths 3 to 6 for any windows: mean 4.5, deviation 1.118 (release,
skillset.py:49-50)."""


@dataclass(frozen=True, slots=True)
class SimilarityMoments:
    """Moments of both similarities over all candidates of a memory, kept or not."""

    state: RunningMoments
    action: RunningMoments

    def add_candidates(self, candidates: Sequence[SkillCandidate]) -> None:
        self.state.add_values(candidate.state for candidate in candidates)
        self.action.add_values(candidate.action for candidate in candidates)

    def accepts_candidate(self, candidate: SkillCandidate, settings: SkillSettings) -> bool:
        """Return whether both similarities strictly exceed their running mean; a constant similarity passes."""
        return all(
            value * moments.count > moments.total or (settings.keep_when_constant and moments.is_constant)
            for moments, value in ((self.state, candidate.state), (self.action, candidate.action))
        )


def score_candidates(
    pool: Sequence[SkillCandidate],
    pieces: Sequence[Piece],
    similarities: SimilarityMoments,
    feedback: Mapping[int, Sequence[tuple[float, bool]]],
    settings: SkillSettings,
) -> list[SkillScores]:
    """Return scores aligned with ``pool``.

    ``feedback`` holds (return in points, whether a reward followed) per event, by position in the pool. Rewards are
    compared with all positive rewards of the newest ``max_trajectories`` pieces.
    """
    recent = pieces[-settings.max_trajectories :]
    rewards = RunningMoments.from_values(points for piece in recent for points in piece.rewards if points > 0)
    terms = {
        "coverage": COVERAGE.standardise(np.array([_count_window_steps(item, pieces) for item in pool], dtype=float)),
        "reward": rewards.standardise(np.array([_compute_mean_reward(item, pieces) for item in pool], dtype=float)),
        "state": similarities.state.standardise(np.array([item.state for item in pool], dtype=float)),
        "action": similarities.action.standardise(np.array([item.action for item in pool], dtype=float)),
        "feedback": np.zeros(len(pool)),
    }
    for position, events in feedback.items():
        worth = rewards.standardise(np.array([gain for gain, _ in events], dtype=float)).tolist()
        signed = (value if followed else -value for value, (_, followed) in zip(worth, events, strict=True))
        terms["feedback"][position] = sum(signed)
    weights = {
        "coverage": settings.coverage_weight,
        "reward": settings.reward_weight,
        "state": settings.state_weight,
        "action": settings.action_weight,
    }
    if settings.feedback:
        weights["feedback"] = settings.feedback_weight
    total = sum((weights[name] * terms[name] for name in weights), np.zeros(len(pool))) / sum(weights.values())
    # Whole billionths: mathematically equal values tie, whatever the rounding of the last bit.
    total = np.rint(total * BILLION) / BILLION
    columns = (*terms.values(), total)
    return [SkillScores(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _count_window_steps(candidate: SkillCandidate, pieces: Sequence[Piece]) -> int:
    return sum(min(end, len(pieces[piece])) - start - 1 for piece, start, end in candidate.spans)


def _compute_mean_reward(candidate: SkillCandidate, pieces: Sequence[Piece]) -> float:
    """Return the points per window over all its states, including losses."""
    return sum(sum(pieces[piece].rewards[start:end]) for piece, start, end in candidate.spans) / len(candidate.spans)
