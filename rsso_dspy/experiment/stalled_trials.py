"""Trials that a step ended which took too long: scored by what they had until then, and played again on demand.

    list_stalled_jobs(plan, store)            # what `run --retry stalled` plays again
    discard_stalled_trials(plan, store)    # from now on it is missing

A memory that learnt from such a trial has no way back: its unit is played again from its beginning. Where none did, the
trials before it stand. Whatever is given up was paid for, and stays in the bill.
"""

from collections.abc import Sequence
from dataclasses import replace

from rsso_dspy.experiment.plan import Plan
from rsso_dspy.records import TrainingRecord, TrialResult, UnitRecord
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.units import Job, Training, Unit

STALLED = "stalled"


def list_stalled_jobs(plan: Plan, store: Store) -> list[Job]:
    """Trainings and units of the plan in which a trial stalled, finished or begun, and the units that started from such
    a training."""
    found: list[Job] = [
        training for training in plan.trainings if any(r.stalled_trials for r in _load_job_records(store, training))
    ]
    for unit in plan.units:
        records = _load_job_records(store, unit)
        if any(record.stalled_trials for record in records) or (records and plan.get_training(unit) in found):
            found.append(unit)
    return found


def discard_stalled_trials(plan: Plan, store: Store) -> None:
    """Take back their records, but for the trials that stand; what the others cost is noted."""
    again = list_stalled_jobs(plan, store)
    for work in again:
        after_training = isinstance(work, Unit) and plan.get_training(work) in again
        records = _load_job_records(store, work)
        played = records[-1]  # of an errored unit its good trials, with the memories after them
        first = 0 if after_training else next((n for n, each in enumerate(played.trials) if each.stalled), 0)
        kept = first if first and _has_unchanged_memories(work, played, first) else 0
        for trial in _select_discarded_trials(records, kept):
            store.note_abandoned(work.arm.name, work.key, trial.usage)
        path = store.path_of(work)
        if kept:
            store.save_started(replace(played, trials=played.trials[:kept]))
        else:
            store.started_path(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _load_job_records(store: Store, work: Job) -> list[UnitRecord | TrainingRecord]:
    """The record, if there is one, and the trials noted so far, if there are some."""
    path = store.path_of(work)
    load = store.load_training if isinstance(work, Training) else store.load
    found = (load(path), load(store.started_path(path)))
    return [record for record in found if record is not None]


def _select_discarded_trials(records: Sequence[UnitRecord | TrainingRecord], kept: int) -> list[TrialResult]:
    """Every trial after the first `kept`, each once."""
    trials = {trial.trial: trial for record in records for trial in record.trials}
    return [trial for number, trial in sorted(trials.items()) if number > kept]


def _has_unchanged_memories(work: Job, played: UnitRecord | TrainingRecord, first: int) -> bool:
    """Whether the memories after the last trial are those before the stalled one: nobody learnt from it or later, and
    no constitution was written on the way."""
    return work.arm.method.writing is None and not any(trial.learnt for trial in played.trials[first:])
