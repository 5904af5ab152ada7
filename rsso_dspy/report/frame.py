"""A run as rows, one per trial or per step: as a data frame, and as a Parquet file for pandas, R or DuckDB.

    write_parquet(Path("trials.parquet"), "trials", records, price_of)

    frame = pandas.read_parquet("trials.parquet")
    best = frame[(frame.kind == "unit") & ~frame.unit_errored].groupby(["arm", "variant", "seed"]).accumulator.max()
    best.groupby("arm").mean()                 # the report's Mean

Scores are points of 100. A trial that ended in an error has no score: its scores are null, never 0.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal

from rsso_dspy.errors import UsageError, require_extra
from rsso_dspy.files import FileKind, atomic_path, check_output_path
from rsso_dspy.pricing import PriceOf
from rsso_dspy.records import SCHEMA_VERSION, TrainingRecord, TrialResult, TrialsRecord, UnitRecord, Usage
from rsso_dspy.redact import Redactor, make_redactor
from rsso_dspy.report.cost import sum_usage_cost
from rsso_dspy.report.metrics import REFLECTIONS, SKILLS, list_shown_skills

RowKind = Literal["trials", "steps"]
"""Kinds of rows."""

ROLES = ("actor", "reflector", "verbalizer", "advisor")
"""Roles with columns for their usage."""

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
    **dict.fromkeys(("reflections_held", "library_size", "skills_shown"), "int32"),  # the first two at the start
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

COLUMNS: Mapping[RowKind, Mapping[str, str]] = {"trials": TRIAL, "steps": STEP}
"""Columns of each kind of rows, in order, and the names of their Arrow types."""

GROUP = 4096
"""Number of rows written at once."""

OF_STEP = (
    *("proposed", "action", "reward", "score", "understood", "malformed", "asked_back", "no_effect", "unread"),
    *("reasoning", "subgoal", "rejected", "recalled"),
)
"""Columns that are fields of a `Step`."""

HELD = {
    "reflections_held": ("reflections", "plans", REFLECTIONS, "held"),
    "library_size": ("skills", "library", SKILLS, "library"),
}
"""Column to memory, the part of its snapshot to count, its region, and the count that it reports after a trial."""

ENDINGS = (".parquet", ".pq")

MAGIC = b"PAR1"

SCHEMA_KEY = "rsso_dspy.schema"
"""Key in a file's metadata, which marks the files of this package."""


def _is_run_parquet(path: Path) -> bool:
    """Return whether a file is a Parquet file of this package, by its end: footer, length of the footer, magic."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - len(MAGIC) - 4))
        length, magic = int.from_bytes(file.read(4), "little"), file.read()
        file.seek(max(0, size - len(MAGIC) - 4 - length))
        return magic == MAGIC and SCHEMA_KEY.encode() in file.read()


PARQUET = FileKind("Parquet file", _is_run_parquet)


def build_trial_rows(
    record: UnitRecord | TrainingRecord, price_of: PriceOf, held: Mapping[str, int]
) -> Iterator[dict[str, Any]]:
    """Yield one row per trial. `held` maps column to the reflections or skills that the first trial starts with."""
    shared, best, now = _build_record_columns(record), 0, dict(held)
    for number, trial in enumerate(record.trials):
        played = trial.trajectory
        if played is not None:
            best = max(best, played.accumulator)
        yield {
            **_build_row_keys(record, trial),
            **shared,
            "outcome": played.outcome if played else "error",
            "accumulator": played.accumulator if played else None,
            "points_at_reset": played.points_at_reset if played else None,
            "environment_score": played.environment_score if played else None,
            "solved": played.solved if played else None,
            "best_so_far": best if played and isinstance(record, UnitRecord) else None,
            "trials_allowed": record.trials_allowed or None if isinstance(record, UnitRecord) else len(record.budgets),
            "budget": record.budget if isinstance(record, UnitRecord) else record.budgets[number],
            "steps": len(played.steps) if played else None,
            "invalid": played.invalid_actions if played else None,
            "malformed": sum(step.malformed for step in played.steps) if played else None,
            "asked_back": played.asked_back if played else None,
            "no_effect": played.no_effect if played else None,
            "error": trial.error,
            "replayed": trial.replayed,
            "failed_requests": sum(trial.failures.values()),
            **now,
            "skills_shown": len(list_shown_skills(trial)) if played else None,
            **_build_usage_columns(record, trial, price_of),
        }
        now |= _count_held_after(trial)


def build_step_rows(record: UnitRecord | TrainingRecord) -> Iterator[dict[str, Any]]:
    """Yield one row per step; a trial that errored has none."""
    for trial in record.trials:
        where = _build_row_keys(record, trial)
        steps = trial.trajectory.steps if trial.trajectory else ()
        sums = accumulate(max(step.reward, 0) for step in steps)
        for number, (step, points) in enumerate(zip(steps, sums, strict=True), start=1):
            yield {
                **where,
                "step": number,
                "observation": step.state.observation,
                "look": step.state.look,
                "inventory": step.state.inventory,
                "accumulator": points,
                **{name: getattr(step, name) for name in OF_STEP},
            }


def write_parquet(
    path: Path, rows: RowKind, records: Iterable[UnitRecord | TrainingRecord], price_of: PriceOf
) -> int:  # fmt: skip
    """Write the rows of all records and return their number. Trainings must come before the units that start from them.

    The file is written whole or not at all; at most `GROUP` rows are in memory at once. Raises `NotInstalled` without
    pyarrow, and `UsageError` if `path` holds another kind of file or there is no row.
    """
    require_extra("pyarrow", "Parquet needs pyarrow", "parquet")
    import pyarrow as arrow
    from pyarrow import parquet

    check_parquet_target(path)
    schema = _build_arrow_schema(arrow, COLUMNS[rows])
    written, strike = 0, make_redactor()
    with atomic_path(path) as temporary:
        with parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for group in _group_rows(build_rows(rows, records, price_of)):
                cleaned = [{name: clean_value(row.get(name), strike) for name in schema.names} for row in group]
                writer.write_table(arrow.Table.from_pylist(cleaned, schema))
                written += len(group)
        if not written:
            raise UsageError(f"there are no {rows} to write: no unit is finished yet, or all units errored")
    return written


def build_rows(
    rows: RowKind, records: Iterable[UnitRecord | TrainingRecord], price_of: PriceOf
) -> Iterator[dict[str, Any]]:
    """Yield the rows of all records, by column. Trainings have to come before the units that start from them."""
    trained: dict[tuple[str, str, int], dict[str, int]] = {}
    for record in records:
        if rows == "steps":
            yield from build_step_rows(record)
            continue
        yield from build_trial_rows(record, price_of, _count_held_at_start(record, trained))
        if isinstance(record, TrainingRecord):
            trained[record.arm, record.task, record.seed] = _count_held_at_end(record)


def _count_held_at_start(
    record: UnitRecord | TrainingRecord, trained: Mapping[tuple[str, str, int], dict[str, int]]
) -> dict[str, int]:
    """Count reflections and skills at the start of the first trial, by column, as far as known; a memory that started
    empty counts 0. Older records do not say how much came from a training; the training's own record does."""
    known: dict[str, int | None] = dict.fromkeys(_count_held_at_end(record), 0)
    for source in record.sources:
        if (column := next((name for name, (memory, *_) in HELD.items() if memory == source.memory), None)) is None:
            continue
        known[column] = source.size
        if source.size is None and source.kind == "training" and isinstance(record, UnitRecord):
            known[column] = trained.get((record.arm, record.variant.task, record.seed), {}).get(column)
    return {column: size for column, size in known.items() if size is not None}


