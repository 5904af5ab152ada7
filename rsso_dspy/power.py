"""What a comparison of some size can find, by the noncentral t distribution.

compute_detectable_difference(error=5.0, freedom=13)       # 15.1 points
"""

LEVEL, POWER = 0.95, 0.80
MARGIN = 10.0  # points from which a difference matters, unless the user says another number
UNIT_SPREAD = 50.0
"""Assumed standard deviation, in points, of the difference between two arms on one unit: equal arms of a small model at
a temperature differed by 47 to 57."""
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


def forecast_detectable_difference(task_types: int, units: int) -> float:
    """Return the difference that a run can find, in points, if units differ by `UNIT_SPREAD`: with that many task types
    and, in all, units of each arm."""
    return compute_detectable_difference(UNIT_SPREAD / units**0.5, task_types - 1)
