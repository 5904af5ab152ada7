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
from rsso_dspy.records import RULE_BASED_NOTE, SCHEMA_VERSION, TrainingRecord, TrialResult, UnitRecord, Usage, add_usage
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
        yield from _build_step_rows(record) if rows == "steps" else _build_trial_rows(record, price_of)


def _build_trial_rows(record: JobRecord, price_of: PriceOf) -> Iterator[dict[str, Any]]:
    shared = {name: getattr(record, name) for name in ("protocol", "backend", "model", "rule_based", "start")}
    shared |= {"learnt_on": record.learnt_on, "unit_errored": record.has_errors, "unit_stalled": record.stalled_trials}
    shared |= {f"provenance_{name}": record.provenance.get(name) for name in NOTED}
    unit = isinstance(record, UnitRecord)
    budgets = [record.budget] * len(record.trials) if isinstance(record, UnitRecord) else record.budgets
    allowed = record.trials_allowed or None if isinstance(record, UnitRecord) else len(budgets)
    if isinstance(record, UnitRecord):
        shared |= {"strata": record.strata}
    best = 0
    for trial, budget in zip(record.trials, budgets, strict=False):
        row = {**_build_row_keys(record, trial), **shared, "outcome": "error", "error": trial.error}
        row |= {"budget": budget, "trials_allowed": allowed}
        if trajectory := trial.trajectory:
            best = max(best, trajectory.accumulator)
            row |= {name: getattr(trajectory, name) for name in SAME}
            row |= {"steps": len(trajectory.steps), "invalid": trajectory.invalid_actions}
            row |= {
                "malformed": sum(step.malformed for step in trajectory.steps),
                "best_so_far": best if unit else None,
            }
        usage = sum(trial.usage.values(), Usage())
        costs = itemize_costs([replace(record, trials=(trial,))], price_of)
        row |= {"shown": json.dumps(_select_memory_texts(trial), ensure_ascii=False), "replayed": trial.replayed}
        row |= {"failed_requests": sum(trial.failures.values())}
        row |= {"calls": usage.calls, "tokens_in": usage.input, "tokens_out": usage.output, "usd": total_billed(costs)}
        for role in ROLES:
            row |= {f"{role}_{name}": count for name, count in asdict(trial.usage.get(role, Usage())).items()}
        yield row


def _select_memory_texts(trial: TrialResult) -> dict[str, str]:
    """Return the texts of memories that stood in the trial's prompts, by region (see `TrialResult.shown`)."""
    return {key: text for key, text in trial.shown.items() if key != TEMPLATES and text}


def _build_step_rows(record: JobRecord) -> Iterator[dict[str, Any]]:
    """Yield one row per step; a trial that errored has none."""
    for trial in record.trials:
        where = _build_row_keys(record, trial)
        points = 0
        for number, step in enumerate(trial.trajectory.steps if trial.trajectory else (), start=1):
            points += max(step.reward, 0)
            values = {field.name: getattr(step, field.name) for field in fields(step) if field.name in COLUMNS["steps"]}
            yield {**where, "step": number, "accumulator": points, **asdict(step.state), **values}


def _build_row_keys(record: JobRecord, trial: TrialResult) -> dict[str, Any]:
    unit = isinstance(record, UnitRecord)
    variant = record.variant if isinstance(record, UnitRecord) else trial.trajectory and trial.trajectory.variant
    keys = {name: getattr(record, name) for name in ("arm", "method", "program", "seed")}
    keys |= {"kind": "unit" if unit else "training", "task": record.key.partition("::")[0], "trial": trial.trial}
    return keys | {"variant": variant and variant.key, "index": variant and variant.index}


def write_parquet(path: Path, rows: RowKind, records: Iterable[JobRecord], price_of: PriceOf) -> int:
    """Write the rows of all records, whole or not at all, and return their number. Raises `NotInstalled` without
    pyarrow, and `UsageError` if `path` holds another kind of file or there is no row."""
    require_extra("pyarrow", "Parquet needs pyarrow", "parquet")
    import pyarrow as arrow
    from pyarrow import parquet

    check_output_path(path, "-o", PARQUET)
    types = {"strings": arrow.list_(arrow.string()), "double": arrow.float64(), "bool": arrow.bool_()}
    columns = [arrow.field(name, types.get(kind) or getattr(arrow, kind)()) for name, kind in COLUMNS[rows].items()]
    schema = arrow.schema(columns, metadata={SCHEMA_KEY: str(SCHEMA_VERSION)})
    strike = make_redactor()
    cleaned = [
        {name: clean_value(row.get(name), strike) for name in schema.names}
        for row in build_rows(rows, records, price_of)
    ]
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
    return [clean_value(item, strike) for item in value] if isinstance(value, tuple | list) else value


# Logs of Inspect (`inspect_ai`): one `.eval` file per arm, which `inspect view` and its Python reader open. A sample is
# a variant, an epoch a seed; its messages are what the agent saw and did, its scores those of the report. An errored
# unit has an error and no score. Inspect itself is not needed to write.

VERSION = 2  # of the log's format
PACKAGE = "rsso-dspy"
LOG = make_kind("log of Inspect", f'"packages": {{"{PACKAGE}"'.encode())  # the header of a log is not compressed
SCORES: Mapping[str, Callable[[UnitRecord], float]] = {"best_accumulator": get_best_accumulator, "solved": is_solved}
TOKENS = {"input_tokens": "input", "output_tokens": "output", "reasoning_tokens": "reasoning"} | {
    f"input_tokens_cache_{kind}": count for kind, count in (("read", "cached"), ("write", "cache_write"))
}  # Inspect's counts to those of a usage


