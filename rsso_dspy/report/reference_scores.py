"""What a results card says of two references: random actions, the lowest bar, and gold paths, the ceiling."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from rsso_dspy.report.statistical_tests import bootstrap_scores

Scores = tuple[tuple[str, float], ...]
"""Task type and points of each variant."""


@dataclass(frozen=True, slots=True)
class ReferenceScores:
    """Points of 100 that random actions and gold paths gained on the variants of a run, within its steps."""

    variants: int
    trials: int
    """Trials of random actions on each variant."""
    first: Scores
    """Of the first trial of random actions; empty where the benchmark lists no possible actions."""
    best: Scores
    """Of the best trial of random actions."""
    gold: Scores
    """Of gold paths, for the variants that have one."""

    def describe_random(self) -> str:
        """Describe the lowest bar."""
        if not self.first:
            return "random actions not played: the benchmark lists no possible actions"
        trials = f"best of {self.trials} trials" if self.trials > 1 else "one trial"
        first = f", first trial {_average(self.first):.2f}" if self.trials > 1 else ""
        return (
            f"actions drawn uniformly from the possible ones, without a model: {trials} {_describe(self.best)}{first}, "
            f"on {len(self.best)} of {self.variants} variants"
        )

    def describe_oracle(self) -> str:
        """Describe the ceiling."""
        if not self.gold:
            return "not played: no gold path of these variants is known"
        return (
            f"gold paths within the same steps, a ceiling that no agent has seen: {_describe(self.gold)}, on "
            f"{len(self.gold)} of {self.variants} variants"
        )


def _average(scores: Sequence[tuple[str, float]]) -> float:
    return fmean(points for _, points in scores)


def _describe(scores: Scores) -> str:
    interval = bootstrap_scores(list(scores))
    spread = "" if interval is None else f" (95% interval {interval.low:.1f} to {interval.high:.1f})"
    return f"{_average(scores):.2f} points{spread}"
