"""Skill libraries of finished units, to show or export, and those that a run starts from.

library = export_library(load_skill_source(Path("runs/first"), "boil::22"))
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rsso_dspy.config import Config
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.experiment.guards import check_sources
from rsso_dspy.experiment.initial_memories import InitialMemories
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.files import make_json_kind
from rsso_dspy.memory.skills.library import (
    KIND,
    SkillLibraryFile,
    load_library,
    read_library,
    summarize_skill_usage,
)
from rsso_dspy.memory.skills.memory import SkillMemoryState, parse_skill_snapshot
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.memory_sources import sources_of
from rsso_dspy.store.run_folder import Store

LIBRARY = make_json_kind("skill library", KIND)


@dataclass(frozen=True, slots=True)
class SkillSource:
    """A finished unit or training with skills."""

    record: UnitRecord | TrainingRecord
    memory: dict[str, Any]
    """Snapshot of its skill memory, or of its training's for a unit that only read it."""
    embedder: str | None
    """The run's embedding model; None if unknown."""
    held: SkillMemoryState

    @property
    def accounts(self) -> list[dict[str, Any]]:
        """History of each skill as JSON data, the library first; use is counted over all trials."""
        return summarize_skill_usage(self.held, self.record.trajectories)

    @property
    def learnt_from(self) -> list[int]:
        """Trials that the library learned from, without a unit's last one unless its protocol includes it."""
        return [result.trial for result in self.record.trials if "skills" in result.learnt]


def load_skill_source(
    folder: Path, key: str, arm: str | None = None, left_out: Callable[[Store], None] = lambda _: None
) -> SkillSource:
    """Load the unit ``task::index`` or the training of a ``task`` of a run, by default of its first arm with skills.

    Changes nothing. `left_out` receives the unreadable files, as the store names them. Raises `UsageError` that says
    what exists instead and what to do.
    """
    store = Store(folder, read_only=True)
    identity, arms = store.read_identity()
    records: list[UnitRecord | TrainingRecord] = [*store.units()] if "::" in key else [*store.trainings()]
    left_out(store)
    if not records and "::" not in key:
        raise UsageError(f"{folder} holds no finished training; name a unit, TASK::VARIANT")
    record = _choose_record(records, folder, key, arm, arms)
    if record.has_errors:
        failed = record.trials[-1]
        raise UsageError(
            f"{key} of {record.arm} is not finished: trial {failed.trial} is an error ({failed.error}); "
            "repeat the run's command to play it again"
        )
    memory = record.memories.get("skills") or _load_training_skills(store, record)
    held, _ = parse_skill_snapshot(memory, f"{key} of {record.arm} in {folder}")
    settings = identity.get("config", {}).get("embedder")
    embedder = str(settings["model"]) if isinstance(settings, dict) and "model" in settings else None
    return SkillSource(record, memory, embedder, held)


def _load_training_skills(store: Store, record: UnitRecord | TrainingRecord) -> dict[str, Any]:
    assert isinstance(record, UnitRecord)
    trainings = [
        t for t in store.trainings() if (t.arm, t.task, t.seed) == (record.arm, record.variant.task, record.seed)
    ]
    if not trainings:
        raise UsageError(f"the training that {record.key} started from is missing; repeat the run's command")
    return trainings[0].memories["skills"]


def _has_skills(record: UnitRecord | TrainingRecord) -> bool:
    trained = isinstance(record, UnitRecord) and any(source.kind == "training" for source in record.sources)
    return "skills" in record.memories or (trained and "skills" in METHODS[record.method].memories)


def _choose_record(
    records: Sequence[UnitRecord | TrainingRecord], folder: Path, key: str, arm: str | None, arms: Collection[str]
) -> UnitRecord | TrainingRecord:
    again = "repeat the run's command to play the rest"
    if not records:
        raise UsageError(f"{folder} holds no finished unit yet; {again}")
    here = {record.arm: record for record in records if record.key == key}
    if not here:
        raise UnknownName("unit", key, {record.key for record in records}, f"Not finished yet? Then {again}.")
    with_skills = [name for name, record in here.items() if _has_skills(record)]
    if arm is None and with_skills:
        return here[with_skills[0]]
    if arm is not None and arm not in here:
        if arm in arms:
            raise UsageError(f"{key} of {arm} is not finished yet: {again}, or take --arm {', '.join(here)}")
        raise UnknownName("arm", arm, here)
    if arm in with_skills:
        return here[arm]
    keeping = ",".join(name for name, row in METHODS.items() if "skills" in row.memories)
    fix = f"--arm {' or '.join(with_skills)}" if with_skills else f"play it with --methods {keeping}"
    raise UsageError(f"{key} of {arm or ', '.join(here)} keeps no skills; {fix}")


def export_library(unit: SkillSource) -> SkillLibraryFile:
    """Export the library with its provenance."""
    record = unit.record
    before = record.learnt_on
    own = [trajectory.variant.key for trajectory in record.trajectories] if unit.learnt_from else []
    provenance: dict[str, Any] = {
        "protocol": record.protocol,
        "arm": record.arm,
        "method": record.method,
        "program": record.program,
        "backend": record.backend,
        "model": record.model,
        "rule_based": record.rule_based,
        "embedder": unit.embedder,
        "variants": list(dict.fromkeys([*before, *own])),
        "simplification": record.trajectories[0].variant.simplification,
        "seed": record.seed,
        "start": record.start,
        "trials": len(record.trials),
        "learnt_from": unit.learnt_from,
        "made_by": record.provenance,
    }
    return SkillLibraryFile(provenance, unit.memory)


def load_initial_skills(file: Path, config: Config, plan: Plan, say: Callable[[str], None]) -> InitialMemories:
    """Load the library that units of the plan start from.

    `say` receives a note on test variants that it was learned on. Raises `RunMismatch` if it was learned with another
    embedder or other settings, and what `check_sources` and `read_library` raise.
    """
    if not any("skills" in arm.method.memories for arm in {unit.arm for unit in plan.units}):
        raise UsageError(f"no method of this run uses skills, so {file} would go unused; drop --skills")
    library = read_library(file)
    sources = [str(key) for key in library.provenance.get("variants", ())]
    check_sources(file, library.provenance, sources, config, plan, say)
    settings = resolve_protocol(config).skills
    load_library(file, lambda _: np.zeros((0, 0)), settings, embedder=config.embedder.model)
    digest = hashlib.sha256(library.to_json().encode()).hexdigest()[:12]
    states = sum(len(piece["states"]) for piece in library.snapshot["pieces"])
    memories = {"skills": library.snapshot}
    return InitialMemories(memories, sources_of(memories, "file", file.name, digest), states, tuple(sources))
