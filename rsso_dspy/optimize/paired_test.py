"""Compares two programs that met the same variants: a one-sided sign-flip test over the paired differences, and the
interval of the differences that the same test does not exclude.

    compare_pairs([0.45, 0.0, 0.45, 0.4, 0.5, 0.45, 0.0])
    # PairedTest(difference=0.32, low=0.15, high=0.47, p=0.03, level=0.05, pairs=7)

If the two programs were equally good, every difference could as well have had the other sign. `p` is the share of all
2^n arrangements of signs whose sum is not below the observed one. It assumes no distribution of the scores. The twelve
largest differences are arranged one by one, so up to twelve are exact and an outlier hides nothing. The others are
added in whole steps: of their decimal unit where they have one (0.01, say), which is exact too, else of at most a
thousandth of the largest among them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean
from typing import Any, Literal

import numpy as np

from rsso_dspy.bounds import MOST_DIFFERENCE, check_score

LEVEL = 0.05
"""A difference is confirmed when `p` is below this."""

FLIPPED = 0.28
"""Share of variants on which two equally good programs score differently (embedded backend, rollouts of two trials)."""
FLIP = 0.45
"""By how much they then differ, on the scale of 0 to 1."""

_ONE_BY_ONE = 12
"""The largest differences, whose arrangements are counted one by one."""
_GRID = 1000
"""Steps at least that the largest of the others is divided into; `compute_p` adds whole steps."""
_CELLS = 40_000
"""Steps that the others together may take: where they are few or uneven, the grid is finer."""
_UNITS = (1.0, 0.1, 0.01, 0.001, 0.0001)
"""Units that scores are often whole multiples of."""
_FEWEST_EQUAL = 6
"""Differences that are all equal give no interval when they are fewer: it would have no width."""
_HALVINGS = 24

Verdict = Literal["confirmed", "unconfirmed", "not better"]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Second program minus first, over pairs."""

    difference: float
    """Mean."""
    low: float | None
    high: float | None
    """Differences that the test does not exclude in either direction: an interval of 1 - 2 `level`. None when there are
    too few pairs to exclude any, or fewer than six that are all equal."""
    p: float
    """One-sided: the probability that two equally good programs differ by as much or more."""
    level: float
    pairs: int

    @property
    def verdict(self) -> Verdict:
        """`confirmed` when `p` is below the level, `not better` when the mean is not above 0."""
        if self.difference <= 0:
            return "not better"
        return "confirmed" if self.p < self.level else "unconfirmed"


def compare_pairs(differences: Sequence[float], level: float = LEVEL) -> PairedTest:
    """The test over these differences, one a pair. Raises `ValueError` without any, and what `compute_p` raises."""
    if not differences:
        raise ValueError("no pairs to test")
    p = compute_p(differences)
    mean = fmean(differences)
    narrow = len(differences) < _FEWEST_EQUAL and len(set(differences)) == 1
    fallen, high = (
        None if narrow else _find_upper_bound(each, level) for each in ([-d for d in differences], differences)
    )
    low = None if fallen is None else -fallen
    return PairedTest(mean, low, high, p, level, len(differences))


def compute_p(differences: Sequence[float]) -> float:
    """One-sided p of the sign-flip test: exact for up to twelve differences, then as near as the others' grid.

    Raises `UsageError` for a difference that is not finite or too large, with its number from 1.
    """
    names = ((each, "difference of pair", number) for number, each in enumerate(differences, 1))
    return _compute_p([check_score(*each, most=MOST_DIFFERENCE) for each in names])


def _compute_p(differences: Sequence[float]) -> float:
    given = np.asarray(sorted(differences, key=abs, reverse=True), dtype=float)
    sizes = np.abs(given)
    if not sizes.any():
        return 1.0
    if step := _choose_step(given):  # large ones too in whole steps, so that sums which are equal stay equal
        given, sizes = np.rint(given / step), np.rint(sizes / step)
    share = _share_by_sum(sizes[_ONE_BY_ONE:].astype(int))
    at_least = np.append(np.cumsum(share[::-1])[::-1], 0.0)
    sums = np.zeros(1)
    for size in sizes[:_ONE_BY_ONE]:
        sums = np.concatenate([sums + size, sums - size])
    slack = 1e-9 * float(sizes.sum())
    needed = np.ceil(given.sum() - sums - slack + (len(share) - 1) / 2)
    return float(min(1.0, at_least[np.clip(needed, 0, len(share)).astype(int)].mean()))


def _choose_step(given: Any) -> float:
    """The width of the grid for all but the largest; 0 if there are no others."""
    rest = np.abs(given[_ONE_BY_ONE:])
    if not rest.any():
        return 0.0
    for unit in _UNITS:
        if rest.sum() <= _CELLS * unit and np.allclose(given / unit, np.rint(given / unit), rtol=0, atol=1e-6):
            return unit
    return float(min(rest[0] / _GRID, rest.sum() / _CELLS))


def _share_by_sum(sizes: Any) -> Any:
    """The share of arrangements by their sum, from the lowest sum on; one arrangement of nothing."""
    share = np.zeros(2 * int(sizes.sum()) + 1)
    share[0] = 1.0
    reached = 0
    for size in sizes[sizes > 0]:
        moved = np.zeros_like(share)
        moved[2 * size : reached + 2 * size + 1] = share[: reached + 1]
        share = (share + moved) / 2
        reached += 2 * int(size)
    return share


def _find_upper_bound(differences: Sequence[float], level: float) -> float | None:
    """The smallest gain that these differences rule out, found by bisection. None when there are too few of them."""
    inside, outside = fmean(differences), max(differences) + 1e-9
    if 0.5 ** len(differences) >= level:
        return None
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if _compute_p([middle - each for each in differences]) < level:
            outside = middle
        else:
            inside = middle
    return outside


@dataclass(frozen=True, slots=True)
class Discordance:
    """How much two equally good programs differ from variant to variant."""

    flipped: float = FLIPPED
    """Share of variants on which they score differently."""
    by: float = FLIP
    """Root mean square of the difference there."""

    @classmethod
    def measure(cls, differences: Sequence[float]) -> "Discordance | None":
        """The discordance of these differences; None when there are fewer than ten."""
        if len(differences) < 10:
            return None
        flips = [each for each in differences if abs(each) >= 0.05]
        return cls(len(flips) / len(differences), sqrt(fmean(each * each for each in flips)) if flips else 0.0)

    @property
    def deviation(self) -> float:
        """Standard deviation of one paired difference."""
        return self.by * sqrt(self.flipped)


USUAL = Discordance()
