"""Data of a run for a tracking server: parameters, tags and metrics per arm, without prompts, answers, keys or
addresses."""

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
"""File in a run's folder with the tag that identifies its MLflow run."""


def build_metrics(tally: RunningTotals) -> Iterator[tuple[str, float]]:
    """Return the metrics of an arm by name. Tokens and US dollars cover finished units."""
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
    """Return the parameters of the run."""
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
    """Return tags on the origin and limits of the numbers."""
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
    """Return the tag of the folder's MLflow run, which moves with the folder."""
    file = folder / ID_FILE
    try:
        return uuid.UUID(read_json(file)["id"]).hex
    except (OSError, DamagedFile, ValueError, KeyError, TypeError, AttributeError):
        known = uuid.uuid4().hex
        write(file, json.dumps({"schema": SCHEMA_VERSION, "id": known}) + "\n")
        return known


def name_of(arm: str) -> str:
    """Return the arm in characters that MLflow allows in names."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", arm)[:200]
