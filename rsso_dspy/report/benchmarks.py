"""Results of a run of several benchmarks: each apart, and all together.

    found = compare_benchmarks(arms, contrasts)     # None for a run of one benchmark
    found.each[0].name, found.means["rsso"]         # "one", the mean of the benchmarks' means

Together, every benchmark counts alike, however many variants it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rsso_dspy.records import PART, UnitRecord
from rsso_dspy.report import cells
from rsso_dspy.report.cells import NOTHING, Cell
from rsso_dspy.report.comparison import Comparison, compare_arms, group_differences
from rsso_dspy.report.contrasts import Contrast
from rsso_dspy.report.metrics import ArmMetrics, compute_arm_metrics
from rsso_dspy.report.statistical_tests import LEVEL, NO_INTERVAL, BootstrapInterval, bootstrap_mean_of_means
from rsso_dspy.report.table_data import Sheet

TOGETHER = "together"


@dataclass(frozen=True, slots=True)
class BenchmarkResults:
    """One benchmark of the run: its arms, and the run's comparisons on its units alone."""

    name: str
    arms: tuple[ArmMetrics, ...]
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """``second - first``: the mean of the benchmarks' differences. None if a benchmark has no pair."""

    first: str
    second: str
    difference: float | None
    interval: BootstrapInterval | None


@dataclass(frozen=True, slots=True)
class MixedResults:
    """All benchmarks of a run."""

    each: tuple[BenchmarkResults, ...]
    means: Mapping[str, float | None]
    """Arm to the mean of its Means; None unless it has scores in every benchmark."""
    solved: Mapping[str, float | None]
    """Arm to the mean of its shares of solved units, likewise."""
    differences: tuple[MeanDifference, ...]


def compare_benchmarks(arms: Mapping[str, Sequence[UnitRecord]], contrasts: Sequence[Contrast]) -> MixedResults | None:
    """Return the results of every benchmark; None if the records name fewer than two."""
    names = sorted({unit.provenance[PART] for units in arms.values() for unit in units if PART in unit.provenance})
    if len(names) < 2:
        return None
    parts = {
        name: {arm: [unit for unit in units if unit.provenance.get(PART) == name] for arm, units in arms.items()}
        for name in names
    }
    each = tuple(
        BenchmarkResults(
            name,
            tuple(compute_arm_metrics(arm, units) for arm, units in own.items()),
            tuple(compare_arms(q.first, own[q.first], q.second, own[q.second]) for q in contrasts),
        )
        for name, own in parts.items()
    )
    rows = {arm: [row for part in each for row in part.arms if row.arm == arm] for arm in arms}
    return MixedResults(
        each,
        {arm: _average([row.mean for row in own]) for arm, own in rows.items()},
        {arm: _average([row.solve / row.units if row.units else None for row in own]) for arm, own in rows.items()},
        tuple(
            MeanDifference(
                q.first,
                q.second,
                _average([part.comparisons[place].difference for part in each]),
                bootstrap_mean_of_means(
                    {name: group_differences(own[q.first], own[q.second]) for name, own in parts.items()}
                ),
            )
            for place, q in enumerate(contrasts)
        ),
    )


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None


def build_benchmark_tables(found: MixedResults | None) -> Iterator[Sheet]:
    """Build the tables of arms and of differences, by benchmark and together."""
    if found is not None:
        yield _build_arms_table(found)
        yield _build_differences_table(found)


def _build_arms_table(found: MixedResults) -> Sheet:
    rows: list[tuple[Cell, ...]] = [
        (
            cells.format_text(row.arm),
            cells.format_text(part.name),
            cells.format_count(row.units),
            cells.format_points(row.mean),
            cells.format_points(row.macro_mean),
            cells.format_share(row.solve, row.units),
        )
        for part in found.each
        for row in part.arms
    ]
    for arm, mean in found.means.items():
        units = sum(row.units for part in found.each for row in part.arms if row.arm == arm)
        rows.append(
            (
                cells.format_text(arm, "total"),
                cells.format_text(TOGETHER, "total"),
                cells.format_count(units),
                cells.format_points(mean),
                cells.format_points(_average([r.macro_mean for p in found.each for r in p.arms if r.arm == arm])),
                cells.format_percent(found.solved[arm]),
            )
        )
    note = (
        f"{TOGETHER}: mean of the benchmarks' values, each benchmark counted alike. {NOTHING}: the arm has no score in "
        "one of them."
    )
    return Sheet(
        "benchmarks", "By benchmark", ("arm", "benchmark", "units", "Mean", "macro", "Solve"), tuple(rows), (note,)
    )


def _build_differences_table(found: MixedResults) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for place, mean in enumerate(found.differences):
        label = f"{mean.second} - {mean.first}"
        pairs = [part.comparisons[place] for part in found.each]
        rows += [
            (
                cells.format_text(label),
                cells.format_text(part.name),
                cells.format_count(pair.pairs),
                cells.format_difference(pair.difference),
                *cells.format_interval(pair.interval),
                cells.format_sign_counts(pair.higher, pair.lower),
            )
            for part, pair in zip(found.each, pairs, strict=True)
        ]
        rows.append(
            (
                cells.format_text(label, "total"),
                cells.format_text(TOGETHER, "total"),
                cells.format_count(sum(pair.pairs for pair in pairs)),
                cells.format_difference(mean.difference),
                *cells.format_interval(mean.interval),
                cells.format_sign_counts(sum(pair.higher for pair in pairs), sum(pair.lower for pair in pairs)),
            )
        )
    columns = ("second - first", "benchmark", "pairs", "points", f"{LEVEL:.0%} from", "to", "units +/-")
    notes = (
        f"{TOGETHER}: mean of the benchmarks' differences, each benchmark counted alike. Its interval draws task types "
        "within each benchmark, so it says nothing about benchmarks that were not played.",
        f"{NOTHING}: {NO_INTERVAL}. There is none together where a benchmark has none.",
    )
    return Sheet("contrasts", "Paired differences by benchmark", columns, tuple(rows), notes)


def describe_together(found: MixedResults | None, alike: bool = True) -> list[str]:
    """Describe in a sentence which arm scored highest over the benchmarks; no line for a run of one benchmark or one
    arm. `alike` is False where the arms finished different units."""
    known = {arm: mean for arm, mean in found.means.items() if mean is not None} if found else {}
    if found is None or len(known) < 2:
        return []
    top = max(known.values())
    best = " and ".join(arm for arm, mean in known.items() if f"{mean:.2f}" == f"{top:.2f}")
    names = " and ".join(part.name for part in found.each)
    unlike = "" if alike else " (the arms finished different units)"
    return [f"Together, as the mean of {names}, {best} scored highest with {top:.2f} points{unlike}."]
