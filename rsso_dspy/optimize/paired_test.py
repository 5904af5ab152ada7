"""What paired differences allow to be said of two programs that met the same variants: a one-sided sign-flip test, and
the interval that the same test leaves.

    compare_pairs([0.45, 0.0, 0.45, 0.4, 0.5, 0.45, 0.0])
    # PairedTest(difference=0.32, low=0.15, high=0.47, p=0.03, level=0.05, pairs=7)

If the two programs were equally good, every difference could as well have had the other sign. `p` is the share of all
2^n arrangements of signs whose sum is not below the one seen: exact, and without a guess about how scores are spread.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist, fmean
from typing import Literal

import numpy as np

LEVEL = 0.05
"""A difference is confirmed when `p` is below this."""

FLIPPED = 0.28
"""Share of variants on which two equally good programs score differently (embedded backend, rollouts of two trials)."""
FLIP = 0.45
"""By how much they then differ, on the scale of 0 to 1."""
POWER = 0.80
"""How often a gain is to be confirmed that is called confirmable: in four of five compiles."""

_GRID = 1000
"""Steps that the largest difference is divided into: the metric is compared in thousandths."""
_HALVINGS = 24

Verdict = Literal["confirmed", "unconfirmed", "not better"]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Second program minus first, over pairs."""

    difference: float
    """Mean."""
    low: float | None
    high: float | None
    """What the test, turned either way, does not exclude: an interval of 1 - 2 `level`. None when so few pairs exclude
    nothing."""
    p: float
    """One-sided: that two equally good programs would differ as much or more."""
    level: float
    pairs: int

    @property
    def verdict(self) -> Verdict:
        """`confirmed` when `p` is below the level, `not better` when the mean is not above 0."""
        if self.difference <= 0:
            return "not better"
        return "confirmed" if self.p < self.level else "unconfirmed"


def compare_pairs(differences: Sequence[float], level: float = LEVEL) -> PairedTest:
    """The test over these differences, one a pair. Raises `ValueError` without any."""
    if not differences:
        raise ValueError("no pairs to test")
    mean = fmean(differences)
    fallen, high = (_find_upper_bound(each, level) for each in ([-d for d in differences], differences))
    low = None if fallen is None else -fallen
    return PairedTest(mean, low, high, compute_p(differences), level, len(differences))


def compute_p(differences: Sequence[float]) -> float:
    """One-sided p of the sign-flip test, counted sum by sum on a grid."""
    largest = max(map(abs, differences), default=0.0)
    if largest <= 0:
        return 1.0
    steps = np.rint(np.asarray(differences, dtype=float) * (_GRID / largest)).astype(int)
    sizes = np.abs(steps)
    share = np.zeros(2 * int(sizes.sum()) + 1)  # of arrangements, by their sum from the lowest one
    share[0] = 1.0
    reached = 0
    for size in sizes[sizes > 0]:
        moved = np.zeros_like(share)
        moved[2 * size : reached + 2 * size + 1] = share[: reached + 1]
        share = (share + moved) / 2
        reached += 2 * int(size)
    return float(min(1.0, share[int(steps.sum() + sizes.sum()) :].sum()))


def _find_upper_bound(differences: Sequence[float], level: float) -> float | None:
    """The smallest gain that these differences rule out: where the test of "it is less than that" turns. None when
    there are too few of them."""
    inside, outside = fmean(differences), max(differences) + 1e-9
    if 0.5 ** len(differences) >= level:
        return None
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if compute_p([middle - each for each in differences]) < level:
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
        """Of these differences; None when they are too few to tell."""
        if len(differences) < 10:
            return None
        flips = [each for each in differences if abs(each) >= 0.05]
        return cls(len(flips) / len(differences), sqrt(fmean(each * each for each in flips)) if flips else 0.0)

    @property
    def deviation(self) -> float:
        """Standard deviation of one paired difference."""
        return self.by * sqrt(self.flipped)


USUAL = Discordance()


def find_smallest_gain(pairs: int, seeds: int = 1, usual: Discordance = USUAL, level: float = LEVEL) -> float | None:
    """The smallest true gain that so many pairs confirm in four of five compiles; None when they can confirm nothing,
    however large it is: then even differences of one sign are no rarer than the level. Flips are taken to be
    independent from seed to seed."""
    if pairs < 1 or 0.5**pairs >= level:
        return None
    gain = (_quantile(1 - level) + _quantile(POWER)) * usual.deviation / sqrt(pairs * seeds)
    return gain if gain < 1 else None


def count_needed_pairs(gain: float, seeds: int = 1, usual: Discordance = USUAL, level: float = LEVEL) -> int:
    """Confirm variants that confirm a true gain in four of five compiles."""
    pairs = 1
    while (found := find_smallest_gain(pairs, seeds, usual, level)) is None or found > gain:
        pairs += 1
    return pairs


def _quantile(share: float) -> float:
    return NormalDist().inv_cdf(share)
