"""What a comparison of some size can find, by the noncentral t distribution.

compute_detectable_difference(error=5.0, freedom=13)       # 15.1 points
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

LEVEL, POWER = 0.95, 0.80
MARGIN = 10.0  # points from which a difference matters, unless the user says another number
UNIT_SPREAD = 50.0
"""Assumed standard deviation, in points, of the difference between two arms on one unit: equal arms of a small model at
a temperature differed by 47 to 57."""
MOST_UNITS = 1000  # of variants, task types or seeds that a design may have
FEWEST_TYPES = 6  # that must differ for a single test to be significant, see `sign_flips.count_needed_differences`
TO_FIND = (10.0, 5.0)  # points that a next run is planned for
MOST_NONCENTRALITY = 60.0  # up to which a solution is looked for: enough for two clusters


def compute_detectable_difference(error: float, freedom: float, power: float = POWER) -> float:
    """Return the smallest difference that a two-sided t test at the 5% level finds in a share `power` of such runs.

    `error` is the standard error of the mean difference, in points; `freedom`, at least 1, is its degrees of freedom:
    one less than the independent means that it was computed from."""
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    critical = float(t.ppf(1 - (1 - LEVEL) / 2, freedom))

    def exceed_power(noncentrality: float) -> float:
        return float(nct.sf(critical, freedom, noncentrality)) - power  # the other tail holds next to nothing

    return float(brentq(exceed_power, 0.0, MOST_NONCENTRALITY)) * error


@dataclass(frozen=True, slots=True)
class Spread:
    """How much a difference between two arms varies, as standard deviations in points."""

    types: float = 0.0  # of the true differences of task types
    units: float = UNIT_SPREAD  # of units within their type, chance in playing them included
    trial: float | None = None  # between two equal arms in a trial of one unit, where that is known


@dataclass(frozen=True, slots=True)
class Design:
    """The size of a run: what it can find depends on each of these."""

    task_types: int
    variants: int  # of each type
    seeds: int = 1  # of each variant
    more: str = ""  # what it has more of than another run

    @property
    def units(self) -> int:
        """Units of each arm."""
        return self.task_types * self.variants * self.seeds


ASSUMED = Spread()


def forecast_detectable_difference(design: Design, spread: Spread = ASSUMED) -> float:
    """Return the difference, in points, that a run of this size finds in four of five cases."""
    return compute_detectable_difference(compute_error(design, spread), design.task_types - 1)


def compute_error(design: Design, spread: Spread) -> float:
    """Return the standard error of a mean difference, in points. More seeds lessen chance in playing a unit alone
    (two-stage sampling: Cochran 1977, chapter 10)."""
    chance = min(spread.trial or 0.0, spread.units) ** 2
    within = spread.units**2 - chance + chance / design.seeds
    return float(((spread.types**2 + within / design.variants) / design.task_types) ** 0.5)


def list_larger_designs(
    design: Design, spread: Spread, points: float, fewest_types: int = FEWEST_TYPES
) -> tuple[Design, ...]:
    """Return the runs that find a difference of so many points, each with more of one thing than `design`: variants of
    a type, task types, or seeds of a variant where the noise of a trial is known. What no number of it finds is left
    out: variants and seeds where there are fewer task types than a test needs. Nothing if `design` finds it."""
    if not spread.units:
        return ()  # no unit differed, so nothing is known of how much others would
    has_enough_types = design.task_types >= fewest_types
    if has_enough_types and forecast_detectable_difference(design, spread) <= points:
        return ()

    def add_types(number: int) -> Design:
        return replace(design, task_types=number, more="task types")

    def add_variants(number: int) -> Design:
        return replace(design, variants=number, more="variants")

    def add_seeds(number: int) -> Design:
        return replace(design, seeds=number, more="seeds")

    designs = [_find_smallest(add_types, max(design.task_types, fewest_types), spread, points)]
    if has_enough_types:
        designs.insert(0, _find_smallest(add_variants, design.variants, spread, points))
        if spread.trial is not None:
            designs.append(_find_smallest(add_seeds, design.seeds, spread, points))
    return tuple(design for design in designs if design)


def _find_smallest(resize: Callable[[int], Design], least: int, spread: Spread, points: float) -> Design | None:
    """Return the smallest design of `least` of something, or more, that finds a difference of so many points; None
    where `MOST_UNITS` do not."""
    upper = max(least, MOST_UNITS)
    if forecast_detectable_difference(resize(upper), spread) > points:
        return None
    while least < upper:
        middle = (least + upper) // 2
        if forecast_detectable_difference(resize(middle), spread) <= points:
            upper = middle
        else:
            least = middle + 1
    return resize(least)
