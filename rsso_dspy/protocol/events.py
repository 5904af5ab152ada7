"""What happens in a run, as it happens: one JSON object per line in `run.log.jsonl`, for whoever watches from outside.

    {"schema": 1, "time": "2026-01-31T12:00:00.123+00:00", "event": "trial", "unit": "rsso/boil::22/s0", ...}

started     what is left, how many at once, on which engine, through which proxies to which addresses
simulators  how many are ready of those wanted, where some have to wait for theirs to start
trial       outcome, points, steps, tokens and failed requests by kind
unit, training      it is written: its best score, or its error
limit, interrupted, failed      why the run ended before its end
ended       how many were played, errored and left unplayed

Results are the records, not this; `runlog.py` reads it. It holds no prompt and nothing that was said. Whoever else
wants to know, such as a tracking server, listens.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal, Protocol

from rsso_dspy.environments.starts import Starting
from rsso_dspy.errors import FolderGone, LimitReached, RssoError, Stopped
from rsso_dspy.protocol.executor import Observer, Outcome
from rsso_dspy.protocol.store import Store
from rsso_dspy.protocol.units import Work
from rsso_dspy.trajectory import TrainingRecord, TrialResult, UnitRecord

Told = Callable[[Work, TrialResult], None]

End = Literal["ended", "limit", "interrupted", "failed"]


class Listener(Protocol):
    """Hears of a run that goes on. It is quick, it raises nothing, and the run never depends on it."""

    def begun(self) -> None:
        """The folder of the run is ready; nothing is played yet."""
        ...

    def finished(self, record: UnitRecord | TrainingRecord) -> None:
        """A unit or training is written."""
        ...

    def ended(self, how: End) -> None:
        """Nothing more will come."""
        ...


class EventLog:
    """Writes down what an `Observer` and a player's `told` are told, and tells them and the listeners."""

    def __init__(self, store: Store, observer: Observer, told: Told, listeners: Sequence[Listener] = ()):
        self._store = store
        self._observer = observer
        self._told = told
        self._listeners = listeners

    def trial(self, work: Work, result: TrialResult) -> None:
        """A trial is finished."""
        spent = result.usage.values()
        tokens = {"input": sum(usage.input for usage in spent), "output": sum(usage.output for usage in spent)}
        self._note(
            "trial", unit=work.key, trial=result.trial, **_outcome(result), tokens=tokens, failures=result.failures
        )
        self._told(work, result)

    def finished(self, work: Work, record: UnitRecord | TrainingRecord) -> None:
        """A unit or training is written."""
        best = max((trajectory.accumulator for trajectory in record.trajectories), default=None)
        error = record.trials[-1].error if record.errored else None
        kind = "unit" if isinstance(record, UnitRecord) else "training"
        self._note(kind, unit=work.key, trials=len(record.trials), best=best, error=error)
        for listener in self._listeners:
            listener.finished(record)
        self._observer.finished(work, record)

    def starting(self, starting: Starting) -> None:
        """A simulator has started, others have to wait for theirs."""
        self._note("simulators", ready=starting.ready, wanted=starting.wanted)
        self._observer.starting(starting)

    def stopping(self) -> None:
        """Ctrl-C: what is under way is being waited for."""
        self._observer.stopping()

    @contextmanager
    def run(self, **about: Any) -> Iterator[Callable[[Outcome], None]]:
        """The block is the run. Give what it yields the outcome."""
        self._note("started", **about)
        for listener in self._listeners:
            listener.begun()
        how: End = "failed"
        try:
            yield lambda outcome: self._note(
                "ended", played=outcome.played, errored=len(outcome.errored), untrained=len(outcome.untrained)
            )
            how = "ended"
        except (LimitReached, Stopped) as why:
            how = "limit"
            self._note_end("limit", why=str(why))
            raise
        except KeyboardInterrupt:
            how = "interrupted"
            self._note_end("interrupted")
            raise
        except RssoError as error:
            self._note_end("failed", error=f"{type(error).__name__}: {error}")
            raise
        finally:
            for listener in self._listeners:
                listener.ended(how)

    def _note(self, event: str, **details: Any) -> None:
        self._store.note_event(event, details)

    def _note_end(self, event: str, **details: Any) -> None:
        """What ends the run is said, not that nobody could note it."""
        with suppress(FolderGone, OSError):
            self._note(event, **details)


def _outcome(result: TrialResult) -> dict[str, Any]:
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
