"""How large a gain must be for a compile to confirm it, found by simulating confirmations.

    find_smallest_gain(53)              # 0.079: confirmed in four of five, once the candidate is chosen
    compute_power(0.126, 6)             # 0.005: even the largest gain is hardly ever confirmed by six pairs
    count_needed_pairs(0.05, seeds=3)   # 49

Programs differ as measured (`Discordance`): a share of rollouts flips, by about as much, up as often as down without a
gain, and always up at the largest gain that such flips allow. Flips are independent between variants and between seeds.
What decides is the test that decides a compile, `compute_p`.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import ceil
from statistics import NormalDist
from typing import Any

import numpy as np

from rsso_dspy.optimize.paired_test import LEVEL, USUAL, Discordance, compute_p

POWER = 0.80
"""Share of compiles that must confirm a gain for it to be called confirmable: four of five."""

DRAWS = 400
"""Confirmations that are simulated; a share of 80% is off by 2 points, as standard error."""

_SIZES = (8, 10)
"""Smallest and largest size of a flip, in ninths of the usual one: 40 to 50 points where that is 45."""
_STEP = 0.001
"""Gains are looked for in tenths of a point."""
_CRITICAL = NormalDist().inv_cdf(1 - LEVEL)
"""Where the test's answer turns, in standard deviations and for many flips."""
_BELOW, _ABOVE = (0.03, 0.7), (0.0, 2.0)
"""How far from there it may turn: so much, and so much divided by the number of differences. Elsewhere it is known."""


def compute_power(gain: float, pairs: int, seeds: int = 1, usual: Discordance = USUAL) -> float:
    """The share of simulated compiles that confirm a true gain, of 0 to 1, with so many pairs. A gain above the largest
    one that flips allow counts as that one."""
    found = _simulate(gain, pairs, seeds, usual, range(DRAWS))
    return sum(found) / DRAWS


def find_largest_gain(usual: Discordance = USUAL) -> float:
    """The largest gain that such flips allow, in whole tenths of a point: all of them go up."""
    return round(int(usual.flipped * usual.by / _STEP + 1e-9) * _STEP, 3)


@lru_cache(maxsize=256)
def find_smallest_gain(pairs: int, seeds: int = 1, usual: Discordance = USUAL) -> float | None:
    """The smallest true gain that so many pairs confirm in four of five compiles, once the candidate is chosen. None
    when they do not confirm even the largest one so often."""
    low, high = 0, round(find_largest_gain(usual) / _STEP)
    confirmed, open_draws = 0, list(range(DRAWS))  # a draw that a gain confirms is confirmed by every larger one
    at_high = _simulate(high * _STEP, pairs, seeds, usual, open_draws)
    if sum(at_high) < POWER * DRAWS:
        return None
    open_draws = [draw for draw, yes in zip(open_draws, at_high, strict=True) if yes]
    while high - low > 1:
        middle = (low + high) // 2
        found = _simulate(middle * _STEP, pairs, seeds, usual, open_draws)
        if confirmed + sum(found) >= POWER * DRAWS:
            high = middle
            open_draws = [draw for draw, yes in zip(open_draws, found, strict=True) if yes]
        else:
            low, confirmed = middle, confirmed + sum(found)
            open_draws = [draw for draw, yes in zip(open_draws, found, strict=True) if not yes]
    return round(high * _STEP, 3)


@lru_cache(maxsize=256)
def count_needed_pairs(gain: float, seeds: int = 1, usual: Discordance = USUAL) -> int | None:
    """How many confirm variants it takes to confirm a true gain in four of five compiles. None for a gain that such
    flips do not allow."""
    if not 0 < gain <= usual.flipped * usual.by + 1e-9:
        return None
    quantiles = _CRITICAL + NormalDist().inv_cdf(POWER)
    about = (quantiles * usual.deviation / gain) ** 2 / seeds  # by a normal approximation
    low, high = int(0.93 * about), max(5, ceil(1.04 * about))
    while compute_power(gain, high, seeds, usual) < POWER:
        low, high = high, ceil(1.15 * high)
    while low and compute_power(gain, low, seeds, usual) >= POWER:
        low, high = int(0.85 * low), low
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if compute_power(gain, middle, seeds, usual) >= POWER else (middle, high)
    return high


def _simulate(gain: float, pairs: int, seeds: int, usual: Discordance, draws: Iterable[int]) -> list[bool]:
    """Whether each of these draws confirms the gain."""
    if pairs < 1 or not usual.flipped or not usual.by:
        return [False for _ in draws]
    sizes, dice = _roll_dice(pairs, seeds, usual.flipped)
    up = min(1.0, 0.5 + gain / (2 * usual.flipped * usual.by))
    chosen = np.fromiter(draws, dtype=int)
    sums = np.where(dice[chosen] < up, sizes[chosen], -sizes[chosen]).sum(axis=2)
    return _decide_each(sums)


@lru_cache(maxsize=8)
def _roll_dice(pairs: int, seeds: int, flipped: float) -> tuple[Any, Any]:
    """The size of every flip (draws x pairs x seeds; 0 where nothing flips), and the dice that say which way it goes:
    the same for every gain."""
    random = np.random.default_rng((pairs, seeds))
    shape = (DRAWS, pairs, seeds)
    sizes = random.integers(*_SIZES, shape, endpoint=True) * (random.random(shape) < flipped)
    return sizes, random.random(shape)


def _decide_each(rows: Any) -> list[bool]:
    """Whether the test confirms each of these rows of differences. It is asked where its answer is not plain."""
    count = (rows != 0).sum(axis=1)
    z = rows.sum(axis=1) / np.sqrt(np.maximum((rows**2).sum(axis=1), 1))
    low, high = (_CRITICAL + sign * (a + b / np.maximum(count, 1)) for sign, (a, b) in ((-1, _BELOW), (1, _ABOVE)))
    able = 0.5**count < LEVEL
    found = able & (z > high)
    for place in np.flatnonzero(able & (low < z) & (z <= high)):
        row = rows[place]
        found[place] = _ask_test(tuple(sorted(row[row != 0].tolist())))
    return list(map(bool, found))


@lru_cache(maxsize=20_000)
def _ask_test(differences: tuple[int, ...]) -> bool:
    return compute_p(differences) < LEVEL
