"""A run of 164 variants and four arms whose points give the rows of rSSO's Table 2."""

from collections.abc import Mapping
from typing import Any

from rsso_dspy.records import UnitRecord
from rsso_dspy.report.published import METHODS, load_published_tables
from tests.records import record


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
    least, rest = divmod(round(row[method] * row["n"]), row["n"])
    return [least + (index < rest) for index in range(row["n"])]
