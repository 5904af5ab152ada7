"""Tests of two arms that hold however often one looks at announced rounds. A round is one unit of every task type.

    follow_rounds(differences, announced=10)            # Course(rounds=4, mean=3.6, low=-10.0, high=17.0, ...)

Differences are ``second - first`` in points, an array of task types by rounds, nan where the environment refused the
unit. Like a report's verdicts, all of this is about other task types: their means are what varies.

- *Better* or *worse*: group-sequential sign flips. Were two arms equally good, the differences of a type could as well
  have had the other sign, in all rounds at once, since its units are alike. Every arrangement of signs is followed
  through the same looks, and the level is spent over them (O'Brien and Fleming 1979; Lan and DeMets 1983).
- *No gain of m points or more*: two tests have to say so. Money is bet on every unit's difference being below m, and
  grows past 1 / level with a chance of at most the level, whenever one looks (Ville 1939; Waudby-Smith and Ramdas
  2024). It knows of no types that vary, so that a t test over the means of types, its level spent over the looks, has
  to agree.

The gains that are not ruled out from above nor from below are the *always valid* interval.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from rsso_dspy.report.intervals import FEWEST_UNLIKE, MOST_POINTS
from rsso_dspy.sign_flips import SIGNIFICANT

Array = Any
"""A numpy array."""

Direction = Literal["better", "worse"]

MOST_ARRANGED = 17
"""Task types up to which all arrangements of signs are followed, 2^(types - 1); of more, as many are drawn."""
SEED = 0
MARGINS = np.arange(1 - MOST_POINTS, MOST_POINTS)  # gains, in points, that are ruled out or not
BETS = np.linspace(0.04, 0.96, 24)  # shares of the largest bet that cannot ruin; money is spread over them evenly
TIE = 1e-9  # sums this near are equal


@dataclass(frozen=True, slots=True)
class Course:
    """What is known of ``second - first`` after each round. All differences are in points."""

    rounds: int  # that were looked at
    announced: int
    mean: float  # over all units of these rounds
    lows: tuple[float, ...]  # lower end of the always valid interval after each round, itself ruled out unless -100
    highs: tuple[float, ...]  # upper end, itself ruled out unless 100
    direction: Direction | None = None  # of a crossing of the sign flips
    crossed: int = 0  # round after which they crossed; 0: not

    @property
    def low(self) -> float:
        return self.lows[-1]

    @property
    def high(self) -> float:
        return self.highs[-1]

    @property
    def holds_zero(self) -> bool:
        """Whether the interval, which comes of other tests than the sign flips, holds a difference of 0. Its ends are
        ruled out themselves."""
        return self.low < 0 < self.high

    def find_ruled_out(self, margin: float) -> int:
        """Return the round after which a gain of `margin` points or more was ruled out; 0 if it is not."""
        return next((number for number, high in enumerate(self.highs, 1) if high <= margin and high < MOST_POINTS), 0)

    def rules_out_loss(self, margin: float) -> bool:
        """Whether a loss of `margin` points or more is ruled out."""
        return -self.low <= margin and -self.low < MOST_POINTS


def follow_rounds(
    differences: Array, announced: int, level: float = SIGNIFICANT, margins: Array = MARGINS
) -> Course | None:
    """Return the course of a comparison over complete rounds; None before the first.

    `differences` has the shape (task types, rounds so far); `level` is two-sided, half of it for either end of the
    interval; `margins`, ascending and inside of -100 and 100 points, are the candidates for its ends."""
    values = np.asarray(differences, dtype=float)
    rounds = values.shape[1]
    if not rounds or np.isnan(values).all():
        return None

    highs = _bound_from_above(values, announced, level / 2, margins)
    lows = [0.0 - bound for bound in _bound_from_above(-values, announced, level / 2, margins)]
    crossed = find_crossing(values, announced, level)
    up = crossed > 0 and np.nansum(values[:, :crossed]) > 0
    direction: Direction | None = None if not crossed else "better" if up else "worse"
    return Course(rounds, announced, float(np.nanmean(values)), tuple(lows), tuple(highs), direction, crossed)


def spend_level(share: float, level: float) -> float:
    """Return how much of a two-sided level is spent when this share of the rounds, above 0, is played.

    2 - 2 Phi(z / sqrt(share)) (O'Brien and Fleming's, by Lan and DeMets): little at first, all of it at the end."""
    from scipy.stats import norm

    return float(2 * norm.sf(norm.isf(level / 2) / share**0.5))


def find_crossing(differences: Array, announced: int, level: float = SIGNIFICANT) -> int:
    """Return the round after which equally good arms are ruled out; 0 if they are not.

    After each round, those arrangements of signs leave whose sum is among the largest that the spent level allows; the
    observed one crosses when it leaves. Arrangements that tie leave together or not at all."""
    values = np.nan_to_num(np.asarray(differences, dtype=float))
    sums = np.abs(_arrange_signs(len(values)) @ np.cumsum(values, axis=1))  # arrangements x rounds
    is_out = np.zeros(len(sums), dtype=bool)
    for number, sizes in enumerate(sums.T, 1):
        allowed = int(spend_level(number / announced, level) * len(sizes)) - int(is_out.sum())
        staying = sizes[~is_out]
        if allowed <= 0 or not len(staying):
            continue

        bound = -np.inf
        if allowed < len(staying):
            bound = np.partition(staying, len(staying) - allowed - 1)[len(staying) - allowed - 1]
        leaves = ~is_out & (sizes > max(bound, 0.0) + TIE)
        if leaves[0]:
            return number
        is_out |= leaves
    return 0


@lru_cache(maxsize=4)
def _arrange_signs(types: int) -> Array:
    """Return arrangements of signs, the observed one first, each with its opposite once."""
    count = 2 ** (min(types, MOST_ARRANGED) - 1)
    if types <= MOST_ARRANGED:
        flipped = np.arange(count)[:, None] >> np.arange(types)[None, :] & 1
    else:
        flipped = np.random.default_rng(SEED).integers(0, 2, size=(count, types))
        flipped[0] = 0
    return 1.0 - 2.0 * flipped


def list_margins(margin: float) -> Array:
    """Return the candidates for the ends of an interval that is asked about gains of `margin` points: whole points, and
    the margin, which need not be one."""
    margins = np.union1d(MARGINS, [-margin, margin])
    return margins[np.abs(margins) < MOST_POINTS]


def _bound_from_above(values: Array, announced: int, level: float, margins: Array) -> list[float]:
    """Return, after each round, the least of the ascending `margins` that both tests rule out; else the largest
    possible difference."""
    is_bet = bet_on_no_gain(values, margins, level)
    is_tested = check_no_gain(values, margins, announced, level)
    ruled_out = is_bet & is_tested  # rounds x margins
    return [float(min(margins[row], default=MOST_POINTS)) for row in ruled_out]


def bet_on_no_gain(differences: Array, margins: Array, level: float) -> Array:
    """Return whether bets rule out a mean difference of each margin or more, after each round or before: an array of
    rounds by margins, whose ends lie inside of -100 and 100 points.

    The money is the mean over bets b of the product of 1 + b (m - d), which cannot become negative."""
    gains = np.asarray(margins, dtype=float) / MOST_POINTS
    stakes = BETS[:, None] / (1 - gains)[None, :]  # bets x margins
    rows = []
    logs = np.zeros_like(stakes)
    highest = np.full(len(gains), -np.inf)
    for column in np.asarray(differences, dtype=float).T / MOST_POINTS:
        units = column[~np.isnan(column)]
        logs = logs + np.log1p(stakes[:, :, None] * (gains[None, :, None] - units)).sum(axis=2)
        highest = np.maximum(highest, np.logaddexp.reduce(logs, axis=0) - np.log(len(BETS)))
        rows.append(highest >= -np.log(level))
    return np.array(rows)


def check_no_gain(differences: Array, margins: Array, announced: int, level: float) -> Array:
    """Return whether a one-sided t test over the means of task types rules each margin out, after each round or before:
    an array of rounds by margins.

    Where fewer than six types differ, two more are assumed, with a unit of +100 and one of -100 points, as an interval
    assumes them."""
    from scipy.stats import t

    values = np.asarray(differences, dtype=float)
    spent_level = 0.0
    rows = []
    is_out = np.zeros(len(margins), dtype=bool)
    for number in range(1, values.shape[1] + 1):
        share = spend_level(number / announced, 2 * level) / 2 - spent_level
        spent_level += share
        means = _average_types(values[:, :number])
        if len(means) > 1 and share > 0:
            error = _estimate_error(means, number)
            is_out = is_out | (np.asarray(margins) - means.mean() > t.isf(share, len(means) - 1) * error)
        rows.append(is_out)
    return np.array(rows)


def _average_types(values: Array) -> Array:
    """Return the mean of each task type of which a unit was played."""
    is_played = ~np.isnan(values).all(axis=1)
    return np.nanmean(values[is_played], axis=1)


def _estimate_error(means: Array, rounds: int) -> float:
    """Return the standard error of the mean over task types."""
    values = means
    if np.count_nonzero(np.round(means, 9)) < FEWEST_UNLIKE:
        extreme = MOST_POINTS / rounds
        values = np.append(means, [extreme, -extreme])
    return float(values.std(ddof=1) / len(values) ** 0.5)
