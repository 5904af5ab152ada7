"""Stalled trials, ended by a step that took too long: they keep their score and can be played again.

    list_stalled_jobs(plan, store)            # what `run --retry stalled` plays again
    discard_stalled_trials(plan, store)    # from now on it is pending

If a memory learned from a stalled trial, its unit is played again from the start; otherwise the earlier trials are
kept. Discarded trials stay on the bill.
"""

from dataclasses import replace

from rsso_dspy.experiment.plan import Plan
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.units import Job, Unit

STALLED = "stalled"


def list_stalled_jobs(plan: Plan, store: Store) -> list[Job]:
    """Return trainings and units with a stalled trial, and the units that started from such a training."""
    found: list[Job] = [
        training for training in plan.trainings if any(r.stalled_trials for r in _load_job_records(store, training))
    ]
    for unit in plan.units:
        records = _load_job_records(store, unit)
        if any(record.stalled_trials for record in records) or (records and plan.get_training(unit) in found):
            found.append(unit)
    return found


def discard_stalled_trials(plan: Plan, store: Store) -> None:
    """Discard their records except valid trials, and store the cost of the others as abandoned."""
    again = list_stalled_jobs(plan, store)
    for work in again:
        after_training = isinstance(work, Unit) and plan.get_training(work) in again
        records = _load_job_records(store, work)
        played = records[-1]  # the good trials of an errored unit, with the memories after them
        first = 0 if after_training else next((n for n, each in enumerate(played.trials) if each.stalled), 0)
        has_learned = work.arm.method.is_in_stream or any(trial.learnt for trial in played.trials[first:])
        kept = 0 if has_learned else first
        trials = {trial.trial: trial for record in records for trial in record.trials}
        for number, trial in sorted(trials.items()):
            if number > kept:
                store.note_abandoned(work.arm.name, work.key, trial.usage)
        path = store.path_of(work)
        if kept:
            store.save_started(replace(played, trials=played.trials[:kept]))
        else:
            store.started_path(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _load_job_records(store: Store, work: Job) -> list[UnitRecord | TrainingRecord]:
    path = store.path_of(work)
    return [record for each in (path, store.started_path(path)) if (record := store.load_either(each))]
