"""Stalled trials, ended by a step that took too long: they keep their score and can be played again.

    list_stalled_jobs(plan, store)         # what `run --retry stalled` plays again
    void_stalled_trials(plan, store)       # from now on it is pending

If a memory learned from a stalled trial, its unit is played again from the start; otherwise the earlier trials are
kept. Void trials stay on the bill.
"""

from rsso_dspy.experiment.plan import Plan
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.units import Job, Unit


def list_stalled_jobs(plan: Plan, store: Store) -> list[Job]:
    """Return trainings and units with a stalled trial, and the units that started from such a training."""
    found: list[Job] = [training for training in plan.trainings if _count_stalled(store, training)]
    for unit in plan.units:
        stalled = _count_stalled(store, unit)
        if stalled or (stalled is not None and plan.get_training(unit) in found):
            found.append(unit)
    return found


def void_stalled_trials(plan: Plan, store: Store) -> None:
    """Void them, and what was learned from them."""
    again = list_stalled_jobs(plan, store)
    for work in again:
        log = store.open_log(work)
        after_training = isinstance(work, Unit) and plan.get_training(work) in again
        first = 0 if after_training else next((n for n, each in enumerate(log.results) if each.stalled), 0)
        has_learned = work.arm.method.is_in_stream or any(trial.learnt for trial in log.results[first:])
        log.void(1 if has_learned else first + 1, "a trial stalled")


def _count_stalled(store: Store, work: Job) -> int | None:
    """Return the number of stalled trials; None for work without a trial."""
    record = store.load_begun_work(work)
    return None if record is None else record.stalled_trials
