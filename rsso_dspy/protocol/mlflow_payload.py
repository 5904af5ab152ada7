"""What a tracking server is told of a run: parameters, tags, and numbers per arm. No prompt is in it, nothing that was
said, no key and no address."""

import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rsso_dspy.backends import Backend
from rsso_dspy.errors import DamagedFile
from rsso_dspy.protocol.executor import fingerprints
from rsso_dspy.protocol.provenance import provenance
from rsso_dspy.reading import read_json
from rsso_dspy.redaction import redact
from rsso_dspy.report.tally import Tally
from rsso_dspy.trajectory import RULE_BASED_NOTE, SCHEMA_VERSION
from rsso_dspy.whole import write_whole

if TYPE_CHECKING:
    from rsso_dspy.protocol.held_out import HeldOut

ID_FILE = "mlflow.json"
"""Holds, in the folder of a run, what its MLflow run is found by."""


def numbers(tally: Tally) -> Iterator[tuple[str, float]]:
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


def parameters(planned: "HeldOut") -> dict[str, str]:
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
        **{f"model.{role}": model for role, model in planned.asked.items()},
    }
    return {key: redact(value)[:500] for key, value in values.items()}


def tags_of(planned: "HeldOut") -> dict[str, str]:
    """Where the numbers come from, and what they do not say."""
    tags = {f"rsso_dspy.{key}": value for key, value in provenance(planned.config).items()}
    tags |= {f"rsso_dspy.program.{name_of(arm)}": value for arm, value in fingerprints(planned.programs).items()}
    if planned.shard:
        tags["rsso_dspy.shard"] = planned.shard
    if Backend(planned.config.active_backend).rule_based:
        tags |= {"rsso_dspy.note": RULE_BASED_NOTE, "mlflow.note.content": RULE_BASED_NOTE}
    return {key: redact(value) for key, value in tags.items()}


def identity_of(folder: Path, write: Callable[[Path, str], None] = write_whole) -> str:
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
