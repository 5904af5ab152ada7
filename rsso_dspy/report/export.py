"""What other tools read of a run: rows, one per trial or per step, as a data frame and as a Parquet file for pandas, R
or DuckDB; and logs of Inspect, see below.

    best = frame[(frame.kind == "unit") & ~frame.unit_errored].groupby(["arm", "variant", "seed"]).accumulator.max()
    best.groupby("arm").mean()                 # the report's Mean

Scores are points of 100; those of a trial that ended in an error are null, never 0."""

import hashlib
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Literal

from rsso_dspy.errors import UsageError, require_extra
from rsso_dspy.files import atomic_path, check_output_path
from rsso_dspy.pricing import PriceOf, itemize_costs
from rsso_dspy.records import (
    RULE_BASED_NOTE,
    SCHEMA_VERSION,
    TrainingRecord,
    Trajectory,
    TrialResult,
    UnitRecord,
    Usage,
    Variant,
    add_usage,
)
from rsso_dspy.redact import Redactor, make_redactor
from rsso_dspy.regions import TEMPLATES
from rsso_dspy.report.analysis import PROVENANCE, RunRecords, total_billed
from rsso_dspy.report.intervals import UnitValue, estimate_mean
from rsso_dspy.report.metrics import get_best_accumulator, group_by_arm, is_solved, select_scored_units
from rsso_dspy.report.repeats import estimate_repeat_success
from rsso_dspy.report.sheets import make_kind
from rsso_dspy.report.terminal import replace_controls
from rsso_dspy.version import __version__

JobRecord = UnitRecord | TrainingRecord
RowKind = Literal["trials", "steps"]  # kinds of rows
NOTED = (*PROVENANCE, "program")  # keys of a record's provenance
ROLES = ("actor", "reflector", "verbalizer", "advisor")  # roles with columns for their usage


def _list_columns(*groups: str) -> dict[str, str]:
    """Return name to Arrow type of columns that are given as ``type: name name``."""
    pairs = (group.partition(": ") for group in groups)
    return {name: kind for kind, _, names in pairs for name in names.split()}


KEYS = ("string: kind arm method program task variant", "int32: index", "int64: seed", "int32: trial")
"""Columns of both kinds of rows: which unit and trial a row belongs to. `kind` is unit or training."""

COLUMNS: Mapping[RowKind, Mapping[str, str]] = {
    "trials": _list_columns(
        *KEYS, "string: protocol backend model", "bool: rule_based", "string: outcome",
        "int32: accumulator points_at_reset environment_score", "bool: solved",
        "int32: best_so_far trials_allowed budget steps invalid malformed asked_back no_effect", "string: error",
        "bool: unit_errored", "int32: unit_stalled replayed", "int64: failed_requests calls tokens_in tokens_out",
        "double: usd", "int64: " + " ".join(f"{role}_{count.name}" for role in ROLES for count in fields(Usage)),
        "string: start shown", "strings: learnt_on strata",
        "string: " + " ".join(f"provenance_{name}" for name in NOTED),
    ),
    "steps": _list_columns(
        *KEYS, "int32: step", "string: proposed action observation look inventory", "int32: reward score accumulator",
        "bool: understood malformed asked_back no_effect", "string: unread reasoning subgoal rejected cut",
        "strings: recalled",
    ),
}  # fmt: skip
SAME = ("outcome", "accumulator", "points_at_reset", "environment_score", "solved", "asked_back", "no_effect")
"""Columns that are properties of a trajectory."""

SCHEMA_KEY = "rsso_dspy.schema"  # key in a file's metadata, which marks the files of this package
PARQUET = make_kind("Parquet file", SCHEMA_KEY.encode())


def build_rows(rows: RowKind, records: Iterable[JobRecord], price_of: PriceOf) -> Iterator[dict[str, Any]]:
    """Yield rows with those of the kind's columns that have a value."""
    for record in records:
        if rows == "steps":
            yield from _build_step_rows(record)
        else:
            yield from _build_trial_rows(record, price_of)


def _build_trial_rows(record: JobRecord, price_of: PriceOf) -> Iterator[dict[str, Any]]:
    shared = _build_record_columns(record)
    budgets: Sequence[int]
    if isinstance(record, UnitRecord):
        budgets = [record.budget] * len(record.trials)
        allowed = record.trials_allowed or None
    else:
        budgets = record.budgets
        allowed = len(budgets)

    best = 0
    for trial, budget in zip(record.trials, budgets, strict=False):
        row = _build_row_keys(record, trial)
        row |= shared
        row |= {"outcome": "error", "error": trial.error}
        row |= {"budget": budget, "trials_allowed": allowed}

        trajectory = trial.trajectory
        if trajectory:
            best = max(best, trajectory.accumulator)
            row |= _build_trajectory_columns(trajectory)
            row["best_so_far"] = best if isinstance(record, UnitRecord) else None

        row["shown"] = json.dumps(_select_memory_texts(trial), ensure_ascii=False)
        row |= _build_usage_columns(record, trial, price_of)
        yield row


