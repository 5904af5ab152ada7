"""Writes the events of a run to `run.log.jsonl`, one JSON object per line, for observers of the run.

    {"schema": 1, "time": "2026-01-31T12:00:00.123+00:00", "event": "trial", "unit": "rsso/boil::22/s0", ...}

started     pending work, jobs, engine, proxies of addresses, and the recordings that answer
simulators  number ready and wanted, if some wait to start
trial       outcome, points, steps, tokens and failed requests by kind
unit, training      saved, with its best score or error
limit, interrupted, failed      why the run ended early
ended       numbers played, errored and not played

Results come from the records, not from this log, which `run_log.py` reads. It holds no prompts or answers.
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
    """Subscribe the log to the events of a run.

    A write error stops the run, unless another error is already ending it.
    """

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
    """Log the end; errors other than this project's are defects and are not logged."""
    if event.how == "ended":
        counts = {"played": event.played, "errored": event.errored, "untrained": event.untrained}
        store.note_event("ended", counts)
    elif event.how != "failed" or event.failure:
        why = {"limit": {"why": event.why}, "failed": {"error": str(event.failure)}}.get(event.how, {})
        with suppress(FolderGone, OSError):
            store.note_event(event.how, why)
