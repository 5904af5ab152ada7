"""Tests of paired differences. Functions take and return numbers; scipy computes distributions. Differences are
``second - first``, one per task type, because variants of one type are alike. Differences that are not finite or too
large are refused with their number (`bounds.check_score`).

The verdict on two arms is that of sign flips (`FlipTest`). The signed-rank and the sign test are those of rSSO.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rsso_dspy.bounds import MOST_DIFFERENCE, check_score
from rsso_dspy.sign_flips import compute_two_sided_p

FEWEST = 2  # least number of task types of a test over them: of one, nothing is known but itself


@dataclass(frozen=True, slots=True)
class FlipTest:
    """Exact sign-flip test, two-sided, over the sums of clusters."""

    p: float | None  # None of a single cluster, and where none differs
    unlike: int  # number of clusters whose differences do not cancel out
    clusters: int


@dataclass(frozen=True, slots=True)
class WilcoxonResult:
    """Signed-rank test, two-sided, zeros dropped."""

    statistic: float  # the smaller of the two sums of ranks
    p: float | None  # None without differences, and of a single task type
    used: int  # number of differences that are not zero
    effect: float | None  # rank-biserial correlation: share of the rank sum for the second minus that against it


@dataclass(frozen=True, slots=True)
class SignTestResult:
    """Exact sign test, two-sided."""

    up: int
    down: int
    ties: int
    p: float | None  # likewise


def run_flip_test(sums: Sequence[float]) -> FlipTest:
    """Run the test on the sums of the differences of each cluster."""
    values = np.round(_check_values(sums), 9)
    unlike = int(np.count_nonzero(values))
    has_test = len(values) >= FEWEST and unlike > 0
    return FlipTest(compute_two_sided_p(values.tolist()) if has_test else None, unlike, len(values))


def run_wilcoxon_test(differences: Sequence[float]) -> WilcoxonResult:
    """Run the test on differences, one per task type (rSSO, section 4). The p value is exact, also with ties."""
    from scipy.stats import rankdata

    rounded = np.round(_check_values(differences), 9)
    values = rounded[rounded != 0]
    if not len(values):
        return WilcoxonResult(0.0, None, 0, None)
    ranks = rankdata(np.abs(values))
    up, down = float(ranks[values > 0].sum()), float(ranks[values < 0].sum())
    p = _compute_exact_p(ranks, min(up, down)) if len(differences) >= FEWEST else None
    return WilcoxonResult(min(up, down), p, len(values), (up - down) / (up + down))


def _compute_exact_p(ranks: np.ndarray, statistic: float) -> float:
    """Return the two-sided p: the share of all 2^n assignments of signs whose smaller rank sum is at most this one,
    counted by rank sum, in half ranks because ties share ranks."""
    halves = np.rint(2 * ranks).astype(int)
    share = np.ones(1)
    for rank in halves:
        share = np.convolve(share, [0.5, *np.zeros(rank - 1), 0.5])
    return float(min(1.0, 2 * share[: round(2 * statistic) + 1].sum()))


def run_sign_test(differences: Sequence[float]) -> SignTestResult:
    from scipy.stats import binomtest

    values = _check_values(differences)
    up, down = int((values > 0).sum()), int((values < 0).sum())
    has_test = len(differences) >= FEWEST and up + down > 0
    p = float(binomtest(up, up + down).pvalue) if has_test else None
    return SignTestResult(up, down, len(differences) - up - down, p)


def apply_holm_correction(values: Sequence[float | None]) -> list[float | None]:
    """Return the p values corrected for multiple testing (Holm); None is no test and is not counted."""
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    highest = 0.0
    for rank, (value, place) in enumerate(order):
        highest = max(highest, min(1.0, value * (len(order) - rank)))
        corrected[place] = highest
    return corrected


def _check_values(values: Sequence[float], *group: str) -> np.ndarray:
    names = ((value, "value", number, *group) for number, value in enumerate(values, 1))
    return np.asarray([check_score(*arguments, most=MOST_DIFFERENCE) for arguments in names], dtype=float)
