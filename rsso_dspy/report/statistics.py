"""Statistics of paired differences. Functions take and return numbers; scipy computes distributions. Differences are
``second - first``, one per unit or one per task type. A task type is a cluster because its units are alike. Differences
that are not finite or too large are refused with their number (`bounds.check_score`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Literal, TypeVar

import numpy as np

from rsso_dspy.bounds import MOST_DIFFERENCE, check_score
from rsso_dspy.power import FEWEST_TASK_TYPES, LEVEL, POWER

K = TypeVar("K")
V = TypeVar("V")

RESAMPLES = 10_000
SEED = 0
SIGNIFICANT = 0.05  # p, corrected for the comparisons of a report, up to which one arm is said to beat another
FEWEST = 2  # least number of task types of a test over them: of one, nothing is known but itself
FEW = 10  # number of clusters below which an interval is rough
ALIKE = 1e-9  # standard error below which clusters count as equal
OF_ONE_SIGN = FEWEST_TASK_TYPES  # least number of equal clusters that are significant in an exact sign test
NO_INTERVAL = f"one variant, or fewer than {OF_ONE_SIGN} that are all equal, do not show how much others would differ"
MOST_POINTS = 100.0  # largest possible difference of two scores, in points
Cluster = Literal["task types", "variants"]
Bars = Literal["interval", "sem"]
"""Bar of a mean: its 95% interval, or one standard error over variants to either side (rSSO, Figure 2)."""


@dataclass(frozen=True, slots=True)
class UnitValue:
    """A score, or a difference of scores, of one unit. Units of one variant with other seeds are no further variants:
    with a deterministic model they are copies of each other."""

    task: str
    variant: int
    value: float


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


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """Mean with a bootstrap interval over clusters."""

    mean: float
    low: float
    high: float
    error: float  # spread of the bootstrapped means, corrected for k - 1 degrees of freedom
    clusters: int
    over: Cluster = "task types"  # what the bootstrap draws

    @property
    def detectable_difference(self) -> float | None:
        """The smallest difference that a test at the 5% level finds in four of five such runs; None if all clusters are
        equal, since they do not show how much others would differ."""
        if self.error < ALIKE:
            return None
        from scipy.stats import t

        return float((t.ppf(1 - (1 - LEVEL) / 2, self.clusters - 1) + t.ppf(POWER, self.clusters - 1)) * self.error)

    @property
    def is_decided(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0

    @property
    def is_hopeless(self) -> bool:
        """Whether a run of this size would miss even the largest possible difference."""
        least = self.detectable_difference
        return not self.is_decided and least is not None and least > MOST_POINTS


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
    for done, (value, place) in enumerate(order):
        highest = max(highest, min(1.0, value * (len(order) - done)))
        corrected[place] = highest
    return corrected


def bootstrap_mean(values: Iterable[UnitValue], most: float = MOST_POINTS) -> BootstrapInterval | None:
    """Return the mean over all units with a bootstrap interval, which draws whole task types with replacement. Where
    there is a single task type, its variants are drawn, each with all its seeds; `BootstrapInterval.over` says so. None
    for fewer than two clusters, and for few clusters that are all equal, whose interval would have no width. Equal
    differences give an equal interval. Percentile intervals of few clusters are too narrow, so the percentiles are
    moved apart by the ratio of the t to the normal quantile (expanded percentile interval, Hesterberg 2015), at most to
    `most`, the largest possible difference."""
    from scipy.stats import norm, t

    over, groups = _group_clusters(list(values))
    if len(groups) < 2:
        return None
    sums, sizes = np.array([group.sum() for group in groups]), np.array([len(group) for group in groups])
    drawn = np.random.default_rng(SEED).integers(len(groups), size=(RESAMPLES, len(groups)))
    mean, missing = float(sums.sum() / sizes.sum()), np.sqrt(len(groups) / (len(groups) - 1))
    deviations = missing * (sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1) - mean)
    error = float(deviations.std(ddof=1))
    if error < ALIKE and len(groups) < OF_ONE_SIGN:
        return None
    tail = (1 - LEVEL) / 2
    apart = t.ppf(1 - tail, len(groups) - 1) / norm.ppf(1 - tail)
    low, high = np.clip(mean + apart * np.quantile(deviations, [tail, 1 - tail]), -most, most)
    return BootstrapInterval(mean, float(low), float(high), error, len(groups), over)


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    mean: float
    interval: BootstrapInterval | None  # None for a single cluster, and for a few that are all alike
    standard_error: float | None = None  # SEM over variants; None for a single variant

    @property
    def ends(self) -> tuple[float, float]:
        return (self.interval.low, self.interval.high) if self.interval else (self.mean, self.mean)

    def find_bar(self, bars: Bars) -> tuple[float, float] | None:
        """Return both ends of the mean's bar, or None where it has none."""
        if bars == "interval":
            return self.ends if self.interval else None
        if self.standard_error is None:
            return None
        return self.mean - self.standard_error, self.mean + self.standard_error


def _group_clusters(values: Sequence[UnitValue]) -> tuple[Cluster, list[np.ndarray]]:
    """Return what is drawn, and the values of each cluster in the order of their names."""
    by_task: dict[str, list[UnitValue]] = {}
    for value in values:
        by_task.setdefault(value.task, []).append(value)

    if len(by_task) == 1:
        by_variant = group_values((value.variant, value.value) for value in values)
        (task,) = by_task
        return "variants", [
            _check_values(cluster, f"of {task}::{variant}") for variant, cluster in sorted(by_variant.items())
        ]

    return "task types", [
        _check_values([value.value for value in cluster], f"of {task}") for task, cluster in sorted(by_task.items())
    ]


def estimate_mean(scores: Sequence[UnitValue]) -> MeanEstimate:
    """Return the mean of at least one score with its interval, cut to possible scores, 0 to 100, and its SEM."""
    interval = bootstrap_mean(scores)
    if interval is not None:
        interval = replace(interval, low=max(0.0, interval.low), high=min(MOST_POINTS, interval.high))
    mean = fmean(score.value for score in scores)
    return MeanEstimate(mean, interval, compute_standard_error(scores))


def compute_standard_error(scores: Sequence[UnitValue]) -> float | None:
    """Return the standard error of the mean over variants (SEM), each the mean of its seeds; None for one variant.

    It takes variants of a task type for independent ones, so it is smaller than the error over task types.
    """
    by_variant = group_values(((score.task, score.variant), score.value) for score in scores)
    if len(by_variant) < 2:
        return None
    means = [fmean(values) for values in by_variant.values()]
    return stdev(means) / len(means) ** 0.5


def group_values(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return each key with its values, in order of first appearance."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _check_values(values: Sequence[float], *group: str) -> np.ndarray:
    names = ((value, "value", number, *group) for number, value in enumerate(values, 1))
    return np.asarray([check_score(*each, most=MOST_DIFFERENCE) for each in names], dtype=float)
