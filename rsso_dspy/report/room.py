"""What part of the room a memory fills: of the points between an arm without it and a ceiling, such as rules that a
person wrote down.

    measure_room("react", "react+constitution+hand", {"react": units, "react+constitution+hand": units, ...})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from rsso_dspy.power import LEVEL
from rsso_dspy.records import UnitRecord
from rsso_dspy.report import metrics
from rsso_dspy.report.metrics import UnitKey, get_best_accumulator

HIGHEST_BOTTOM = 80.0  # mean points of the arm without a memory above which hardly anything is left to gain
LOWEST_CEILING = 40.0  # mean points of the ceiling below which what the rules say is not what is lacking
FEWEST_TYPES = 3  # task types without which a share has no interval


@dataclass(frozen=True, slots=True)
class RoomShare:
    """An arm's gain as a part of the ceiling's gain: 1 where it earns as much as the ceiling."""

    arm: str
    gain: float  # points above the bottom
    share: float
    interval: tuple[float, float] | None
    """95%, over task types; None where the ceiling's gain is not known to be above 0."""


@dataclass(frozen=True, slots=True)
class Room:
    """The room between two arms, on the units that all arms finished by as many first trials as all may play."""

    bottom: str  # the arm without a memory
    ceiling: str
    units: int
    trials: int
    lowest: float  # mean points of the bottom
    highest: float  # mean points of the ceiling
    shares: tuple[RoomShare, ...]  # of the other arms; none where the ceiling is not above the bottom

    @property
    def objection(self) -> str:
        """Why these units cannot tell what a memory is worth; empty where they can."""
        if self.lowest > HIGHEST_BOTTOM:
            return f"{self.bottom} earns {self.lowest:.1f} of 100 points by itself, more than {HIGHEST_BOTTOM:g}"
        if self.highest < LOWEST_CEILING:
            return f"the ceiling, {self.ceiling}, earns {self.highest:.1f} of 100 points, less than {LOWEST_CEILING:g}"
        if self.highest <= self.lowest:
            return f"the ceiling, {self.ceiling}, is not above {self.bottom}"
        return ""


def measure_room(bottom: str, ceiling: str, arms: Mapping[str, Sequence[UnitRecord]]) -> Room | None:
    """Measure the room between two of these arms, and what part of it each other arm fills; None without a unit that
    all arms finished."""
    points = _list_shared_points(arms)
    if points is None:
        return None

    room = Room(
        bottom=bottom,
        ceiling=ceiling,
        units=len(points.keys),
        trials=points.trials,
        lowest=fmean(points.by_arm[bottom]),
        highest=fmean(points.by_arm[ceiling]),
        shares=(),
    )
    if room.highest <= room.lowest:
        return room

    other_arms = [arm for arm in arms if arm not in (bottom, ceiling)]
    shares = [_measure_share(arm, room, points) for arm in other_arms]
    return replace(room, shares=tuple(shares))


@dataclass(frozen=True, slots=True)
class _SharedPoints:
    """Points of the units that all arms finished, each the best of as many first trials."""

    keys: Sequence[UnitKey]
    trials: int
    by_arm: Mapping[str, Sequence[float]]  # in the order of the keys

    def sum_gains(self, first: str, second: str) -> list[float]:
        """Return the sum of the gains of the second arm over the first, for each task type."""
        pairs = zip(self.by_arm[first], self.by_arm[second], strict=True)
        gains_by_type: dict[str, float] = {}
        for (task, _variant, _seed), (first_points, second_points) in zip(self.keys, pairs, strict=True):
            gains_by_type[task] = gains_by_type.get(task, 0.0) + second_points - first_points
        return list(gains_by_type.values())


def _list_shared_points(arms: Mapping[str, Sequence[UnitRecord]]) -> _SharedPoints | None:
    units_by_arm: dict[str, dict[UnitKey, UnitRecord]] = {}
    for arm, records in arms.items():
        scored = metrics.select_scored_units(records)
        units_by_arm[arm] = {metrics.get_unit_key(record): record for record in scored}

    keys_by_arm = [set(units) for units in units_by_arm.values()]
    keys = sorted(set.intersection(*keys_by_arm))
    if not keys:
        return None

    scored_by_arm = [list(units.values()) for units in units_by_arm.values()]
    trials = min(metrics.list_allowed_trials(scored_by_arm))
    points_by_arm: dict[str, list[float]] = {}
    for arm, units in units_by_arm.items():
        points_by_arm[arm] = [get_best_accumulator(units[key], trials) for key in keys]
    return _SharedPoints(keys, trials, points_by_arm)


def _measure_share(arm: str, room: Room, points: _SharedPoints) -> RoomShare:
    gain = fmean(points.by_arm[arm]) - room.lowest
    ceiling_gain = room.highest - room.lowest

    gains = points.sum_gains(room.bottom, arm)
    ceiling_gains = points.sum_gains(room.bottom, room.ceiling)
    interval = estimate_ratio(gains, ceiling_gains)
    return RoomShare(arm, gain, gain / ceiling_gain, interval)


def estimate_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% interval of a ratio of sums over clusters: the ratios that a t test of ``numerator - ratio x
    denominator`` does not reject (Fieller 1954). None where it would have no ends, as the denominators themselves are
    not off 0; and where it would have no width, as all clusters have the same ratio: that does not show how much others
    would differ."""
    from scipy.stats import t

    count = len(numerators)
    if count < FEWEST_TYPES:
        return None

    above = np.asarray(numerators, dtype=float)
    below = np.asarray(denominators, dtype=float)
    covariances = np.cov(above, below) / count
    critical = float(t.ppf((1 + LEVEL) / 2, count - 1)) ** 2

    square = float(below.mean()) ** 2 - critical * float(covariances[1, 1])
    middle = float(above.mean() * below.mean()) - critical * float(covariances[0, 1])
    rest = float(above.mean()) ** 2 - critical * float(covariances[0, 0])
    if square <= 0:
        return None

    reach = max(middle**2 - square * rest, 0.0) ** 0.5
    if np.allclose(above, below * (middle / square), atol=1e-9):
        return None
    return (middle - reach) / square, (middle + reach) / square