def _build_record_columns(record: JobRecord) -> dict[str, Any]:
    """Return the columns that are the same for all trials of a record."""
    columns = {name: getattr(record, name) for name in ("protocol", "backend", "model", "rule_based", "start")}
    columns["learnt_on"] = record.learnt_on
    columns["unit_errored"] = record.has_errors
    columns["unit_stalled"] = record.stalled_trials
    for name in NOTED:
        columns[f"provenance_{name}"] = record.provenance.get(name)
    if isinstance(record, UnitRecord):
        columns["strata"] = record.strata
    return columns


def _build_trajectory_columns(trajectory: Trajectory) -> dict[str, Any]:
    columns = {name: getattr(trajectory, name) for name in SAME}
    columns["steps"] = len(trajectory.steps)
    columns["invalid"] = trajectory.invalid_actions
    columns["malformed"] = sum(step.malformed for step in trajectory.steps)
    return columns


def _build_usage_columns(record: JobRecord, trial: TrialResult, price_of: PriceOf) -> dict[str, Any]:
    """Return what a trial took of models: of all roles together with its costs, then by role."""
    usage = sum(trial.usage.values(), Usage())
    costs = itemize_costs([replace(record, trials=(trial,))], price_of)
    columns: dict[str, Any] = {
        "replayed": trial.replayed,
        "failed_requests": sum(trial.failures.values()),
        "calls": usage.calls,
        "tokens_in": usage.input,
        "tokens_out": usage.output,
        "usd": total_billed(costs),
    }
    for role in ROLES:
        role_usage = trial.usage.get(role, Usage())
        for name, count in asdict(role_usage).items():
            columns[f"{role}_{name}"] = count
    return columns


def _select_memory_texts(trial: TrialResult) -> dict[str, str]:
    """Return the texts of memories that stood in the trial's prompts, by region (see `TrialResult.shown`)."""
    return {key: text for key, text in trial.shown.items() if key != TEMPLATES and text}


def _build_step_rows(record: JobRecord) -> Iterator[dict[str, Any]]:
    """Yield one row per step; a trial that errored has none."""
    columns = COLUMNS["steps"]
    for trial in record.trials:
        if not trial.trajectory:
            continue
        keys = _build_row_keys(record, trial)
        points = 0
        for number, step in enumerate(trial.trajectory.steps, start=1):
            points += max(step.reward, 0)
            values = {field.name: getattr(step, field.name) for field in fields(step) if field.name in columns}
            yield {**keys, "step": number, "accumulator": points, **asdict(step.state), **values}


def _build_row_keys(record: JobRecord, trial: TrialResult) -> dict[str, Any]:
    variant: Variant | None = None
    if isinstance(record, UnitRecord):
        variant = record.variant
    elif trial.trajectory:
        variant = trial.trajectory.variant

    keys = {name: getattr(record, name) for name in ("arm", "method", "program", "seed")}
    keys["kind"] = "unit" if isinstance(record, UnitRecord) else "training"
    keys["task"] = record.key.partition("::")[0]
    keys["trial"] = trial.trial
    keys["variant"] = variant.key if variant else None
    keys["index"] = variant.index if variant else None
    return keys


def write_parquet(path: Path, rows: RowKind, records: Iterable[JobRecord], price_of: PriceOf) -> int:
    """Write the rows of all records, whole or not at all, and return their number. Raises `NotInstalled` without
    pyarrow, and `UsageError` if `path` holds another kind of file or there is no row."""
    require_extra("pyarrow", "Parquet needs pyarrow", "parquet")
    import pyarrow as arrow
    from pyarrow import parquet

    check_output_path(path, "-o", PARQUET)
    types = {"strings": arrow.list_(arrow.string()), "double": arrow.float64(), "bool": arrow.bool_()}
    columns = []
    for name, kind in COLUMNS[rows].items():
        column_type = types[kind] if kind in types else getattr(arrow, kind)()
        columns.append(arrow.field(name, column_type))
    schema = arrow.schema(columns, metadata={SCHEMA_KEY: str(SCHEMA_VERSION)})

    strike = make_redactor()
    cleaned = []
    for row in build_rows(rows, records, price_of):
        cleaned.append({name: clean_value(row.get(name), strike) for name in schema.names})
    if not cleaned:
        raise UsageError(f"there are no {rows} to write: no unit is finished yet, or all units errored")
    with atomic_path(path) as temporary:
        parquet.write_table(arrow.Table.from_pylist(cleaned, schema), temporary, compression="zstd")
    return len(cleaned)


