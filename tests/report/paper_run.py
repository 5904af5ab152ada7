"""A run of 164 variants and four arms whose points give the rows of rSSO's Table 2."""

from rsso_dspy.records import UnitRecord
from rsso_dspy.report.published import METHODS, load_published_tables
from tests.records import record


def play_table_2() -> list[UnitRecord]:
    """Units whose points, whole numbers, have the published mean of every task type and arm."""
    units = []
    for row in load_published_tables()["table2"]:
        for method in METHODS:
            least, rest = divmod(round(row[method] * row["n"]), row["n"])
            for index in range(row["n"]):
                units.append(record(method, row["task"], index, [[least + (index < rest)]], allowed=5))
    return units
