"""Finds records of a run that are still valid under another configuration.

    for record in find_reusable_records(Store(old), plan, identity, programs): ...

A unit depends on the whole configuration except what its method never reads: settings of the skill memory and the
embedder do not affect a method without skills. A unit in a stream is valid as long as all before it are. The number of
trials matters only if they were used up: a solved unit would be the same with more of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from rsso_dspy.experiment.plan import Plan
from rsso_dspy.programs.methods import Method
from rsso_dspy.programs.modules import get_role
from rsso_dspy.programs.roles import MEMORIES, list_modules
from rsso_dspy.records import SOLVED_SCORE, TrainingRecord, UnitRecord
from rsso_dspy.store.run_file import flatten_keys
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.units import Job, Training, Unit

DERIVED = ("protocol", "config_hash", "config.protocol.trials")
"""Keys that follow from others, and the number of trials, which is checked per record."""

NEEDED_FOR = {
    "skills": ("config.memory.skills.", "carried.skills"),
    "verbalizer": (".roles.verbalizer.",),
    "embedder": ("config.embedder.",),
    "reflections": ("config.memory.reflections",),
    "reflector": (".roles.reflector.",),
    "entries": ("config.memory.entries.",),
    "anything learned": ("config.protocol.train_", "config.protocol.learn_after_", "config.protocol.frozen"),
    "constitution": ("config.memory.constitution.", "carried.constitution"),
    "advisor": (".roles.advisor.",),
    "stream": ("config.protocol.stream_trials",),
    "optimizers": (".roles.proposer.",),
}
"""Parts of a configuration by the memories, roles and others that read them."""


def find_reusable_records(
    source: Store, plan: Plan, identity: Mapping[str, Any], programs: Mapping[str, str]
) -> Iterator[UnitRecord | TrainingRecord]:
    """Yield finished units and trainings of `source` that the plan would reproduce, as records of the new run.

    `programs` maps each arm to its program's fingerprint. Raises `UsageError` if `source` holds no run.
    """
    known, there = source.read_identity()
    valid = {
        arm.name
        for arm in dict.fromkeys(unit.arm for unit in plan.units)
        if there.get(arm.name) == programs[arm.name]
        and _select_relevant_settings(known, arm.method) == _select_relevant_settings(identity, arm.method)
    }
    everything: list[Job] = [*plan.trainings, *plan.units]
    taken: set[Job] = set()
    for work in everything:
        before = plan.get_previous_unit(work) if isinstance(work, Unit) else None
        readable = work.arm.name in valid and (before is None or before in taken)
        record = source.load_either(source.path_of(work)) if readable else None
        if record is not None and not record.has_errors and _is_reusable(work, record, plan):
            taken.add(work)
            if isinstance(record, UnitRecord) and isinstance(work, Unit):
                record = replace(record, trials_allowed=plan.get_rules(work).trials)
            provenance = {
                **record.provenance,
                "config_hash": str(identity["config_hash"]),
                "forked_from": str(known["config_hash"]),
            }
            yield replace(record, protocol=plan.protocol, provenance=provenance)


def _is_reusable(work: Job, record: UnitRecord | TrainingRecord, plan: Plan) -> bool:
    if isinstance(work, Training):
        assert isinstance(record, TrainingRecord)
        return record.budgets == work.budgets
    assert isinstance(record, UnitRecord)
    if record.budget != work.budget or record.variant != work.variant:
        return False
    if work.place and (record.stream is None or record.stream.name != work.place):
        return False
    played, allowed = len(record.trials), plan.get_rules(work).trials
    solved = plan.rules.stop_on_success and record.trajectories[-1].environment_score >= SOLVED_SCORE
    return played == allowed or (solved and played < allowed)


def _select_relevant_settings(identity: Mapping[str, Any], method: Method) -> dict[str, Any]:
    """Return the settings that units of the method depend on."""
    looks_at = {*method.memories, *(get_role(name) for name in list_modules(method))}
    looks_at |= {"anything learned"} if method.memories else set()
    looks_at |= {part for name in method.memories for part in MEMORIES[name].reads}
    improved = flatten_keys(identity).get("config.memory.reflections.improvements")
    looks_at |= {"embedder"} if improved and "reflections" in looks_at else set()
    looks_at |= {"stream"} if method.is_in_stream or "constitution" in looks_at else set()
    looks_at |= {"advisor"} if "constitution" in looks_at else set()
    ignored = [part for who, parts in NEEDED_FOR.items() if who not in looks_at for part in parts]

    def is_ignored(key: str) -> bool:
        return any(part in key if part.startswith(".") else key.startswith(part) for part in ignored)

    return {k: v for k, v in flatten_keys(identity).items() if k not in DERIVED and not is_ignored(k)}
