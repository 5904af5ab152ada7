"""The report of a run as files to be kept elsewhere. They hold numbers and names, nothing that was said."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.money import PriceOf
from rsso_dspy.report.bills import Abandoned
from rsso_dspy.report.tables import report_json
from rsso_dspy.trajectory import Record, TrainingRecord, UnitRecord

COLUMNS = {
    "units": "units",
    "errored": "errored",
    "Mean": "mean",
    "+reset": "mean_with_reset",
    "env": "environment_score",
    "Solve": "solve",
    "Acc100": "acc100",
    "trial-1": "trial_1",
    "mean/trial": "mean_over_trials",
}
"""Heading to metric."""


def report_files(
    records: Sequence[UnitRecord],
    trainings: Sequence[TrainingRecord],
    price_of: PriceOf,
    abandoned: Sequence[Abandoned] = (),
    begun: Sequence[Record] = (),
) -> dict[str, str]:
    """File name to content: the report as JSON data, and its main table as Markdown. Of an error only the kind is in
    them, because its text may quote what was sent."""
    data = report_json(records, trainings, price_of, abandoned, begun)
    for each in data["errored"]:
        each["error"] = (each["error"] or "").partition(":")[0]
    return {"report.json": json.dumps(data, indent=1) + "\n", "report.md": _markdown(data)}


def _markdown(data: Mapping[str, Any]) -> str:
    lines = [_line(["arm", *COLUMNS]), _line(["---", *["---:"] * len(COLUMNS)])]
    lines += [_line([row["arm"], *(_number(row[name]) for name in COLUMNS.values())]) for row in data["arms"]]
    about = f"Protocol {', '.join(data['protocols'])}. Actor {', '.join(data['models'])}. Scores are points of 100."
    return "\n".join([*lines, "", about, *([data["note"]] if data["note"] else [])]) + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}" if isinstance(value, float) else f"{value}"
