"""What paired differences allow to be said. Numbers in, numbers out; scipy does the mathematics.

Differences are ``second - first``, one per unit, or one per task type; a task type is a cluster, whose units are alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

RESAMPLES = 10_000
LEVEL = 0.95
POWER = 0.80
FEW = 10
"""Clusters below which an interval is rough."""
ALIKE = 1e-9
"""Standard error below which clusters do not differ."""
OF_ONE_SIGN = 6
"""Clusters from which on an exact sign test can tell, at the 5% level, what is the same in all."""
NO_INTERVAL = f"of one unit, or of fewer than {OF_ONE_SIGN} that are all alike, which tell nothing of others"
"""What a difference without an interval is."""
Cluster = Literal["task types", "units"]


@dataclass(frozen=True, slots=True)
class WilcoxonResult:
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
class SignTestResult:
    """Exact sign test, two-sided."""

    up: int
    down: int
    ties: int
    p: float | None


@dataclass(frozen=True, slots=True)
class McNemarResult:
    """Exact test of who solves more, two-sided; pairs in which both or neither did say nothing."""

    gained: int
    """Solved by the second alone."""
    lost: int
    """Solved by the first alone."""
    p: float | None


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """Mean with a bootstrap interval over clusters."""

    mean: float
    low: float
    high: float
    error: float
    """Standard error: spread of the bootstrapped means, by k - 1 in place of k clusters."""
    clusters: int
    over: Cluster = "task types"
    """What was drawn. An interval over the units of one task type says nothing about other tasks."""

    @property
    def detectable_difference(self) -> float | None:
        """The smallest difference that a test at the 5% level would have found in four of five such runs; None when
        all clusters are alike, which says nothing of how much others would differ."""
        if self.error < ALIKE:
            return None
        from scipy.stats import t

        return float((t.ppf(1 - (1 - LEVEL) / 2, self.clusters - 1) + t.ppf(POWER, self.clusters - 1)) * self.error)


def run_wilcoxon_test(differences: Sequence[float]) -> WilcoxonResult:
    """The test over these differences, one per task type (rSSO, section 4); exact, with ties too."""
    from scipy.stats import rankdata

    rounded = np.round(np.asarray(differences, dtype=float), 9)
    values = rounded[rounded != 0]
    if not len(values):
        return WilcoxonResult(0.0, None, 0, None)
    ranks = rankdata(np.abs(values))
    up, down = float(ranks[values > 0].sum()), float(ranks[values < 0].sum())
    return WilcoxonResult(min(up, down), _compute_exact_p(ranks, min(up, down)), len(values), (up - down) / (up + down))


def _compute_exact_p(ranks: np.ndarray, statistic: float) -> float:
    """Two-sided p: the share of all arrangements of signs whose smaller sum of ranks is not above this one. Counted sum
    by sum, in units of half a rank, for ties share ranks; scipy counts arrangement by arrangement, 2^n of them."""
    halves = np.rint(2 * ranks).astype(int)
    share = np.zeros(halves.sum() + 1)
    share[0] = 1.0
    for rank in halves:
        moved = np.zeros_like(share)
        moved[rank:] = share[: len(share) - rank]
        share = (share + moved) / 2
    return float(min(1.0, 2 * share[: round(2 * statistic) + 1].sum()))


def run_sign_test(differences: Sequence[float]) -> SignTestResult:
    """The test over these differences."""
    up, down = sum(value > 0 for value in differences), sum(value < 0 for value in differences)
    return SignTestResult(up, down, len(differences) - up - down, _compute_binomial_p(up, up + down))


def run_mcnemar_test(first: Sequence[bool], second: Sequence[bool]) -> McNemarResult:
    """The test over pairs of what was solved."""
    gained = sum(theirs and not ours for ours, theirs in zip(first, second, strict=True))
    lost = sum(ours and not theirs for ours, theirs in zip(first, second, strict=True))
    return McNemarResult(gained, lost, _compute_binomial_p(gained, gained + lost))


def apply_holm_correction(values: Sequence[float | None]) -> list[float | None]:
    """P values corrected for being several (Holm); what is None is no test and is not counted."""
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    highest = 0.0
    for done, (value, place) in enumerate(order):
        highest = max(highest, min(1.0, value * (len(order) - done)))
        corrected[place] = highest
    return corrected


def bootstrap_mean(
    differences: Mapping[str, Sequence[float]], seed: int = 0, most: float = 100.0
) -> BootstrapInterval | None:
    """Mean over all units, with an interval from drawing task types with replacement, all units of one together. Units
    of a single task type are drawn one by one, which the interval says. None below two, and for a few that are all
    alike: as they do not differ, the interval would have no width. Seeded: the same differences give the same interval.

    Percentiles of so few clusters lie too near to each other; they are moved apart by what the t distribution asks for
    beyond the normal one (the expanded percentile interval of Hesterberg 2015), no further than `most`, the largest
    difference that there can be.
    """
    from scipy.stats import norm, t

    groups = [np.asarray(values, dtype=float) for _, values in sorted(differences.items()) if len(values)]
    over: Cluster = "task types"
    if len(groups) == 1:
        over, groups = "units", [np.asarray([value], dtype=float) for value in groups[0]]
    if len(groups) < 2:
        return None
    sums, sizes = np.array([group.sum() for group in groups]), np.array([len(group) for group in groups])
    drawn = np.random.default_rng(seed).integers(len(groups), size=(RESAMPLES, len(groups)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    mean, tail, missing = float(sums.sum() / sizes.sum()), (1 - LEVEL) / 2, np.sqrt(len(groups) / (len(groups) - 1))
    apart = missing * t.ppf(1 - tail, len(groups) - 1) / norm.ppf(1 - tail)
    low, high = np.clip(mean + apart * (np.quantile(means, [tail, 1 - tail]) - mean), -most, most)
    error = float(means.std(ddof=1) * missing)
    if error < ALIKE and len(groups) < OF_ONE_SIGN:
        return None
    return BootstrapInterval(mean, float(low), float(high), error, len(groups), over)


def _compute_binomial_p(up: int, of: int) -> float | None:
    from scipy.stats import binomtest

    return float(binomtest(up, of).pvalue) if of else None
