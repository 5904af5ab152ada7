"""A run as rows, one per trial or per step: as a data frame, and as a Parquet file for pandas, R or DuckDB.

    best = frame[(frame.kind == "unit") & ~frame.unit_errored].groupby(["arm", "variant", "seed"]).accumulator.max()
    best.groupby("arm").mean()                 # the report's Mean

Scores are points of 100. A trial that ended in an error has no score: its scores are null, never 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rsso_dspy.errors import UsageError, require_extra
from rsso_dspy.files import atomic_path, check_output_path
from rsso_dspy.pricing import PriceOf, price_usage
from rsso_dspy.records import SCHEMA_VERSION, TrainingRecord, TrialResult, UnitRecord, Usage
from rsso_dspy.redact import Redactor, make_redactor
from rsso_dspy.report.cost import total_billed
from rsso_dspy.report.sheets import make_kind

JobRecord = UnitRecord | TrainingRecord
RowKind = Literal["trials", "steps"]  # kinds of rows
ROLES = ("actor", "reflector", "verbalizer", "advisor")  # roles with columns for their usage

PROVENANCE = (
    "config_hash", "prompts", "program", "rsso_dspy", "scienceworld", "benchmark", "dspy", "python", "commit"
)  # fmt: skip

_KEYS = {
    **dict.fromkeys(("kind", "arm", "method", "program", "task", "variant"), "string"),
    **{"index": "int32", "seed": "int64", "trial": "int32"},
}
"""Columns of both kinds of rows: which unit and trial a row belongs to. `kind` is unit or training."""

_USAGE = dict.fromkeys((f"{role}_{each.name}" for role in ROLES for each in fields(Usage)), "int64")

TRIAL = {
    **_KEYS,
    **dict.fromkeys(("protocol", "backend", "model"), "string"),
    "rule_based": "bool",
    "outcome": "string",
    **dict.fromkeys(("accumulator", "points_at_reset", "environment_score"), "int32"),
    "solved": "bool",
    **dict.fromkeys(("best_so_far", "trials_allowed", "budget", "steps"), "int32"),
    **dict.fromkeys(("invalid", "malformed", "asked_back", "no_effect"), "int32"),  # steps of the trial
    "error": "string",
    "unit_errored": "bool",
    "unit_stalled": "int32",
    "replayed": "int32",
    "failed_requests": "int64",
    **dict.fromkeys(("calls", "tokens_in", "tokens_out"), "int64"),
    "usd": "double",
    **_USAGE,
    "start": "string",
    "learnt_on": "strings",
    **dict.fromkeys((f"provenance_{name}" for name in PROVENANCE), "string"),
}

STEP = {
    **_KEYS,
    "step": "int32",
    **dict.fromkeys(("proposed", "action", "observation", "look", "inventory"), "string"),
    **dict.fromkeys(("reward", "score", "accumulator"), "int32"),
    **dict.fromkeys(("understood", "malformed", "asked_back", "no_effect"), "bool"),
    **dict.fromkeys(("unread", "reasoning", "subgoal", "rejected"), "string"),
    "recalled": "strings",
}

COLUMNS: Mapping[RowKind, Mapping[str, str]] = {"trials": TRIAL, "steps": STEP}  # in order, with Arrow types

GROUP = 4096  # number of rows written at once
ENDINGS = (".parquet", ".pq")
SCHEMA_KEY = "rsso_dspy.schema"  # key in a file's metadata, which marks the files of this package
PARQUET = make_kind("Parquet file", SCHEMA_KEY.encode())


def build_rows(rows: RowKind, records: Iterable[JobRecord], price_of: PriceOf) -> Iterator[dict[str, Any]]:
    """Yield rows with those of the kind's columns that have a value."""
    for record in records:
        yield from _build_step_rows(record) if rows == "steps" else _build_trial_rows(record, price_of)