def clean_value(value: Any, strike: Redactor) -> Any:
    """Return the value without secrets, and with marks in place of control characters and halves of characters."""
    if isinstance(value, str):
        text = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return strike(replace_controls(text))
    if isinstance(value, dict):
        return {clean_value(name, strike): clean_value(item, strike) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [clean_value(item, strike) for item in value]
    return value


# Logs of Inspect (`inspect_ai`): one `.eval` file per arm, which `inspect view` and its Python reader open. A sample is
# a variant, an epoch a seed; its messages are what the agent saw and did, its scores those of the report. An errored
# unit has an error and no score. Inspect itself is not needed to write.

VERSION = 2  # of the log's format
PACKAGE = "rsso-dspy"
LOG = make_kind("log of Inspect", f'"packages": {{"{PACKAGE}"'.encode())  # the header of a log is not compressed
SCORES: Mapping[str, Callable[[UnitRecord], float]] = {"best_accumulator": get_best_accumulator, "solved": is_solved}
TOKENS = {
    "input_tokens": "input",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
    "input_tokens_cache_read": "cached",
    "input_tokens_cache_write": "cache_write",
}  # Inspect's counts to those of a usage


def write_inspect_logs(target: Path, name: str, benchmark: str, played: RunRecords) -> int:
    """Write the logs of a run with this name into a folder and return their number. Raises `UsageError` before writing
    if a file there is no such log, or if there is nothing to write."""
    units = played.records
    if not units:
        raise UsageError("there is nothing to write: no unit is finished yet")
    check_output_path(target, "-o")
    arms = {target / f"{_name_file(arm)}.eval": records for arm, records in group_by_arm(units).items()}
    for path in arms:
        check_output_path(path, "-o", LOG)

    seeds = sorted({record.seed for record in units})
    first_day = played.dates[0] if played.dates else "1980-01-01"
    for path, records in arms.items():
        spec = _build_spec(name, benchmark, records, seeds)
        spec["created"] = f"{first_day}T00:00:00+00:00"
        with atomic_path(path) as temporary:
            temporary.write_bytes(_build_log(spec, records, seeds))
    return len(arms)


def _name_file(arm: str) -> str:
    plain = re.sub(r"[^\w+.-]", "-", arm).lstrip(".")
    if plain == arm:
        return plain
    digest = hashlib.sha256(arm.encode()).hexdigest()
    return f"{plain}-{digest[:6]}"


def _build_log(spec: dict[str, Any], records: Sequence[UnitRecord], seeds: Sequence[int]) -> bytes:
    strike = make_redactor()
    samples = []
    for record in records:
        epoch = seeds.index(record.seed) + 1
        samples.append(clean_value(_build_sample(record, epoch), strike))

    files: dict[str, Any] = {f"samples/{sample['id']}_epoch_{sample['epoch']}.json": sample for sample in samples}
    files["summaries.json"] = [_summarize_sample(sample) for sample in samples]
    files["header.json"] = {
        "version": VERSION,
        "status": "success",
        "eval": spec,
        "plan": {"name": records[0].arm, "steps": [], "config": {}},
        "results": _build_results(records),
        "stats": {"started_at": spec["created"], "completed_at": spec["created"], "model_usage": _sum_usage(records)},
    }

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as log:
        for name, data in files.items():
            text = json.dumps(clean_value(data, strike), ensure_ascii=False, allow_nan=False)
            packing = zipfile.ZIP_STORED if name == "header.json" else zipfile.ZIP_DEFLATED
            log.writestr(zipfile.ZipInfo(name), text.encode(), packing)  # dated 1980: no clock
    return content.getvalue()


def _build_spec(run: str, benchmark: str, records: Sequence[UnitRecord], seeds: Sequence[int]) -> dict[str, Any]:
    first = records[0]
    identity = hashlib.sha256(f"{run}/{first.arm}/{first.protocol}/{first.model}".encode()).hexdigest()[:22]
    keys = list(dict.fromkeys(record.key for record in records))
    is_rule_based = any(record.rule_based for record in records)
    return {
        "eval_id": identity,
        "run_id": identity,
        "task_id": identity,
        "task": f"{benchmark} {first.arm}",
        "task_version": 0,
        "task_attribs": {},
        "solver_args": {},
        "model_args": {},
        "task_args": {"arm": first.arm},
        "solver": first.arm,
        "dataset": {"name": benchmark, "samples": len(keys), "sample_ids": keys, "shuffled": False},
        "model": first.model,
        "config": {"epochs": len(seeds)},
        "packages": {PACKAGE: __version__},
        "metadata": {
            "arm": first.arm,
            "method": first.method,
            "program": first.program,
            "protocol": first.protocol,
            "provenance": first.provenance,
            "benchmark": benchmark,
            "seeds": list(seeds),
            "note": RULE_BASED_NOTE if is_rule_based else "",
        },
    }


def _build_sample(record: UnitRecord, epoch: int) -> dict[str, Any]:
    trajectories = [trial.trajectory for trial in record.trials]
    points = [trajectory.accumulator if trajectory else None for trajectory in trajectories]
    outcomes = [trajectory.outcome if trajectory else "error" for trajectory in trajectories]
    sample: dict[str, Any] = {
        "id": record.key,
        "epoch": epoch,
        "input": next((trajectory.task for trajectory in record.trajectories), record.key),
        "target": "",
        "messages": [message for trial in record.trials for message in _list_messages(trial, record.model)],
        "output": {"model": record.model, "choices": []},
        "scores": {},
        "metadata": {"task": record.variant.task, "seed": record.seed, "trials": points, "outcomes": outcomes},
        "store": {},
        "events": [],
        "attachments": {},
        "model_usage": _sum_usage([record]),
    }
    if record.has_errors:
        message = record.trials[-1].error or ""
        sample["error"] = {"message": message, "traceback": "", "traceback_ansi": ""}
    else:
        sample["scores"] = {
            "best_accumulator": {"value": get_best_accumulator(record)},
            "solved": {"value": "C" if is_solved(record) else "I"},
        }
    return sample


def _summarize_sample(sample: dict[str, Any]) -> dict[str, Any]:
    summary = {name: sample[name] for name in ("id", "epoch", "input", "target", "metadata", "scores", "model_usage")}
    if "error" in sample:
        summary["error"] = sample["error"]["message"]
    summary["completed"] = True
    summary["message_count"] = len(sample["messages"])
    return summary


def _build_results(records: Sequence[UnitRecord]) -> dict[str, Any]:
    scored = select_scored_units(records)
    scores: list[dict[str, Any]] = []
    if scored:
        scores = [_build_score(name, score, scored) for name, score in SCORES.items()]
    return {"total_samples": len(records), "completed_samples": len(scored), "scores": scores}


def _build_score(name: str, score: Callable[[UnitRecord], float], scored: Sequence[UnitRecord]) -> dict[str, Any]:
    values = [UnitValue(record.variant.task, record.variant.index, score(record)) for record in scored]
    estimate = estimate_mean(values)
    metrics = {"mean": _build_metric("mean", estimate.mean)}
    if estimate.interval:  # over task types, or variants of one
        metrics["stderr"] = _build_metric("stderr", estimate.interval.error)
    if name == "solved":
        metrics |= _build_repeat_metrics(scored)
    return {"name": name, "scorer": name, "params": {}, "metrics": metrics}


def _build_metric(name: str, value: float, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"name": name, "value": value, "params": params or {}}


def _build_repeat_metrics(scored: Sequence[UnitRecord]) -> dict[str, dict[str, Any]]:
    """Build pass^k, 0 to 1, by name: ``pass^2`` of whole units, which are epochs; ``pass^2 of trials``."""
    metrics = {}
    for success in estimate_repeat_success(scored):
        name = f"pass^{success.k}"
        if success.repeats == "trials":
            name += " of trials"
        params = {"k": success.k, "repeats": success.repeats, "variants": success.variants}
        metrics[name] = _build_metric(name, success.estimate.mean / 100, params)
    return metrics


def _sum_usage(records: Sequence[UnitRecord]) -> dict[str, dict[str, int]]:
    entries = itemize_costs(records, lambda _: None)
    usage_by_model = add_usage(*({entry.model: entry.usage} for entry in entries))
    counts_by_model = {}
    for model, usage in usage_by_model.items():
        counts = {name: getattr(usage, count) for name, count in TOKENS.items()}
        counts["total_tokens"] = usage.input + usage.output
        counts_by_model[model] = counts
    return counts_by_model


def _list_messages(trial: TrialResult, model: str) -> Iterator[dict[str, Any]]:
    """Yield what memories told the agent (system), what it saw (user) and the actions that it took (assistant), which
    are not the prompts."""
    trajectory = trial.trajectory
    if trajectory is None:
        return
    for region, text in _select_memory_texts(trial).items():
        yield {"role": "system", "content": f"Trial {trial.trial}, {region}:\n{text}"}
    yield {"role": "user", "content": f"{trajectory.task}\n\n{trajectory.start.description}"}

    for step in trajectory.steps:
        action = step.proposed or step.unread
        if step.reasoning:
            thought = {"type": "reasoning", "reasoning": step.reasoning}
            answer = {"type": "text", "text": action}
            yield {"role": "assistant", "content": [thought, answer], "model": model}
        else:
            yield {"role": "assistant", "content": action}
        yield {"role": "user", "content": step.state.observation}
