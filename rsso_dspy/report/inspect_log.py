"""A run as logs of Inspect (`inspect_ai`): one `.eval` file per arm, which `inspect view` and its Python reader open. A
sample is a variant, an epoch a seed. Its messages are what the agent saw and did, trial after trial; its scores are
those of the report: ``best_accumulator`` in points of 100, and ``solved``, C or I. An errored unit has an error and no
score. Inspect itself is not needed to write."""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rsso_dspy.errors import UsageError
from rsso_dspy.files import atomic_path, check_output_path
from rsso_dspy.pricing import itemize_costs
from rsso_dspy.records import RULE_BASED_NOTE, TrialResult, UnitRecord, Usage
from rsso_dspy.redact import make_redactor
from rsso_dspy.report.cost import return_no_price
from rsso_dspy.report.frame import clean_value
from rsso_dspy.report.metrics import get_best_accumulator, group_by_arm, select_scored_units
from rsso_dspy.report.sheets import make_kind
from rsso_dspy.report.statistics import bootstrap_scores
from rsso_dspy.version import __version__

VERSION = 2  # of the log's format
PACKAGE = "rsso-dspy"
LOG = make_kind("log of Inspect", f'"packages": {{"{PACKAGE}"'.encode())  # the header of a log is not compressed
POINTS, SOLVED = "best_accumulator", "solved"  # names of the two scores of a unit


@dataclass(frozen=True, slots=True)
class ExportedRun:
    name: str
    benchmark: str
    records: Sequence[UnitRecord]
    day: str  # of the first play, `2026-11-01`

    @property
    def created(self) -> str:
        return f"{self.day or '1980-01-01'}T00:00:00+00:00"


def write_inspect_logs(target: Path, run: ExportedRun) -> int:
    """Write the logs into a folder and return their number. Raises `UsageError` before writing if a file there is no
    such log, or if there is nothing to write."""
    if not run.records:
        raise UsageError("there is nothing to write: no unit is finished yet")
    check_output_path(target, "-o")
    arms = {target / f"{make_file_name(arm)}.eval": records for arm, records in group_by_arm(run.records).items()}
    for path in arms:
        check_output_path(path, "-o", LOG)
    for path, records in arms.items():
        with atomic_path(path) as temporary:
            temporary.write_bytes(_build_log(run, records))
    return len(arms)


def make_file_name(arm: str) -> str:
    plain = "".join(each if each.isalnum() or each in "+-_." else "-" for each in arm).lstrip(".")
    return plain if plain == arm else f"{plain}-{hashlib.sha256(arm.encode()).hexdigest()[:6]}"


def _build_log(run: ExportedRun, records: Sequence[UnitRecord]) -> bytes:
    seeds = sorted({record.seed for record in run.records})
    samples = [_build_sample(record, seeds.index(record.seed) + 1) for record in records]
    files: dict[str, Any] = {f"samples/{each['id']}_epoch_{each['epoch']}.json": each for each in samples}
    files["summaries.json"] = [_summarize_sample(sample) for sample in samples]
    files["header.json"] = {
        "version": VERSION,
        "status": "success",
        "eval": _build_spec(run, records, seeds),
        "plan": {"name": records[0].arm, "steps": [], "config": {}},
        "results": _build_results(records),
        "stats": {"started_at": run.created, "completed_at": run.created, "model_usage": _sum_usage(records)},
    }
    content, strike = io.BytesIO(), make_redactor()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as log:
        for name, data in files.items():
            text = json.dumps(clean_value(data, strike), ensure_ascii=False, allow_nan=False)
            packing = zipfile.ZIP_STORED if name == "header.json" else zipfile.ZIP_DEFLATED
            log.writestr(zipfile.ZipInfo(name), text.encode(), packing)  # dated 1980: no clock
    return content.getvalue()


