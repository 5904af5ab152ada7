"""Means of units with their 95% intervals, which say what to expect on other task types, or on other variants of these.

    estimate_interval([UnitValue("boil", 3, 20.0), UnitValue("melt", 1, 0.0)])
    estimate_mean(scores, SCORES)                       # of scores, 0 to 100

A task type is a cluster, because its variants are alike. Where there is one task type, its variants are the clusters.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean, stdev, variance
from typing import Literal, TypeVar

import numpy as np

from rsso_dspy.bounds import MOST_DIFFERENCE, check_score
from rsso_dspy.power import LEVEL, compute_detectable_difference

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

RESAMPLES = 10_000
SEED = 0
FEW = 10  # number of clusters below which an interval is rough
FEWEST_UNLIKE = 6  # clusters that differ, below which a bootstrap would be too narrow
MOST_POINTS = 100.0  # largest possible difference of two scores, in points
NOT_TESTED = "the memory was not tested"
NO_INTERVAL = "one variant does not show how much others would differ"

Cluster = Literal["task types", "variants"]
Bars = Literal["interval", "sem"]
"""Bar of a mean: its 95% interval, or one standard error over variants to either side (rSSO, Figure 2)."""

Bounds = tuple[float, float]
DIFFERENCES: Bounds = (-MOST_POINTS, MOST_POINTS)
SCORES: Bounds = (0.0, MOST_POINTS)


@dataclass(frozen=True, slots=True)
class UnitValue:
    """A score, or a difference of scores, of one unit. Units of one variant with other seeds are no further variants:
    with a deterministic model they are copies of each other."""

    task: str
    variant: int
    value: float


@dataclass(frozen=True, slots=True)
class MeanInterval:
    """A mean over units with its 95% interval, in points."""

    mean: float
    low: float
    high: float
    error: float  # standard error of the mean
    clusters: int
    over: Cluster = "task types"  # what other ones the interval is about
    freedom: float = 0.0  # degrees of freedom of the error; 0: one less than clusters
    is_always_valid: bool = False  # whether it holds however often one looks between announced rounds

    @property
    def detectable_difference(self) -> float:
        """The smallest difference that a test at the 5% level finds in four of five such runs (noncentral t)."""
        return compute_detectable_difference(self.error, self.freedom or self.clusters - 1)

    @property
    def is_decided(self) -> bool:
        """Whether the interval lies on one side of 0."""
        return self.low > 0 or self.high < 0

    @property
    def is_hopeless(self) -> bool:
        """Whether a run of this size would miss even the largest possible difference."""
        return not self.is_decided and self.detectable_difference > MOST_POINTS


@dataclass(frozen=True, slots=True)
class MeanEstimate:
    mean: float
    interval: MeanInterval | None  # None for a single cluster
    standard_error: float | None = None  # SEM over variants; None for a single variant

    @property
    def ends(self) -> tuple[float, float]:
        if self.interval is None:
            return self.mean, self.mean
        return self.interval.low, self.interval.high

    def find_bar(self, bars: Bars) -> tuple[float, float] | None:
        """Return both ends of the mean's bar, or None where it has none."""
        if bars == "interval":
            return self.ends if self.interval else None
        if self.standard_error is None:
            return None
        return self.mean - self.standard_error, self.mean + self.standard_error


def estimate_mean(scores: Sequence[UnitValue], bounds: Bounds = SCORES) -> MeanEstimate:
    """Return the mean of at least one score, or gain of a score, with its interval and its SEM."""
    interval = estimate_interval(scores, bounds)  # first, since it refuses what is no score
    mean = fmean(score.value for score in scores)
    return MeanEstimate(mean, interval, compute_standard_error(scores))


