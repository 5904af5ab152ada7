"""A run as rows, one per trial or per step: as a data frame, and as a Parquet file for pandas, R or DuckDB.

    best = frame[(frame.kind == "unit") & ~frame.unit_errored].groupby(["arm", "variant", "seed"]).accumulator.max()
    best.groupby("arm").mean()                 # the report's Mean

Scores are points of 100. A trial that ended in an error has no score: its scores are null, never 0.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal

from rsso_dspy.errors import UsageError, require_extra
from rsso_dspy.files import FileKind, atomic_path, check_output_path
from rsso_dspy.pricing import PriceOf, price_usage
from rsso_dspy.records import SCHEMA_VERSION, Step, TrainingRecord, TrialResult, UnitRecord, Usage
from rsso_dspy.redact import Redactor, make_redactor
from rsso_dspy.report.cost import total_billed

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
OF_STEP = STEP.keys() & {each.name for each in fields(Step)}  # columns that are fields of a step

OF_RECORD = {name: name for name in ("protocol", "backend", "model", "rule_based", "start", "learnt_on")} | {
    "unit_errored": "has_errors",
    "unit_stalled": "stalled_trials",
}
"""Column to the field of a record."""

OF_TRAJECTORY = {name: name for name in ("accumulator", "points_at_reset", "environment_score", "solved")} | {
    "invalid": "invalid_actions",
    "asked_back": "asked_back",
    "no_effect": "no_effect",
}
"""Column to the field of a played trial."""

ENDINGS = (".parquet", ".pq")
FOOTER = 1 << 16  # bytes at the end of a file that are searched for the mark
SCHEMA_KEY = "rsso_dspy.schema"  # key in a file's metadata, which marks the files of this package


def _is_run_parquet(path: Path) -> bool:
    """Return whether the footer of a file, at its end, names this package."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - FOOTER))
        return SCHEMA_KEY.encode() in file.read()


PARQUET = FileKind("Parquet file", _is_run_parquet)


def build_trial_rows(record: UnitRecord | TrainingRecord, price_of: PriceOf) -> Iterator[dict[str, Any]]:
    unit = record if isinstance(record, UnitRecord) else None
    budgets = () if isinstance(record, UnitRecord) else record.budgets
    shared = {name: getattr(record, field) for name, field in OF_RECORD.items()}
    shared |= {f"provenance_{name}": record.provenance.get(name) for name in PROVENANCE}
    best = 0
    for number, trial in enumerate(record.trials):
        played, usage = trial.trajectory, sum(trial.usage.values(), Usage())
        best = max(best, played.accumulator if played else 0)
        costs = (
            price_usage(record.arm, role, record.models.get(role, record.model), used, price_of)
            for role, used in trial.usage.items()
        )
        yield {
            **_build_row_keys(record, trial),
            **shared,
            **{name: getattr(played, field) if played else None for name, field in OF_TRAJECTORY.items()},
            "malformed": sum(step.malformed for step in played.steps) if played else None,
            "steps": len(played.steps) if played else None,
            "outcome": played.outcome if played else "error",
            "best_so_far": best if played and unit else None,
            "trials_allowed": (unit.trials_allowed or None) if unit else len(budgets),
            "budget": unit.budget if unit else budgets[number],
            **{"error": trial.error, "replayed": trial.replayed, "failed_requests": sum(trial.failures.values())},
            **{"calls": usage.calls, "tokens_in": usage.input, "tokens_out": usage.output, "usd": total_billed(costs)},
            **{
                f"{role}_{each.name}": getattr(trial.usage.get(role, Usage()), each.name)
                for role in ROLES
                for each in fields(Usage)
            },
        }


def build_step_rows(record: UnitRecord | TrainingRecord) -> Iterator[dict[str, Any]]:
    """Yield one row per step; a trial that errored has none."""
    for trial in record.trials:
        where = _build_row_keys(record, trial)
        steps = trial.trajectory.steps if trial.trajectory else ()
        sums = accumulate(max(step.reward, 0) for step in steps)
        for number, (step, points) in enumerate(zip(steps, sums, strict=True), start=1):
            yield {
                **where,
                **{"step": number, "accumulator": points},
                **asdict(step.state),
                **{name: getattr(step, name) for name in OF_STEP},
            }


def write_parquet(
    path: Path, rows: RowKind, records: Iterable[UnitRecord | TrainingRecord], price_of: PriceOf
) -> int:  # fmt: skip
    """Write the rows of all records, whole or not at all, and return their number. Raises `NotInstalled` without
    pyarrow, and `UsageError` if `path` holds another kind of file or there is no row."""
    require_extra("pyarrow", "Parquet needs pyarrow", "parquet")
    import pyarrow as arrow
    from pyarrow import parquet

    check_parquet_target(path)
    schema = _build_arrow_schema(arrow, COLUMNS[rows])
    written, strike = 0, make_redactor()
    with atomic_path(path) as temporary:
        with parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            left = build_rows(rows, records, price_of)
            while group := list(islice(left, GROUP)):
                cleaned = [{name: clean_value(row.get(name), strike) for name in schema.names} for row in group]
                writer.write_table(arrow.Table.from_pylist(cleaned, schema))
                written += len(group)
        if not written:
            raise UsageError(f"there are no {rows} to write: no unit is finished yet, or all units errored")
    return written


def build_rows(
    rows: RowKind, records: Iterable[UnitRecord | TrainingRecord], price_of: PriceOf
) -> Iterator[dict[str, Any]]:
    for record in records:
        yield from build_step_rows(record) if rows == "steps" else build_trial_rows(record, price_of)


def _build_row_keys(record: UnitRecord | TrainingRecord, trial: TrialResult) -> dict[str, Any]:
    unit = isinstance(record, UnitRecord)
    variant = record.variant if isinstance(record, UnitRecord) else trial.trajectory and trial.trajectory.variant
    return {
        **{"kind": "unit" if unit else "training", "arm": record.arm, "method": record.method},
        **{"program": record.program, "task": record.key.partition("::")[0]},
        **{"variant": variant and variant.key, "index": variant and variant.index},
        **{"seed": record.seed, "trial": trial.trial},
    }


def clean_value(value: Any, strike: Redactor) -> Any:
    """Return the value without secrets, and without unpaired surrogates, which models may send and no file can hold."""
    if isinstance(value, str):
        return strike(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    if isinstance(value, dict):
        return {clean_value(name, strike): clean_value(each, strike) for name, each in value.items()}
    return [clean_value(each, strike) for each in value] if isinstance(value, tuple | list) else value


def _build_arrow_schema(arrow: Any, columns: Mapping[str, str]) -> Any:
    types = {"strings": arrow.list_(arrow.string()), "double": arrow.float64(), "bool": arrow.bool_()}
    typed = [arrow.field(name, types.get(type_) or getattr(arrow, type_)()) for name, type_ in columns.items()]
    return arrow.schema(typed, metadata={SCHEMA_KEY: str(SCHEMA_VERSION)})


def check_parquet_target(path: Path) -> None:
    """Raise `UsageError` if `path` cannot be a Parquet file, or if writing would overwrite another kind of file."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file, e.g. -o {path / 'trials.parquet'}")
    check_output_path(path, "-o", PARQUET)
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{path} has no ending of a Parquet file; name it {path.with_suffix('.parquet').name}")