def _build_spec(run: ExportedRun, records: Sequence[UnitRecord], seeds: Sequence[int]) -> dict[str, Any]:
    first = records[0]
    identity = hashlib.sha256(f"{run.name}/{first.arm}/{first.protocol}/{first.model}".encode()).hexdigest()[:22]
    keys = list(dict.fromkeys(record.key for record in records))
    note = RULE_BASED_NOTE if any(record.rule_based for record in records) else ""
    about = {name: getattr(first, name) for name in ("arm", "method", "program", "protocol", "provenance")}
    return {
        **dict.fromkeys(("eval_id", "run_id", "task_id"), identity),
        "created": run.created,
        "task": f"{run.benchmark} {first.protocol}",
        "task_version": 0,
        **{name: {} for name in ("task_attribs", "solver_args", "model_args")},
        "task_args": {"arm": first.arm},
        "solver": first.arm,
        "dataset": {"name": run.benchmark, "samples": len(keys), "sample_ids": keys, "shuffled": False},
        "model": first.model,
        "config": {"epochs": len(seeds)},
        "packages": {PACKAGE: __version__},
        "metadata": {**about, "benchmark": run.benchmark, "seeds": list(seeds), "note": note},
    }


def _build_sample(record: UnitRecord, epoch: int) -> dict[str, Any]:
    sample: dict[str, Any] = {
        "id": record.key,
        "epoch": epoch,
        "input": next((played.task for played in record.trajectories), record.key),
        "target": "",
        "messages": [message for trial in record.trials for message in _list_messages(trial, record.model)],
        "output": {"model": record.model, "choices": []},
        "scores": {},
        "metadata": {
            "task": record.variant.task,
            "seed": record.seed,
            "trials": [trial.trajectory.accumulator if trial.trajectory else None for trial in record.trials],
            "outcomes": [trial.trajectory.outcome if trial.trajectory else "error" for trial in record.trials],
        },
        "store": {},
        "events": [],
        "model_usage": _sum_usage([record]),
        "attachments": {},
    }
    if record.has_errors:
        return sample | {"error": {"message": record.trials[-1].error or "", "traceback": "", "traceback_ansi": ""}}
    points, solved = _score_unit(record)
    return sample | {"scores": {POINTS: {"value": points}, SOLVED: {"value": "C" if solved else "I"}}}


def _summarize_sample(sample: dict[str, Any]) -> dict[str, Any]:
    kept = {name: sample[name] for name in ("id", "epoch", "input", "target", "metadata", "scores", "model_usage")}
    error = {"error": sample["error"]["message"]} if "error" in sample else {}
    return {**kept, **error, "completed": True, "message_count": len(sample["messages"])}


def _build_results(records: Sequence[UnitRecord]) -> dict[str, Any]:
    scored = [(record.variant.task, _score_unit(record)) for record in select_scored_units(records)]
    scores = []
    for column, name in enumerate((POINTS, SOLVED) if scored else ()):
        pairs = [(task, each[column]) for task, each in scored]
        values = {"mean": fmean(value for _, value in pairs)}
        if interval := bootstrap_scores(pairs):
            values["stderr"] = interval.error  # clustered by task type
        metrics = {each: {"name": each, "value": value, "params": {}} for each, value in values.items()}
        scores.append({"name": name, "scorer": name, "params": {}, "metrics": metrics})
    return {"total_samples": len(records), "completed_samples": len(scored), "scores": scores}


def _sum_usage(records: Sequence[UnitRecord]) -> dict[str, dict[str, int]]:
    used: dict[str, Usage] = {}
    for entry in itemize_costs(records, return_no_price):
        used[entry.model] = used.get(entry.model, Usage()) + entry.usage
    return {
        model: {
            "input_tokens": usage.input,
            "output_tokens": usage.output,
            "total_tokens": usage.input + usage.output,
            "input_tokens_cache_read": usage.cached,
            "input_tokens_cache_write": usage.cache_write,
            "reasoning_tokens": usage.reasoning,
        }
        for model, usage in used.items()
    }


def _score_unit(record: UnitRecord) -> tuple[float, float]:
    """Return the points of 100 of a unit without errors, and 1 or 0 for solved."""
    return get_best_accumulator(record), float(any(trial.solved for trial in record.trajectories))


def _list_messages(trial: TrialResult, model: str) -> Iterator[dict[str, Any]]:
    """Yield the messages of a trial: what the agent saw (user), and the action that it took (assistant). These are
    observations and actions, not the prompts."""
    played = trial.trajectory
    if played is None:
        return
    yield {"role": "user", "content": f"{played.task}\n\n{played.start.description}"}
    for step in played.steps:
        action, thought = step.proposed or step.unread, {"type": "reasoning", "reasoning": step.reasoning}
        if step.reasoning:
            yield {"role": "assistant", "content": [thought, {"type": "text", "text": action}], "model": model}
        else:
            yield {"role": "assistant", "content": action}
        yield {"role": "user", "content": step.state.observation}
