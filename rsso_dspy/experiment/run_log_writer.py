"""What happens in a run, as it happens: one JSON object per line in `run.log.jsonl`, for whoever watches from outside.

    {"schema": 1, "time": "2026-01-31T12:00:00.123+00:00", "event": "trial", "unit": "rsso/boil::22/s0", ...}

started     what is left, how many at once, on which engine, through which proxies to which addresses, and
            whose recordings answer
simulators  how many are ready of those wanted, where some have to wait for theirs to start
trial       outcome, points, steps, tokens and failed requests by kind
unit, training      it is written: its best score, or its error
limit, interrupted, failed      why the run ended before its end
ended       how many were played, errored and left unplayed

Results are the records, not this; `run_log.py` reads it. It holds no prompt and nothing that was said.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from rsso_dspy.errors import FolderGone
from rsso_dspy.experiment.events import (
    E,
    EventStream,
    RunEnded,
    RunStarted,
    SimulatorsStarting,
    TrialFinished,
    UnitFinished,
)
from rsso_dspy.records import TrialResult, UnitRecord
from rsso_dspy.store.unit_store import Store


def write_log(store: Store, events: EventStream) -> None:
    """Have the log of a run written. It is required: a run whose folder cannot be written to is stopped. Only what ends
    it before its end is said rather than that nobody could note it."""

    def note(kind: type[E], name: str, details: Callable[[E], Mapping[str, Any]]) -> None:
        events.subscribe(kind, lambda event: store.note_event(name, details(event)), required=True)

    def note_unit(event: UnitFinished) -> None:
        store.note_event("unit" if isinstance(event.record, UnitRecord) else "training", _of_unit(event))

    note(RunStarted, "started", _of_start)
    note(SimulatorsStarting, "simulators", lambda e: {"ready": e.starting.ready, "wanted": e.starting.wanted})
    note(TrialFinished, "trial", _of_trial)
    events.subscribe(UnitFinished, note_unit, required=True)
    events.subscribe(RunEnded, lambda event: _note_end(store, event), required=True)


def _of_start(event: RunStarted) -> dict[str, Any]:
    ways: dict[str, Any] = {"proxies": dict(event.proxies)} if event.proxies else {}
    ways |= {"replay": event.replay} if event.replay else {}
    return {"left": list(event.left), "jobs": event.jobs, "engine": event.engine, **ways}


def _of_trial(event: TrialFinished) -> dict[str, Any]:
    spent = event.result.usage.values()
    return {
        "unit": event.work.key,
        "trial": event.result.trial,
        **_describe_outcome(event.result),
        "tokens": {"input": sum(usage.input for usage in spent), "output": sum(usage.output for usage in spent)},
        "failures": event.result.failures,
    }


def _describe_outcome(result: TrialResult) -> dict[str, Any]:
    trajectory = result.trajectory
    if trajectory is None:
        return {"error": result.error}
    return {
        "variant": trajectory.variant.key,
        "outcome": trajectory.outcome,
        "accumulator": trajectory.accumulator,
        "environment_score": trajectory.environment_score,
        "steps": len(trajectory.steps),
    }


def _of_unit(event: UnitFinished) -> dict[str, Any]:
    record = event.record
    best = max((trajectory.accumulator for trajectory in record.trajectories), default=None)
    error = record.trials[-1].error if record.has_errors else None
    return {"unit": event.work.key, "trials": len(record.trials), "best": best, "error": error}


def _note_end(store: Store, event: RunEnded) -> None:
    """An error that is not this project's is a defect, of which nothing is noted."""
    if event.how == "ended":
        counts = {"played": event.played, "errored": event.errored, "untrained": event.untrained}
        store.note_event("ended", counts)
    elif event.how != "failed" or event.failure:
        why = {"limit": {"why": event.why}, "failed": {"error": str(event.failure)}}.get(event.how, {})
        with suppress(FolderGone, OSError):
            store.note_event(event.how, why)