def _build_trial_rows(record: JobRecord, price_of: PriceOf) -> Iterator[dict[str, Any]]:
    shared = {name: getattr(record, name) for name in ("protocol", "backend", "model", "rule_based", "start")}
    shared |= {"learnt_on": record.learnt_on, "unit_errored": record.has_errors, "unit_stalled": record.stalled_trials}
    shared |= {f"provenance_{name}": record.provenance.get(name) for name in PROVENANCE}
    best = 0
    for number, trial in enumerate(record.trials):
        row = {**_build_row_keys(record, trial), **shared, "outcome": "error", "error": trial.error}
        if isinstance(record, UnitRecord):
            row |= {"budget": record.budget, "trials_allowed": record.trials_allowed or None}
        else:
            row |= {"budget": record.budgets[number], "trials_allowed": len(record.budgets)}
        if played := trial.trajectory:
            best = max(best, played.accumulator)
            same = (
                "outcome",
                "accumulator",
                "points_at_reset",
                "environment_score",
                "solved",
                "asked_back",
                "no_effect",
            )
            row |= {name: getattr(played, name) for name in same}
            row |= {"steps": len(played.steps), "invalid": played.invalid_actions}
            row["malformed"] = sum(step.malformed for step in played.steps)
            row["best_so_far"] = best if isinstance(record, UnitRecord) else None
        usage = sum(trial.usage.values(), Usage())
        costs = (
            price_usage(record.arm, role, record.models.get(role, record.model), used, price_of)
            for role, used in trial.usage.items()
        )
        row |= {"replayed": trial.replayed, "failed_requests": sum(trial.failures.values())}
        row |= {"calls": usage.calls, "tokens_in": usage.input, "tokens_out": usage.output, "usd": total_billed(costs)}
        for role in ROLES:
            row |= {f"{role}_{name}": count for name, count in asdict(trial.usage.get(role, Usage())).items()}
        yield row


def _build_step_rows(record: JobRecord) -> Iterator[dict[str, Any]]:
    """Yield one row per step; a trial that errored has none."""
    for trial in record.trials:
        where, points = _build_row_keys(record, trial), 0
        for number, step in enumerate(trial.trajectory.steps if trial.trajectory else (), start=1):
            points += max(step.reward, 0)
            own = {each.name: getattr(step, each.name) for each in fields(step) if each.name in STEP}
            yield {**where, "step": number, "accumulator": points, **asdict(step.state), **own}


def _build_row_keys(record: JobRecord, trial: TrialResult) -> dict[str, Any]:
    unit = isinstance(record, UnitRecord)
    variant = record.variant if isinstance(record, UnitRecord) else trial.trajectory and trial.trajectory.variant
    return {
        **{"kind": "unit" if unit else "training", "arm": record.arm, "method": record.method},
        **{"program": record.program, "task": record.key.partition("::")[0]},
        **{"variant": variant and variant.key, "index": variant and variant.index},
        **{"seed": record.seed, "trial": trial.trial},
    }


def write_parquet(path: Path, rows: RowKind, records: Iterable[JobRecord], price_of: PriceOf) -> int:
    """Write the rows of all records, whole or not at all, and return their number. Raises `NotInstalled` without
    pyarrow, and `UsageError` if `path` holds another kind of file or there is no row."""
    require_extra("pyarrow", "Parquet needs pyarrow", "parquet")
    import pyarrow as arrow
    from pyarrow import parquet

    check_output_path(path, "-o", PARQUET)
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path} has no ending of a Parquet file; name it {path.with_suffix('.parquet').name}")
    types = {"strings": arrow.list_(arrow.string()), "double": arrow.float64(), "bool": arrow.bool_()}
    columns = [arrow.field(name, types.get(kind) or getattr(arrow, kind)()) for name, kind in COLUMNS[rows].items()]
    schema = arrow.schema(columns, metadata={SCHEMA_KEY: str(SCHEMA_VERSION)})
    written, strike, left = 0, make_redactor(), build_rows(rows, records, price_of)
    with atomic_path(path) as temporary:
        with parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            while group := list(islice(left, GROUP)):
                cleaned = [{name: clean_value(row.get(name), strike) for name in schema.names} for row in group]
                writer.write_table(arrow.Table.from_pylist(cleaned, schema))
                written += len(group)
        if not written:
            raise UsageError(f"there are no {rows} to write: no unit is finished yet, or all units errored")
    return written


def clean_value(value: Any, strike: Redactor) -> Any:
    """Return the value without secrets, and without unpaired surrogates, which models may send and no file can hold."""
    if isinstance(value, str):
        return strike(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    if isinstance(value, dict):
        return {clean_value(name, strike): clean_value(each, strike) for name, each in value.items()}
    return [clean_value(each, strike) for each in value] if isinstance(value, tuple | list) else value
