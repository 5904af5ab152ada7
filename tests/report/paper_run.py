"""Runs that have the numbers of the sources: 164 variants whose points give rSSO's tables and Figure 2, and 134
environments of which as many are solved as the notes on Reflexion say."""

from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.records import UnitRecord
from rsso_dspy.report.published import METHODS, load_published_tables
from tests.records import record

REFLEXION = (0.34, 0.52, 0.63, 0.71, 0.75, 0.78, 0.79, 0.80, 0.80, 0.81)
BASELINE = (0.34, 0.36, 0.36, 0.37, 0.37, 0.37, 0.37, 0.37, 0.37, 0.37)
"""Accuracy after each trial in the notes on Reflexion; of the baseline, the best so far."""

CURVES = {  # points of 164 variants together that have the means of rSSO's Figure 2, by method
    "reflexion": (9573, 11355),
    "sso": (12349, 12567, 12721, 12807, 13031),
    "rsso": (12311, 13856, 14071, 14358, 14499),
}


def play_curve(method: str) -> list[UnitRecord]:
    """Units whose best of t has the published means."""
    points = [spread_points(total, 164) for total in CURVES[method]]
    return [
        record(method, "boil", index, [[trial[index]] for trial in points], allowed=len(points)) for index in range(164)
    ]


def play_accuracies(arm: str, accuracies: Sequence[float]) -> list[UnitRecord]:
    """Units of 134 environments that are solved as often."""
    return play_successes(arm, [round(134 * accuracy) for accuracy in accuracies])


def play_table_2() -> list[UnitRecord]:
    """Units whose points, whole numbers, have the published mean of every task type and arm."""
    return [
        record(method, row["task"], index, [[points]], allowed=5)
        for row in load_published_tables()["table2"]
        for method in METHODS
        for index, points in enumerate(_spread(row, method))
    ]


def play_reflexion() -> list[UnitRecord]:
    """Units of Reflexion whose first trial has the points of ReAct, and whose second has those of Reflexion."""
    return [
        record("reflexion", row["task"], index, [[first], [second]], allowed=5)
        for row in load_published_tables()["table2"]
        for index, (first, second) in enumerate(zip(_spread(row, "react"), _spread(row, "reflexion"), strict=True))
    ]


def _spread(row: Mapping[str, Any], method: str) -> list[int]:
    """Points of each variant of a task type that have its published mean."""
    return spread_points(round(row[method] * row["n"]), row["n"])


def spread_points(total: int, variants: int) -> list[int]:
    """Points of each variant, as equal as whole numbers can be."""
    least, rest = divmod(total, variants)
    return [least + (index < rest) for index in range(variants)]


def play_successes(arm: str, solved: Sequence[int], of: int = 134, task: str = "env") -> list[UnitRecord]:
    """Units of which so many are solved after each trial."""
    units = []
    for index in range(of):
        trials = [[100] if index < count else [0] for count in solved]
        played = trials[: trials.index([100]) + 1] if [100] in trials else trials
        units.append(record(arm, task, index, played, allowed=len(solved)))
    return units