def estimate_interval(
    values: Iterable[UnitValue], bounds: Bounds = DIFFERENCES, over: Cluster = "task types"
) -> MeanInterval | None:
    """Return the mean over all units with its interval; None for no value and for a single cluster. `bounds` are the
    least and the largest possible value of a unit.

    Over task types whole types are drawn (`_bootstrap`); over variants, each of its own task type, which stay as they
    are (`_estimate_over_variants`). Where fewer than `FEWEST_UNLIKE` clusters are unlike, both would be too narrow, or
    have no width at all, and two more clusters are assumed (`_add_pseudo_clusters`): over variants, where fewer are
    unlike the others of their type. Equal differences give an equal interval.
    """
    units = list(values)
    types = _group_by_type(units)
    if over == "variants" and len(types) > 1:
        return _estimate_over_variants(types, bounds)

    clusters = types
    drawn: Cluster = "task types"
    if len(types) == 1:
        ((_, variants),) = types.items()
        clusters = {str(variant): values for variant, values in _sort_variants(variants)}
        drawn = "variants"
    if len(clusters) < 2:
        return None
    return _estimate_over_clusters(list(clusters.values()), bounds, drawn)


def _group_by_type(values: Sequence[UnitValue]) -> dict[str, list[UnitValue]]:
    for number, value in enumerate(values, 1):
        check_score(value.value, "value", number, f"of {value.task}::{value.variant}", most=MOST_DIFFERENCE)
    types = group_values((value.task, value) for value in values)
    return dict(sorted(types.items()))


def _sort_variants(values: Iterable[UnitValue]) -> list[tuple[int, list[UnitValue]]]:
    by_variant = group_values((value.variant, value) for value in values)
    return sorted(by_variant.items())


def count_variants(units: Iterable[UnitValue]) -> int:
    return len({(unit.task, unit.variant) for unit in units})


def _list_values(units: Iterable[UnitValue]) -> np.ndarray:
    return np.asarray([unit.value for unit in units], dtype=float)


def _estimate_over_clusters(clusters: Sequence[Sequence[UnitValue]], bounds: Bounds, over: Cluster) -> MeanInterval:
    values = [_list_values(cluster) for cluster in clusters]
    means = [float(cluster.mean()) for cluster in values]
    if count_unlike(means, bounds) >= FEWEST_UNLIKE:
        return _bootstrap(values, bounds, over)

    seeds = sum(map(len, clusters)) / count_variants(chain.from_iterable(clusters))
    units = seeds * _estimate_design_effect(clusters)
    return _add_pseudo_clusters(values, bounds, over, units)


def count_unlike(means: Sequence[float], bounds: Bounds) -> int:
    """Return how many clusters do not have the value that takes the width from an interval: no difference, and of
    scores the commoner one of the least and the largest. None where all clusters are equal."""
    rounded = [round(mean, 9) for mean in means]
    if len(set(rounded)) == 1:
        return 0

    are_differences = bounds[0] < 0
    plain = (0.0,) if are_differences else bounds
    return len(rounded) - max(rounded.count(value) for value in plain)


def _bootstrap(clusters: Sequence[np.ndarray], bounds: Bounds, over: Cluster) -> MeanInterval:
    """Draw whole clusters with replacement. Percentile intervals of few clusters are too narrow, so the percentiles are
    moved apart by the ratio of the t to the normal quantile (expanded percentile interval, Hesterberg 2015)."""
    from scipy.stats import norm, t

    count = len(clusters)
    sums, sizes = _sum_clusters(clusters)
    mean = float(sums.sum() / sizes.sum())

    drawn = np.random.default_rng(SEED).integers(count, size=(RESAMPLES, count))
    drawn_means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    missing = np.sqrt(count / (count - 1))
    deviations = missing * (drawn_means - mean)

    tail = (1 - LEVEL) / 2
    apart = t.ppf(1 - tail, count - 1) / norm.ppf(1 - tail)
    percentiles = np.quantile(deviations, [tail, 1 - tail])
    low, high = np.clip(mean + apart * percentiles, *bounds)
    error = float(deviations.std(ddof=1))
    return MeanInterval(mean, float(low), float(high), error, count, over)


