"""A run as tables for the terminal, and as JSON data."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from rsso_dspy.report.metrics import ArmMetrics, TrainingMetrics, by_arm, metrics, training_metrics
from rsso_dspy.report.statistics import PairedDifference, paired_difference
from rsso_dspy.trajectory import RULE_BASED_NOTE, TrainingRecord, UnitRecord

NAME_WIDTH = 12
"""Least width of the column of arms."""


def summarize(records: Sequence[UnitRecord]) -> tuple[list[ArmMetrics], list[PairedDifference]]:
    """Metrics per arm, and the paired difference of every two arms, later minus earlier."""
    arms = by_arm(records)
    rows = [metrics(arm, units) for arm, units in arms.items()]
    pairs = [paired_difference(a, arms[a], b, arms[b]) for a, b in combinations(arms, 2)]
    return rows, pairs


def report_json(records: Sequence[UnitRecord], trainings: Sequence[TrainingRecord] = ()) -> dict[str, Any]:
    """The whole report as JSON data."""
    rows, pairs = summarize(records)
    return {
        "protocols": sorted({record.protocol for record in records}),
        "models": sorted({record.model for record in records}),
        "backends": sorted({record.backend for record in records}),
        "rule_based": any(record.rule_based for record in records),
        "note": RULE_BASED_NOTE if any(record.rule_based for record in records) else "",
        "arms": [asdict(row) for row in rows],
        "trainings": [asdict(row) for row in training_metrics(trainings)],
        "differences": [asdict(pair) for pair in pairs],
        "errored": [
            {"arm": r.arm, "unit": r.variant.key, "seed": r.seed, "error": r.trials[-1].error}
            for r in records
            if r.errored
        ],
    }


def report_tables(records: Sequence[UnitRecord], trainings: Sequence[TrainingRecord] = ()) -> RenderableType:
    """The whole report for the terminal."""
    rows, pairs = summarize(records)
    trained = training_metrics(trainings)
    parts: list[RenderableType] = [_methods(rows), _learning(rows), *([_trainings(trained)] if trained else [])]
    parts.append(_tokens(rows, trained))
    if pairs:
        parts.append(_differences(pairs))
    errored = [record for record in records if record.errored]
    if errored:
        lines = [f"  {r.arm} {r.variant.key}: {r.trials[-1].error}" for r in errored]
        parts.append(Text("Errored units (no score; played again by the next run):\n" + "\n".join(lines), style="red"))
    protocols = ", ".join(sorted({record.protocol for record in records}))
    models = ", ".join(sorted({f"{record.model} (backend {record.backend})" for record in records}))
    parts.append(
        Text(f"Protocol {protocols}. Actor {models}. Scores are points of 100; best_of_t is sequential.", style="dim")
    )
    if len({row.trials_played / row.units for row in rows if row.units}) > 1:
        parts.append(
            Text(
                "mean/trial is over the trials played, which differ between these arms: not to be compared.",
                style="dim",
            )
        )
    if any(record.rule_based for record in records):
        parts.append(Text(RULE_BASED_NOTE, style="dim"))
    return Group(*parts)


def _methods(rows: Sequence[ArmMetrics]) -> Table:
    table = _table("Best of t", "arm", "units", "Mean", "+reset", "env", "Solve", "Acc100")
    for row in rows:
        table.add_row(
            row.arm,
            f"{row.units}" + (f" ({row.errored} err)" if row.errored else ""),
            *map(_points, (row.mean, row.mean_with_reset, row.environment_score)),
            f"{row.solve}/{row.units}",
            f"{row.acc100}/{row.units}",
        )
    return table


def _learning(rows: Sequence[ArmMetrics]) -> Table:
    longest = max((len(row.best_of_t) for row in rows), default=0)
    table = _table(
        "Over trials", "arm", "trials", "trial-1", "mean/trial", *(f"best_of_{t}" for t in range(1, longest + 1))
    )
    for row in rows:
        padded = [*row.best_of_t, *[row.best_of_t[-1] if row.best_of_t else None] * (longest - len(row.best_of_t))]
        table.add_row(row.arm, str(row.trials_played), *map(_points, (row.trial_1, row.mean_over_trials, *padded)))
    return table


def _trainings(rows: Sequence[TrainingMetrics]) -> Table:
    rounds = max(len(row.rounds) for row in rows)
    columns = (f"round {number}" for number in range(1, rounds + 1))
    table = _table("Training", "arm", "tasks", "episodes", *columns)
    for row in rows:
        padded = [*row.rounds, *[None] * (rounds - len(row.rounds))]
        tasks = f"{row.tasks}" + (f" ({row.errored} err)" if row.errored else "")
        table.add_row(row.arm, tasks, f"{row.episodes:,}", *map(_points, padded))
    return table


def _tokens(rows: Sequence[ArmMetrics], trained: Sequence[TrainingMetrics]) -> Table:
    table = _table("Calls and tokens", "arm", "role", "calls", "in", "out", "malformed", "invalid")
    for row in rows:
        for role, usage in row.tokens.items():
            invalid = f"{row.invalid_rate:.1%}" if role == "actor" and row.invalid_rate is not None else ""
            counts = (f"{n:,}" for n in (usage.calls, usage.input, usage.output, usage.malformed))
            table.add_row(row.arm, role, *counts, invalid)
    for training in trained:
        for role, usage in training.tokens.items():
            counts = (f"{n:,}" for n in (usage.calls, usage.input, usage.output, usage.malformed))
            table.add_row(f"{training.arm} (training)", role, *counts, "")
    return table


def _differences(pairs: Sequence[PairedDifference]) -> Table:
    table = _table("Paired differences", "second - first", "pairs", "points", "95% interval", "units +/-", "tasks +/-")
    for pair in pairs:
        interval = f"{pair.interval[0]:+.1f} to {pair.interval[1]:+.1f}" if pair.interval else "n/a"
        table.add_row(
            f"{pair.second} - {pair.first}",
            f"{pair.pairs}" + (f" (-{pair.dropped})" if pair.dropped else ""),
            "n/a" if pair.difference is None else f"{pair.difference:+.2f}",
            interval,
            f"{pair.higher}/{pair.lower}",
            f"{pair.tasks_higher}/{pair.tasks_lower}",
        )
    return table


def _table(title: str, *columns: str) -> Table:
    """A table whose first column, of names, gives way where it is narrow: no digit is cut off."""
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, header_style="dim")
    table.add_column(columns[0], overflow="fold", min_width=NAME_WIDTH)
    for column in columns[1:]:
        table.add_column(column, justify="left" if column == "role" else "right", no_wrap=True)
    return table


def width_needed(console: Console, tables: RenderableType) -> int:
    """Columns below which digits would be cut off."""
    return Measurement.get(console, console.options.update(max_width=1000), tables).minimum


def _points(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
