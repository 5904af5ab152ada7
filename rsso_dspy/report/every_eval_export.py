"""A run as records of Every Eval Ever (evalevalai.com), schema 0.3.0: an aggregate and its instances per arm.

Files lie as in its database: ``data/BENCHMARK/DEVELOPER/MODEL/UUID.json`` and ``UUID_samples.jsonl``. The schema wants
texts in all `additional_details`. An instance is a unit: its messages are what the agent saw and did, not the prompts.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from uuid import UUID

from rsso_dspy.atomic import FileKind
from rsso_dspy.records import UnitRecord
from rsso_dspy.report.exported_run import (
    POINTS,
    SOLVED,
    ExportedRun,
    ExportFormat,
    dump_json,
    list_scores,
    list_turns,
    score_unit,
    sum_unit_usage,
)
from rsso_dspy.report.statistical_tests import LEVEL, RESAMPLES, bootstrap_scores
from rsso_dspy.version import __version__

SCHEMA = "0.3.0"
LIBRARY = "rsso-dspy"


def build_every_eval_records(run: ExportedRun) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of the aggregate and the instances of each arm."""
    for arm, records in run.arms.items():
        model, when = records[0].model, str(int(datetime.fromisoformat(run.created).timestamp()))
        evaluation = f"{run.benchmark}/{_flatten(model)}/{run.name}/{arm}/{when}"
        lines = [dump_json(line) for record in records for line in _build_sample_records(run, record, evaluation)]
        samples = "".join(f"{line}\n" for line in lines).encode()
        developer, _, name = model.rpartition("/")
        folder = "/".join(["data", *map(_flatten, (run.benchmark, developer or "unknown", name))])
        checksum = hashlib.sha256(samples).hexdigest()
        stem = f"{folder}/{_make_uuid(f'{evaluation} {checksum}')}"  # other results never take this one's place
        aggregate = _build_aggregate(run, arm, records, evaluation, when)
        if lines:
            aggregate["detailed_evaluation_results"] = {
                "format": "jsonl",
                "file_path": f"{stem}_samples.jsonl",
                "hash_algorithm": "sha256",
                "checksum": checksum,
                "total_rows": len(lines),
            }
        yield f"{stem}.json", f"{dump_json(aggregate, indent=1)}\n".encode()
        if lines:
            yield f"{stem}_samples.jsonl", samples


def _flatten(name: str) -> str:
    """Return the name as one part of a path."""
    return re.sub(r"[^A-Za-z0-9+_.-]", "_", name).lstrip(".") or "unknown"


def _make_uuid(text: str) -> str:
    """Return a UUID of the form of version 4 that is equal for equal texts, so that an export can be repeated."""
    return str(UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))


def _build_aggregate(
    run: ExportedRun, arm: str, records: Sequence[UnitRecord], evaluation: str, when: str
) -> dict[str, Any]:
    first = records[0]
    return {
        "schema_version": SCHEMA,
        "evaluation_id": evaluation,
        "evaluation_timestamp": run.created,
        "retrieved_timestamp": when,
        "source_metadata": {
            "source_name": run.name,
            "source_type": "evaluation_run",
            "source_organization_name": "unknown",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": LIBRARY,
            "version": first.provenance.get("rsso_dspy", __version__),
            "additional_details": {key: str(value) for key, value in sorted(first.provenance.items())},
        },
        "model_info": {
            "name": first.model.rpartition("/")[2],
            "id": first.model,
            "additional_details": {
                "deployment_type": "unknown",
                "model_availability": "unknown",
                "backend": first.backend,
                **{f"model of {role}": model for role, model in sorted(first.models.items())},
                **({"note": run.analysis.rule_based_note} if run.analysis.rule_based_note else {}),
            },
        },
        "evaluation_results": _build_results(run, arm, records),
    }


