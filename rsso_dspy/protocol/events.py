"""What happens in a run, as it happens: one JSON object per line in `run.log.jsonl`, for whoever watches from outside.

    {"schema": 1, "time": "2026-01-31T12:00:00.123+00:00", "event": "trial", "unit": "rsso/boil::22/s0", ...}

started     what is left, how many at once, on which engine
trial       outcome, points, steps, tokens and failed requests by kind
unit, training      it is written: its best score, or its error
limit, interrupted, failed      why the run ended before its end
ended       how many were played, errored and left unplayed

Nothing is read back from it: results are the records. It holds no prompt and nothing that was said.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rsso_dspy.errors import LimitReached, RssoError, Stopped
from rsso_dspy.protocol.executor import Observer, Outcome
from rsso_dspy.protocol.plan import Work
from rsso_dspy.protocol.store import Store
from rsso_dspy.trajectory import TrainingRecord, TrialResult, UnitRecord

Told = Callable[[Work, TrialResult], None]


class EventLog:
    """Writes down what an `Observer` and a player's `told` are told, and tells them."""

    def __init__(self, store: Store, observer: Observer, told: Told):
        self._store = store
        self._observer = observer
        self._told = told

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
        self._observer.finished(work, record)

    def stopping(self) -> None:
        """Ctrl-C: what is under way is being waited for."""
        self._observer.stopping()

    @contextmanager
    def run(self, **about: Any) -> Iterator[Callable[[Outcome], None]]:
        """The block is the run. Give what it yields the outcome."""
        self._note("started", **about)
        try:
            yield lambda outcome: self._note(
                "ended", played=outcome.played, errored=len(outcome.errored), untrained=len(outcome.untrained)
            )
        except (LimitReached, Stopped) as why:
            self._note("limit", why=str(why))
            raise
        except KeyboardInterrupt:
            self._note("interrupted")
            raise
        except RssoError as error:
            self._note("failed", error=f"{type(error).__name__}: {error}")
            raise

    def _note(self, event: str, **details: Any) -> None:
        self._store.note_event(event, details)


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
