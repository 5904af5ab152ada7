"""What paired differences allow to be said. Numbers in, numbers out; scipy does the mathematics.

Differences are ``second - first``, one per unit, or one per task type; a task type is a cluster, whose units are alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95
POWER = 0.80
EXACT = 18
"""Differences up to which all arrangements of signs are counted; more are compared with the normal distribution."""


@dataclass(frozen=True, slots=True)
class Wilcoxon:
    """Signed-rank test, two-sided, zeros dropped."""

    statistic: float
    """The smaller of the two sums of ranks."""
    p: float | None
    """None without differences."""
    used: int
    """Differences that are not zero."""
    effect: float | None
    """Rank-biserial correlation, -1 to 1: the share of the sum of ranks that speaks for the second, less the rest."""


@dataclass(frozen=True, slots=True)
class Sign:
    """Exact sign test, two-sided."""

    up: int
    down: int
    ties: int
    p: float | None


@dataclass(frozen=True, slots=True)
class McNemar:
    """Exact test of who solves more, two-sided; pairs in which both or neither did say nothing."""

    gained: int
    """Solved by the second alone."""
    lost: int
    """Solved by the first alone."""
    p: float | None


@dataclass(frozen=True, slots=True)
class Interval:
    """Mean with a bootstrap interval over clusters."""

    mean: float
    low: float
    high: float
    error: float
    """Standard error: spread of the bootstrapped means."""
    clusters: int

    @property
    def detectable(self) -> float:
        """The smallest difference that a test at the 5% level would have found in four of five such runs."""
        from scipy.stats import norm

        return float((norm.ppf(1 - (1 - LEVEL) / 2) + norm.ppf(POWER)) * self.error)


def wilcoxon(differences: Sequence[float]) -> Wilcoxon:
    """The test over these differences, one per task type (rSSO, section 4). Exact up to `EXACT` of them, ties too."""
    from scipy.stats import PermutationMethod, rankdata
    from scipy.stats import wilcoxon as signed_rank

    values = np.array([value for value in differences if value], dtype=float)
    if not len(values):
        return Wilcoxon(0.0, None, 0, None)
    ranks = rankdata(np.abs(np.round(values, 9)))
    up, down = float(ranks[values > 0].sum()), float(ranks[values < 0].sum())
    method = PermutationMethod(n_resamples=2**EXACT) if len(values) <= EXACT else "asymptotic"
    found = signed_rank(np.round(values, 9), method=method)
    return Wilcoxon(min(up, down), float(found.pvalue), len(values), (up - down) / (up + down))


def sign_test(differences: Sequence[float]) -> Sign:
    """The test over these differences."""
    up, down = sum(value > 0 for value in differences), sum(value < 0 for value in differences)
    return Sign(up, down, len(differences) - up - down, _binomial(up, up + down))


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """The test over pairs of what was solved."""
    gained = sum(theirs and not ours for ours, theirs in zip(first, second, strict=True))
    lost = sum(ours and not theirs for ours, theirs in zip(first, second, strict=True))
    return McNemar(gained, lost, _binomial(gained, gained + lost))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """P values corrected for being several (Holm); what is None is no test and is not counted."""
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    highest = 0.0
    for done, (value, place) in enumerate(order):
        highest = max(highest, min(1.0, value * (len(order) - done)))
        corrected[place] = highest
    return corrected


def clustered(differences: Mapping[str, Sequence[float]], seed: int = 0) -> Interval | None:
    """Mean over all units, with an interval from drawing task types with replacement, all units of one together; None
    below two task types. Seeded: the same differences give the same interval."""
    groups = [np.asarray(values, dtype=float) for _, values in sorted(differences.items()) if len(values)]
    if len(groups) < 2:
        return None
    sums, sizes = np.array([group.sum() for group in groups]), np.array([len(group) for group in groups])
    drawn = np.random.default_rng(seed).integers(len(groups), size=(RESAMPLES, len(groups)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(sums.sum() / sizes.sum()), float(low), float(high), float(means.std(ddof=1)), len(groups))


def _binomial(up: int, of: int) -> float | None:
    from scipy.stats import binomtest

    return float(binomtest(up, of).pvalue) if of else None
