"""Two arms on the same units: the paired difference with its interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rsso_dspy.report.metrics import best_accumulator
from rsso_dspy.trajectory import UnitRecord

RESAMPLES = 10_000
LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """``second - first`` in best accumulator, over the units that both arms finished."""

    first: str
    second: str
    pairs: int
    dropped: int
    """Units that only one arm finished, or that errored in either."""
    difference: float | None
    """Mean paired difference in points; None without pairs."""
    interval: tuple[float, float] | None
    """Percentile bootstrap interval over units; None below two pairs."""
    level: float
    higher: int
    """Units on which the second arm scored higher."""
    lower: int
    tasks_higher: int
    """Task types on which the second arm's mean is higher."""
    tasks_lower: int


def paired_difference(
    first: str, ours: Sequence[UnitRecord], second: str, theirs: Sequence[UnitRecord], seed: int = 0
) -> PairedDifference:
    """Compare two arms unit by unit; the bootstrap is seeded, so the same records give the same interval."""
    before = {_unit(record): best_accumulator(record) for record in ours if not record.errored}
    after = {_unit(record): best_accumulator(record) for record in theirs if not record.errored}
    shared = sorted(before.keys() & after.keys())
    known = {_unit(record) for record in (*ours, *theirs)}
    differences = np.array([after[unit] - before[unit] for unit in shared], dtype=float)
    tasks = {task: [after[u] - before[u] for u in shared if u[0] == task] for task in sorted({u[0] for u in shared})}
    task_means = [float(np.mean(values)) for values in tasks.values()]
    return PairedDifference(
        first=first,
        second=second,
        pairs=len(shared),
        dropped=len(known) - len(shared),
        difference=float(differences.mean()) if len(shared) else None,
        interval=_interval(differences, seed) if len(shared) > 1 else None,
        level=LEVEL,
        higher=int((differences > 0).sum()),
        lower=int((differences < 0).sum()),
        tasks_higher=sum(mean > 0 for mean in task_means),
        tasks_lower=sum(mean < 0 for mean in task_means),
    )


def _unit(record: UnitRecord) -> tuple[str, int, int]:
    return record.variant.task, record.variant.index, record.seed


def _interval(values: np.ndarray, seed: int) -> tuple[float, float]:
    from scipy.stats import bootstrap

    result = bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
