"""What a tracking server is told of a run: parameters, tags, and numbers per arm. No prompt is in it, nothing that was
said, no key and no address."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rsso_dspy.atomic import atomic_write_text
from rsso_dspy.errors import DamagedFile
from rsso_dspy.experiment.executor import fingerprint_programs
from rsso_dspy.experiment.provenance import make_provenance
from rsso_dspy.lm import Backend
from rsso_dspy.records import RULE_BASED_NOTE, SCHEMA_VERSION
from rsso_dspy.redaction import redact
from rsso_dspy.report.running_totals import RunningTotals
from rsso_dspy.safe_read import read_json

if TYPE_CHECKING:
    from rsso_dspy.experiment.run import Run

ID_FILE = "mlflow.json"
"""Holds, in the folder of a run, what its MLflow run is found by."""


def build_metrics(tally: RunningTotals) -> Iterator[tuple[str, float]]:
    """The metrics of an arm, by name. Tokens and US dollars are those of what is finished."""
    values = {
        "units": len(tally.units),
        "errored": len(tally.errored),
        "mean": tally.mean,
        "trial_1": tally.trial_1,
        "solve_share": tally.solve_share,
        "tokens_in": tally.spent.input,
        "tokens_out": tally.spent.output,
        "cost_usd": tally.spent.cost,
        **({"trainings": len(tally.trainings)} if tally.trainings else {}),
    }
    for name, value in values.items():
        if value is not None:
            yield name, float(value)


def build_parameters(planned: "Run") -> dict[str, str]:
    """What was asked for."""
    plan, config = planned.plan, planned.config
    arms = [unit.arm for unit in plan.units]
    values = {
        "backend": config.backend,
        "protocol": plan.protocol,
        "seed": str(config.seed),
        "trials": str(plan.rules.trials),
        "variants": str(len({unit.variant for unit in plan.units})),
        "methods": ",".join(dict.fromkeys(arm.method.name for arm in arms)),
        "programs": ",".join(dict.fromkeys(arm.program for arm in arms)),
        "embedder": config.embedder.model,
        **{f"model.{role}": model for role, model in planned.models_in_use.items()},
    }
    return {key: redact(value)[:500] for key, value in values.items()}


def build_tags(planned: "Run") -> dict[str, str]:
    """Where the numbers come from, and what they do not say."""
    tags = {f"rsso_dspy.{key}": value for key, value in make_provenance(planned.config).items()}
    tags |= {
        f"rsso_dspy.program.{name_of(arm)}": value for arm, value in fingerprint_programs(planned.programs).items()
    }
    if planned.shard:
        tags["rsso_dspy.shard"] = planned.shard
    if Backend(planned.config.active_backend).rule_based:
        tags |= {"rsso_dspy.note": RULE_BASED_NOTE, "mlflow.note.content": RULE_BASED_NOTE}
    return {key: redact(value) for key, value in tags.items()}


def ensure_mlflow_id(folder: Path, write: Callable[[Path, str], None] = atomic_write_text) -> str:
    """What the folder's MLflow run is found by, wherever the folder goes."""
    file = folder / ID_FILE
    try:
        return uuid.UUID(read_json(file)["id"]).hex
    except (OSError, DamagedFile, ValueError, KeyError, TypeError, AttributeError):
        known = uuid.uuid4().hex
        write(file, json.dumps({"schema": SCHEMA_VERSION, "id": known}) + "\n")
        return known


def name_of(arm: str) -> str:
    """The arm in letters that a name may hold there."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", arm)[:200]