def _build_results(run: ExportedRun, arm: str, records: Sequence[UnitRecord]) -> list[dict[str, Any]]:
    metrics = {
        POINTS: ("points", 100.0, "Best accumulator of a unit's trials: sum of positive rewards."),
        SOLVED: ("proportion", 1.0, "Share of units that reached environment score 100 in any trial."),
    }
    first = records[0]
    results = []
    for name, (unit, most, description) in metrics.items():
        values = list_scores(records, name)
        if not values:
            continue
        results.append(
            {
                "evaluation_result_id": f"{arm}/{name}",
                "evaluation_name": f"{run.benchmark} {first.protocol}",
                "source_data": {"dataset_name": run.benchmark, "source_type": "other"},
                "metric_config": {
                    "evaluation_description": description,
                    "metric_id": f"rsso_dspy.{name}",
                    "metric_name": name,
                    "metric_unit": unit,
                    "score_type": "continuous",
                    "lower_is_better": False,
                    "min_score": 0.0,
                    "max_score": most,
                },
                "score_details": _build_score(values, most),
                "generation_config": {
                    "additional_details": {
                        "arm": arm,
                        "method": first.method,
                        "program": first.program,
                        "protocol": first.protocol,
                        "seeds": ", ".join(map(str, sorted({record.seed for record in records}))),
                        "trials allowed": str(run.analysis.plays[arm]),
                    }
                },
            }
        )
    return results


def _build_score(values: Sequence[tuple[str, float]], most: float) -> dict[str, Any]:
    numbers = [value for _, value in values]
    uncertainty: dict[str, Any] = {"num_samples": len(numbers)}
    if len(numbers) > 1:
        uncertainty["standard_deviation"] = stdev(numbers)
    if interval := bootstrap_scores(values, most):
        method = f"bootstrap over {interval.over}, expanded percentiles"
        uncertainty["standard_error"] = {"value": interval.error, "method": method}
        uncertainty["confidence_interval"] = {
            "lower": interval.low,
            "upper": interval.high,
            "confidence_level": LEVEL,
            "method": method,
        }
        uncertainty["num_bootstrap_samples"] = RESAMPLES
    return {"score": fmean(numbers), "uncertainty": uncertainty}


def _build_sample_records(run: ExportedRun, record: UnitRecord, evaluation: str) -> Iterator[dict[str, Any]]:
    """Yield one instance per metric, as the schema asks; none for an errored unit, which has no score."""
    if record.has_errors:
        return
    turns = [turn for trial in record.trials for turn in list_turns(trial)]
    messages = [
        {"turn_idx": number, "role": role, "content": text, "reasoning_trace": reasoning or None}
        for number, (role, text, reasoning) in enumerate(turns)
    ]
    usage = list(sum_unit_usage(record).values())
    tokens_in, tokens_out = sum(each.input for each in usage), sum(each.output for each in usage)
    scores = score_unit(record)
    for metric, score in scores.items():
        yield {
            "schema_version": SCHEMA,
            "evaluation_id": evaluation,
            "model_id": record.model,
            "evaluation_name": f"{run.benchmark} {record.protocol}",
            "evaluation_result_id": f"{record.arm}/{metric}",
            "sample_id": f"{record.key}/s{record.seed}",
            "interaction_type": "agentic",
            "input": {"raw": record.trajectories[0].task, "reference": []},
            "output": None,
            "messages": messages,
            "answer_attribution": [],
            "evaluation": {"score": score, "is_correct": bool(scores[SOLVED]), "num_turns": max(1, len(messages))},
            "token_usage": {
                "input_tokens": tokens_in,
                "output_tokens": tokens_out,
                "total_tokens": tokens_in + tokens_out,
            },
            "metadata": {"arm": record.arm, "task": record.variant.task, "seed": str(record.seed)},
        }


def _is_own_record(path: Path) -> bool:
    """Return whether a file is an aggregate of this package, or instances beside one."""
    file = path.with_name(path.name.replace("_samples.jsonl", ".json"))
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(data, dict) and (data.get("eval_library") or {}).get("name") == LIBRARY


EVERY_EVAL = ExportFormat(
    "every-eval-ever", build_every_eval_records, FileKind("record of Every Eval Ever", _is_own_record)
)
