"""Trials that a step ended which took too long: scored by what they had until then, and played again on demand.

    stalled(plan, store)            # what `run --retry stalled` plays again
    give_up_stalled(plan, store)    # from now on it is missing

A memory that learnt from such a trial has no way back: its unit is played again from its beginning. Where none did, the
trials before it stand. Whatever is given up was paid for, and stays in the bill.
"""

from collections.abc import Sequence
from dataclasses import replace

from rsso_dspy.protocol.plan import Plan
from rsso_dspy.protocol.store import Store
from rsso_dspy.protocol.units import Training, Unit, Work
from rsso_dspy.trajectory import TrainingRecord, TrialResult, UnitRecord

STALLED = "stalled"


def stalled(plan: Plan, store: Store) -> list[Work]:
    """Trainings and units of the plan in which a trial stalled, finished or begun, and the units that started from such
    a training."""
    found: list[Work] = [training for training in plan.trainings if any(r.stalled for r in _played(store, training))]
    for unit in plan.units:
        records = _played(store, unit)
        if any(record.stalled for record in records) or (records and plan.training_of(unit) in found):
            found.append(unit)
    return found


def give_up_stalled(plan: Plan, store: Store) -> None:
    """Take back their records, but for the trials that stand; what the others cost is noted."""
    again = stalled(plan, store)
    for work in again:
        after_training = isinstance(work, Unit) and plan.training_of(work) in again
        records = _played(store, work)
        played = records[-1]  # of an errored unit its good trials, with the memories after them
        first = 0 if after_training else next((n for n, each in enumerate(played.trials) if each.stalled), 0)
        kept = first if first and _unmoved(work, played, first) else 0
        for trial in _lost(records, kept):
            store.note_abandoned(work.arm.name, work.key, trial.usage)
        path = store.path_of(work)
        if kept:
            store.save_started(replace(played, trials=played.trials[:kept]))
        else:
            store.started(path).unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _played(store: Store, work: Work) -> list[UnitRecord | TrainingRecord]:
    """The record, if there is one, and the trials noted so far, if there are some."""
    path = store.path_of(work)
    load = store.load_training if isinstance(work, Training) else store.load
    found = (load(path), load(store.started(path)))
    return [record for record in found if record is not None]


def _lost(records: Sequence[UnitRecord | TrainingRecord], kept: int) -> list[TrialResult]:
    """Every trial after the first `kept`, each once."""
    trials = {trial.trial: trial for record in records for trial in record.trials}
    return [trial for number, trial in sorted(trials.items()) if number > kept]


def _unmoved(work: Work, played: UnitRecord | TrainingRecord, first: int) -> bool:
    """Whether the memories after the last trial are those before the stalled one: nobody learnt from it or later, and
    no constitution was written on the way."""
    return work.arm.method.writing is None and not any(trial.learnt for trial in played.trials[first:])