def _estimate_design_effect(clusters: Sequence[Sequence[UnitValue]]) -> float:
    """Return how many variants of a cluster say as much as one that is independent: 1 if they are no more alike than
    those of other clusters, all of them if they are equal (Kish 1965, from an analysis of variance).

    Where no cluster differs nothing is known of it, and it is 1."""
    variants = [_average_variants(cluster) for cluster in clusters]
    size = fmean(map(len, variants))
    cluster_means = [round(fmean(means), 9) for means in variants]
    between = size * variance(cluster_means)

    spreads = [variance(means) for means in variants if len(means) > 1]
    within = fmean(spreads) if spreads else 0.0
    if between <= within:
        return 1.0
    return 1 + (size - 1) * (between - within) / (between + (size - 1) * within)


def _average_variants(units: Sequence[UnitValue]) -> list[float]:
    """Return the mean of each variant over its seeds."""
    return [fmean(_list_values(seeds)) for _, seeds in _sort_variants(units)]


def _add_pseudo_clusters(clusters: Sequence[np.ndarray], bounds: Bounds, over: Cluster, units: float) -> MeanInterval:
    """Add two clusters of so many units, which have the least and the largest possible value, and take the t interval
    (Bonett and Price 2012, for clusters)."""
    from scipy.stats import t

    sums, sizes = _sum_clusters(clusters)
    sums = np.append(sums, np.array(bounds) * units)
    sizes = np.append(sizes, [units, units])
    middle = sums.sum() / sizes.sum()
    residuals = sums - middle * sizes
    error = float(np.sqrt((residuals**2).sum() * len(sums) / (len(sums) - 1)) / sizes.sum())

    reach = t.ppf((1 + LEVEL) / 2, len(clusters) - 1) * error
    low, high = np.clip([middle - reach, middle + reach], *bounds)
    mean = float(np.concatenate(list(clusters)).mean())
    return MeanInterval(mean, float(low), float(high), error, len(clusters), over)


def _sum_clusters(clusters: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    sums = np.array([cluster.sum() for cluster in clusters])
    sizes = np.array([len(cluster) for cluster in clusters])
    return sums, sizes


def _estimate_over_variants(types: dict[str, list[UnitValue]], bounds: Bounds) -> MeanInterval | None:
    """Return the interval for other variants of these task types; None where a type has a single variant.

    The variance is that of variants within their types, and its degrees of freedom are Satterthwaite's."""
    from scipy.stats import t

    by_type = [_split_by_variant(values) for values in types.values()]
    if min(map(len, by_type)) < 2:
        return None

    variants = list(chain.from_iterable(by_type))
    total = sum(map(len, variants))
    if _count_unlike_within(by_type) < FEWEST_UNLIKE:
        return _add_pseudo_clusters(variants, bounds, "variants", total / len(variants))

    parts = []
    freedoms = []
    for cluster in by_type:
        weight = sum(map(len, cluster)) / total
        means = [float(variant.mean()) for variant in cluster]
        parts.append(weight**2 * stdev(means) ** 2 / len(means))
        freedoms.append(len(means) - 1)

    total_variance = sum(parts)
    per_degree = sum(part**2 / degrees for part, degrees in zip(parts, freedoms, strict=True))
    freedom = total_variance**2 / per_degree

    mean = float(np.concatenate(variants).mean())
    error = float(total_variance**0.5)
    reach = float(t.ppf((1 + LEVEL) / 2, freedom)) * error
    low, high = np.clip([mean - reach, mean + reach], *bounds)
    return MeanInterval(mean, float(low), float(high), error, len(variants), "variants", freedom)


def _split_by_variant(units: Iterable[UnitValue]) -> list[np.ndarray]:
    return [_list_values(seeds) for _, seeds in _sort_variants(units)]


def _count_unlike_within(by_type: Sequence[Sequence[np.ndarray]]) -> int:
    """Return how many variants do not have the commonest value of their task type, from which they would vary."""
    unlike = 0
    for variants in by_type:
        counts = Counter(round(float(variant.mean()), 9) for variant in variants)
        unlike += len(variants) - max(counts.values())
    return unlike


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