def _count_held_at_end(record: TrialsRecord) -> dict[str, int]:
    """Count reflections and skills after the last trial, by column."""
    found = {}
    for column, (memory, part, *_) in HELD.items():
        held = record.memories.get(memory)
        if isinstance(held, dict) and isinstance(held.get(part), list):
            found[column] = len(held[part])
    return found


def _count_held_after(trial: TrialResult) -> dict[str, int]:
    """Count reflections and skills after the trial, by column, if the memories learned from it."""
    found = {}
    for column, (*_, region, count) in HELD.items():
        held = trial.learnt.get(region, {}).get(count)
        if isinstance(held, int):
            found[column] = held
    return found


def _build_row_keys(record: UnitRecord | TrainingRecord, trial: TrialResult) -> dict[str, Any]:
    unit = isinstance(record, UnitRecord)
    variant = record.variant if isinstance(record, UnitRecord) else trial.trajectory and trial.trajectory.variant
    return {
        "kind": "unit" if unit else "training",
        "arm": record.arm,
        "method": record.method,
        "program": record.program,
        "task": record.variant.task if isinstance(record, UnitRecord) else record.task,
        "variant": variant.key if variant else None,
        "index": variant.index if variant else None,
        "seed": record.seed,
        "trial": trial.trial,
    }


def _build_record_columns(record: TrialsRecord) -> dict[str, Any]:
    """Return the columns that all trials of a record share."""
    return {
        "protocol": record.protocol,
        "backend": record.backend,
        "model": record.model,
        "rule_based": record.rule_based,
        "unit_errored": record.has_errors,
        "unit_stalled": record.stalled_trials,
        "start": record.start,
        "learnt_on": record.learnt_on,
        **{f"provenance_{name}": record.provenance.get(name) for name in PROVENANCE},
    }


def _build_usage_columns(record: TrialsRecord, trial: TrialResult, price_of: PriceOf) -> dict[str, Any]:
    """Return the usage of the trial, in total and by role."""
    usage = sum(trial.usage.values(), Usage())
    models = {role: record.models.get(role, record.model) for role in trial.usage}
    return {
        "calls": usage.calls,
        "tokens_in": usage.input,
        "tokens_out": usage.output,
        "usd": sum_usage_cost(trial.usage, models, price_of).cost,
        **{
            f"{role}_{each.name}": getattr(trial.usage.get(role, Usage()), each.name)
            for role in ROLES
            for each in fields(Usage)
        },
    }


def clean_value(value: Any, strike: Redactor) -> Any:
    """Return the value without secrets, and without unpaired surrogates, which models may send and no file can hold."""
    if isinstance(value, str):
        return strike(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    if isinstance(value, dict):
        return {clean_value(name, strike): clean_value(each, strike) for name, each in value.items()}
    return [clean_value(each, strike) for each in value] if isinstance(value, tuple | list) else value


def _group_rows(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    while group := list(islice(rows, GROUP)):
        yield group


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
