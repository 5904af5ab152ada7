"""A run as tables for the terminal, and as JSON data."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import combinations
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rsso_dspy.money import PriceOf
from rsso_dspy.report.bills import Abandoned, bill_json, bill_tables, unpriced
from rsso_dspy.report.metrics import ArmMetrics, TrainingMetrics, by_arm, metrics, training_metrics
from rsso_dspy.report.statistics import PairedDifference, paired_difference
from rsso_dspy.report.terminal import named_table, visible
from rsso_dspy.trajectory import RULE_BASED_NOTE, Record, TrainingRecord, UnitRecord

TROUBLES = ("malformed", "repaired", "truncated", "failed", "unmetered")
"""What went wrong with answers; all but the first are shown only where they happened."""


def summarize(records: Sequence[UnitRecord]) -> tuple[list[ArmMetrics], list[PairedDifference]]:
    """Metrics per arm, and the paired difference of every two arms, later minus earlier."""
    arms = by_arm(records)
    rows = [metrics(arm, units) for arm, units in arms.items()]
    pairs = [paired_difference(a, arms[a], b, arms[b]) for a, b in combinations(arms, 2)]
    return rows, pairs


def report_json(
    records: Sequence[UnitRecord],
    trainings: Sequence[TrainingRecord] = (),
    price_of: PriceOf = unpriced,
    abandoned: Sequence[Abandoned] = (),
    begun: Sequence[Record] = (),
) -> dict[str, Any]:
    """The whole report as JSON data."""
    rows, pairs = summarize(records)
    return {
        "protocols": sorted({record.protocol for record in records}),
        "models": sorted({record.model for record in records}),
        "backends": sorted({record.backend for record in records}),
        "rule_based": any(record.rule_based for record in records),
        "note": RULE_BASED_NOTE if any(record.rule_based for record in records) else "",
        "arms": [asdict(row) for row in rows],
        "bill": bill_json([*records, *trainings, *begun], price_of, abandoned),
        "trainings": [asdict(row) for row in training_metrics(trainings)],
        "differences": [asdict(pair) for pair in pairs],
        "errored": [
            {"arm": r.arm, "unit": r.key, "seed": r.seed, "error": r.trials[-1].error}
            for r in _errored(records, trainings)
        ],
    }


def report_tables(
    records: Sequence[UnitRecord],
    trainings: Sequence[TrainingRecord] = (),
    price_of: PriceOf = unpriced,
    abandoned: Sequence[Abandoned] = (),
    begun: Sequence[Record] = (),
) -> RenderableType:
    """The whole report for the terminal. `abandoned` is what was spent that no record tells of, `begun` are units and
    trainings that are not finished."""
    everything: list[Record] = [*records, *trainings, *begun]
    bills = bill_tables(everything, price_of, abandoned, len(begun))
    if not records:
        return Group(Text("No unit is finished yet."), *bills)
    rows, pairs = summarize(records)
    trained = training_metrics(trainings)
    parts: list[RenderableType] = [_methods(rows), _learning(rows), *([_trainings(trained)] if trained else [])]
    parts += [_tokens(rows, trained), *bills]
    if pairs:
        parts.append(_differences(pairs))
    if errored := _errored(records, trainings):
        lines = [f"  {r.arm} {r.key}: {visible(r.trials[-1].error or '')}" for r in errored]
        parts.append(Text("Errored (no score; played again by the next run):\n" + "\n".join(lines), style="red"))
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


def _errored(records: Sequence[UnitRecord], trainings: Sequence[TrainingRecord]) -> list[UnitRecord | TrainingRecord]:
    everything: list[UnitRecord | TrainingRecord] = [*records, *trainings]
    return [record for record in everything if record.errored]


def _methods(rows: Sequence[ArmMetrics]) -> Table:
    table = named_table("Best of t", "arm", "units", "Mean", "+reset", "env", "Solve", "Acc100", "calls/unit")
    for row in rows:
        table.add_row(
            row.arm,
            f"{row.units}" + (f" ({row.errored} err)" if row.errored else ""),
            *map(_points, (row.mean, row.mean_with_reset, row.environment_score)),
            f"{row.solve}/{row.units}",
            f"{row.acc100}/{row.units}",
            "n/a" if row.calls_per_unit is None else f"{row.calls_per_unit:.0f}",
        )
    return table


def _learning(rows: Sequence[ArmMetrics]) -> Table:
    longest = max((len(row.best_of_t) for row in rows), default=0)
    table = named_table(
        "Over trials", "arm", "trials", "trial-1", "mean/trial", *(f"best_of_{t}" for t in range(1, longest + 1))
    )
    for row in rows:
        padded = [*row.best_of_t, *[row.best_of_t[-1] if row.best_of_t else None] * (longest - len(row.best_of_t))]
        table.add_row(row.arm, str(row.trials_played), *map(_points, (row.trial_1, row.mean_over_trials, *padded)))
    return table


def _trainings(rows: Sequence[TrainingMetrics]) -> Table:
    rounds = max(len(row.rounds) for row in rows)
    columns = (f"round {number}" for number in range(1, rounds + 1))
    table = named_table("Training", "arm", "tasks", "episodes", *columns)
    for row in rows:
        padded = [*row.rounds, *[None] * (rounds - len(row.rounds))]
        tasks = f"{row.tasks}" + (f" ({row.errored} err)" if row.errored else "")
        table.add_row(row.arm, tasks, f"{row.episodes:,}", *map(_points, padded))
    return table


def _tokens(rows: Sequence[ArmMetrics], trained: Sequence[TrainingMetrics]) -> Table:
    spent = [(row.arm, row.tokens, row.invalid_rate) for row in rows]
    spent += [(f"{row.arm} (training)", row.tokens, None) for row in trained]
    everything = [usage for _, tokens, _ in spent for usage in tokens.values()]
    troubles = [name for name in TROUBLES if name == "malformed" or any(getattr(u, name) for u in everything)]
    table = named_table("Calls and tokens", "arm", "role", "calls", "in", "out", *troubles, "invalid")
    for arm, tokens, rate in spent:
        for role, usage in tokens.items():
            counts = (f"{getattr(usage, name):,}" for name in ("calls", "input", "output", *troubles))
            table.add_row(arm, role, *counts, f"{rate:.1%}" if role == "actor" and rate is not None else "")
    return table


def _differences(pairs: Sequence[PairedDifference]) -> Table:
    table = named_table(
        "Paired differences", "second - first", "pairs", "points", "95% interval", "units +/-", "tasks +/-"
    )
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


def _points(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
