"""The exact sign-flip test of paired differences: were two arms equally good, every difference could as well have had
the other sign. p is the share of all 2^n arrangements of signs whose sum is not below the observed one.

compute_one_sided_p([20, 0, 35, 100])       # 0.125: of the second over the first
compute_two_sided_p([20, 0, 35, 100])       # 0.25: of any difference between both
count_needed_differences(4)                 # 8: with fewer, no p of four tests is significant

The twelve largest differences are arranged one by one, so that an outlier hides nothing; the others are added in whole
steps, of their decimal unit where they have one, else of at most a thousandth of the largest of them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

SIGNIFICANT = 0.05

_ONE_BY_ONE = 12  # the largest differences, whose arrangements are counted one by one
_GRID, _CELLS = 1000, 40_000  # steps that the largest of the others is divided into, and that all together may take
_UNITS = (1.0, 0.1, 0.01, 0.001, 0.0001)  # that scores are often whole multiples of


def compute_two_sided_p(differences: Sequence[float]) -> float:
    """Return the probability that two equally good arms differ by as much or more, in either direction."""
    total = float(np.sum(np.asarray(differences, dtype=float)))
    toward = differences if total >= 0 else [-difference for difference in differences]
    return min(1.0, 2 * compute_one_sided_p(toward))


def count_needed_differences(tests: int = 1, level: float = SIGNIFICANT) -> int:
    """Return how many differences, at least, must not be 0 for a two-sided p that is significant at `level` after the
    correction for so many tests: where all of n have one sign, p is 2 / 2^n."""
    needed = 1
    while 2 * 0.5**needed * max(tests, 1) > level:
        needed += 1
    return needed


def compute_one_sided_p(differences: Sequence[float]) -> float:
    """Return the probability that the second of two equally good arms is as much better, or more."""
    ordered = np.asarray(sorted(differences, key=abs, reverse=True), dtype=float)
    sizes = np.abs(ordered)
    if not sizes.any():
        return 1.0

    step = _choose_step(ordered)
    if step:  # large ones too in whole steps, so that sums which are equal stay equal
        ordered = np.rint(ordered / step)
        sizes = np.rint(sizes / step)

    share = np.ones(1)  # of arrangements of all but the largest, by their sum, from the lowest sum on
    for size in sizes[_ONE_BY_ONE:].astype(int):
        up_or_down = np.zeros(len(share) + 2 * size)
        up_or_down[: len(share)] += share
        up_or_down[2 * size :] += share
        share = up_or_down / 2
    at_least = np.append(np.cumsum(share[::-1])[::-1], 0.0)

    sums = np.zeros(1)
    for size in sizes[:_ONE_BY_ONE]:
        sums = np.concatenate([sums + size, sums - size])
    slack = 1e-9 * float(sizes.sum())
    needed = np.ceil(ordered.sum() - sums - slack + (len(share) - 1) / 2)
    return float(min(1.0, at_least[np.clip(needed, 0, len(share)).astype(int)].mean()))


def _choose_step(given: Any) -> float:
    """Return the width of the grid for all but the largest differences; 0 if there are no others."""
    rest = np.abs(given[_ONE_BY_ONE:])
    if not rest.any():
        return 0.0
    for unit in _UNITS:
        if rest.sum() <= _CELLS * unit and np.allclose(given / unit, np.rint(given / unit), rtol=0, atol=1e-6):
            return unit
    return float(min(rest[0] / _GRID, rest.sum() / _CELLS))