def write_inspect_logs(target: Path, name: str, benchmark: str, played: RunRecords) -> int:
    """Write the logs of a run with this name into a folder and return their number. Raises `UsageError` before writing
    if a file there is no such log, or if there is nothing to write."""
    if not (units := played.records):
        raise UsageError("there is nothing to write: no unit is finished yet")
    check_output_path(target, "-o")
    arms = {target / f"{_name_file(arm)}.eval": records for arm, records in group_by_arm(units).items()}
    for path in arms:
        check_output_path(path, "-o", LOG)
    seeds = sorted({record.seed for record in units})
    created = f"{[*played.dates, '1980-01-01'][0]}T00:00:00+00:00"
    for path, records in arms.items():
        spec = _build_spec(name, benchmark, records, seeds) | {"created": created}
        with atomic_path(path) as temporary:
            temporary.write_bytes(_build_log(spec, records, seeds))
    return len(arms)


def _name_file(arm: str) -> str:
    plain = re.sub(r"[^\w+.-]", "-", arm).lstrip(".")
    return plain if plain == arm else f"{plain}-{hashlib.sha256(arm.encode()).hexdigest()[:6]}"


def _build_log(spec: dict[str, Any], records: Sequence[UnitRecord], seeds: Sequence[int]) -> bytes:
    strike = make_redactor()
    samples = [clean_value(_build_sample(record, seeds.index(record.seed) + 1), strike) for record in records]
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
    note = RULE_BASED_NOTE if any(record.rule_based for record in records) else ""
    about = {name: getattr(first, name) for name in ("arm", "method", "program", "protocol", "provenance")}
    return {
        **dict.fromkeys(("eval_id", "run_id", "task_id"), identity),
        "task": f"{benchmark} {first.arm}",
        "task_version": 0,
        **{name: {} for name in ("task_attribs", "solver_args", "model_args")},
        "task_args": {"arm": first.arm},
        "solver": first.arm,
        "dataset": {"name": benchmark, "samples": len(keys), "sample_ids": keys, "shuffled": False},
        "model": first.model,
        "config": {"epochs": len(seeds)},
        "packages": {PACKAGE: __version__},
        "metadata": {**about, "benchmark": benchmark, "seeds": list(seeds), "note": note},
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
        **{"store": {}, "events": [], "attachments": {}},
        "model_usage": _sum_usage([record]),
    }
    if record.has_errors:
        return sample | {"error": {"message": record.trials[-1].error or "", "traceback": "", "traceback_ansi": ""}}
    values = (get_best_accumulator(record), "C" if is_solved(record) else "I")
    return sample | {"scores": {name: {"value": value} for name, value in zip(SCORES, values, strict=True)}}


def _summarize_sample(sample: dict[str, Any]) -> dict[str, Any]:
    summary = {name: sample[name] for name in ("id", "epoch", "input", "target", "metadata", "scores", "model_usage")}
    error = {"error": sample["error"]["message"]} if "error" in sample else {}
    return {**summary, **error, "completed": True, "message_count": len(sample["messages"])}


def _build_results(records: Sequence[UnitRecord]) -> dict[str, Any]:
    scored = select_scored_units(records)
    scores = []
    for name, score in SCORES.items() if scored else ():
        estimate = estimate_mean(
            [UnitValue(record.variant.task, record.variant.index, score(record)) for record in scored]
        )
        values = {"mean": estimate.mean} | (
            {"stderr": estimate.interval.error} if estimate.interval else {}
        )  # over task types, or variants of one
        metrics = {metric: {"name": metric, "value": value, "params": {}} for metric, value in values.items()}
        if name == "solved":
            metrics |= _build_repeat_metrics(scored)
        scores.append({"name": name, "scorer": name, "params": {}, "metrics": metrics})
    return {"total_samples": len(records), "completed_samples": len(scored), "scores": scores}


def _build_repeat_metrics(scored: Sequence[UnitRecord]) -> dict[str, dict[str, Any]]:
    """Build pass^k, 0 to 1, by name: ``pass^2`` of whole units, which are epochs; ``pass^2 of trials``."""
    metrics = {}
    for success in estimate_repeat_success(scored):
        name = f"pass^{success.k}" + (" of trials" if success.repeats == "trials" else "")
        params = {"k": success.k, "repeats": success.repeats, "variants": success.variants}
        metrics[name] = {"name": name, "value": success.estimate.mean / 100, "params": params}
    return metrics


def _sum_usage(records: Sequence[UnitRecord]) -> dict[str, dict[str, int]]:
    usage_by_model = add_usage(*({entry.model: entry.usage} for entry in itemize_costs(records, lambda _: None)))
    return {
        model: {name: getattr(usage, count) for name, count in TOKENS.items()}
        | {"total_tokens": usage.input + usage.output}
        for model, usage in usage_by_model.items()
    }


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
        thought = {"type": "reasoning", "reasoning": step.reasoning}
        if step.reasoning:
            yield {"role": "assistant", "content": [thought, {"type": "text", "text": action}], "model": model}
        else:
            yield {"role": "assistant", "content": action}
        yield {"role": "user", "content": step.state.observation}
