"""Rows of our own runs beside Reflexion's tables.

build_own_tables([measure_own_row(benchmark, records)])
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rsso_dspy.records import UnitRecord
from rsso_dspy.report import cells
from rsso_dspy.report.cells import Cell
from rsso_dspy.report.learning_curves import compute_learning_curve
from rsso_dspy.report.success import compute_success
from rsso_dspy.report.table_data import Sheet

SHARE = 75
"""Percentage of variants whose number of trials is printed, one of `learning_curves.LEVELS`."""


@dataclass(frozen=True, slots=True)
class OwnSuccess:
    """One arm."""

    benchmark: str
    protocol: str
    model: str
    arm: str
    units: int
    accuracy: tuple[float, ...]
    """Variants solved in trial 1, 2, ... or before, as a share of all, 0 to 1; empty without scored units."""
    trials_to_75: int | None
    """Trials after which 75% of the variants were solved; None if they never were."""


def measure_own_row(benchmark: str, records: Sequence[UnitRecord]) -> OwnSuccess:
    """Measure the records of one arm on this benchmark, which must not be empty."""
    first = records[0]
    found = compute_success(first.arm, records)
    return OwnSuccess(
        benchmark,
        first.protocol,
        first.model,
        first.arm,
        found.units,
        tuple(trial.accuracy for trial in found.trials),
        compute_learning_curve(first.arm, records).trials_to[SHARE],
    )


def build_own_tables(rows: Sequence[OwnSuccess]) -> tuple[Sheet, Sheet]:
    """Final success, and accuracy trial by trial, with the columns of the published tables."""
    final, by_trial = [], []
    most = max((len(row.accuracy) for row in rows), default=0)
    for row in rows:
        names = tuple(map(cells.format_text, (row.benchmark, row.arm, row.model)))
        last = cells.format_percent(row.accuracy[-1] if row.accuracy else None)
        trials = Cell("never") if row.trials_to_75 is None else cells.format_count(row.trials_to_75)
        final.append((*names, cells.format_count(row.units), last, trials, cells.format_text(row.protocol)))
        shares = [Cell(f"{share:.2f}", share) for share in row.accuracy]
        by_trial.append((names[1], *shares, *[Cell("")] * (most - len(shares))))
    return (
        Sheet(
            "ours_final",
            "Ours: final success",
            ("benchmark", "method", "model", "variants", "success", f"trials to {SHARE}%", "protocol"),
            tuple(final),
            ("The figures above are other models' on other prompts: beside ours for orientation, not for comparison.",),
        ),
        Sheet(
            "ours_by_trial",
            "Ours: accuracy, trial by trial",
            ("method", *map(str, range(1, most + 1))),
            tuple(by_trial),
            (
                "Ours count a variant as solved from its first success on, and do not play it again. The react row "
                "above falls from one trial to the next, so it counts each trial by itself.",
            ),
        ),
    )
