"""What part of the room a memory fills: of the points between an arm without it and a ceiling, such as rules that a
person wrote down.

    measure_room("react", "react+constitution+hand", {"react": units, "react+constitution+hand": units, ...})
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from rsso_dspy.power import LEVEL
from rsso_dspy.records import UnitRecord
from rsso_dspy.report import metrics
from rsso_dspy.report.intervals import group_values
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
    interval: (
        tuple[float, float] | None
    )  # 95%, over task types; None where the ceiling's gain is not known to be above 0


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
    scored = {
        arm: {metrics.get_unit_key(record): record for record in metrics.select_scored_units(records)}
        for arm, records in arms.items()
    }
    shared = sorted(set.intersection(*(set(units) for units in scored.values())))
    if not shared:
        return None
    trials = min(metrics.list_allowed_trials([list(units.values()) for units in scored.values()]))
    points = {arm: [get_best_accumulator(units[key], trials) for key in shared] for arm, units in scored.items()}
    lowest, highest = fmean(points[bottom]), fmean(points[ceiling])

    shares: list[RoomShare] = []
    if highest > lowest:
        room = _sum_gains(shared, points[bottom], points[ceiling])
        for arm, own in points.items():
            if arm not in (bottom, ceiling):
                gains = _sum_gains(shared, points[bottom], own)
                gain = fmean(own) - lowest
                shares.append(RoomShare(arm, gain, gain / (highest - lowest), estimate_ratio(gains, room)))
    return Room(bottom, ceiling, len(shared), trials, lowest, highest, tuple(shares))


def _sum_gains(keys: Sequence[UnitKey], before: Sequence[float], after: Sequence[float]) -> list[float]:
    """Return the sum of the gains of each task type."""
    pairs = ((key[0], late - early) for key, early, late in zip(keys, before, after, strict=True))
    return [sum(gains) for gains in group_values(pairs).values()]


def estimate_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95% interval of a ratio of sums over clusters: the ratios that a t test of ``numerator - ratio x
    denominator`` does not reject (Fieller 1954). None where it would have no ends: where the denominators themselves
    are not off 0."""
    from scipy.stats import t

    count = len(numerators)
    if count < FEWEST_TYPES:
        return None
    above, below = np.asarray(numerators, dtype=float), np.asarray(denominators, dtype=float)
    covariances = np.cov(above, below) / count
    critical = float(t.ppf((1 + LEVEL) / 2, count - 1)) ** 2

    square = float(below.mean()) ** 2 - critical * float(covariances[1, 1])
    middle = float(above.mean() * below.mean()) - critical * float(covariances[0, 1])
    rest = float(above.mean()) ** 2 - critical * float(covariances[0, 0])
    if square <= 0:
        return None
    reach = max(middle**2 - square * rest, 0.0) ** 0.5
    return (middle - reach) / square, (middle + reach) / square
