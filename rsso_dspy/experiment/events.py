"""What happens while something is played, as typed events, and the stream that tells whoever wants to know.

    events = EventStream()
    events.subscribe(TrialFinished, lambda event: print(event.work.key, event.result.trial))
    run.play(live, jobs=2, events=events)

Subscribers are the ledger (`spend_limit.py`), the log (`run_log_writer.py`), MLflow (`mlflow_tracking.py`) and the
terminal (`cli/progress.py`). Events are data that travels between processes; they hold no prompt but those of a record.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from rsso_dspy.environments.start_queue import StartProgress
from rsso_dspy.records import Failure, TrainingRecord, TrialResult, UnitRecord, Usage
from rsso_dspy.store.units import Job

Ending = Literal["ended", "limit", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened. Whoever subscribes to this hears of everything."""


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """The folder of the run is ready; nothing is played yet."""

    left: tuple[str, ...]
    """Keys of what is to be played."""
    jobs: int
    engine: str
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Address to the proxy through which it is asked."""
    replay: str = ""
    """Folder of the recordings that answer in place of the models; empty when these are asked."""


@dataclass(frozen=True, slots=True)
class SimulatorsStarting(Event):
    """A simulator has started, others have to wait for theirs."""

    starting: StartProgress


@dataclass(frozen=True, slots=True)
class UsageSpent(Event):
    """An answer was paid for."""

    work: Job
    role: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunLimited(Event):
    """A limit of the run is passed, or cannot be kept: told with every answer that comes after."""

    why: str


@dataclass(frozen=True, slots=True)
class TrialFinished(Event):
    """A trial is finished, and noted."""

    work: Job
    result: TrialResult


@dataclass(frozen=True, slots=True)
class UnitFinished(Event):
    """A unit or training is finished and written."""

    work: Job
    record: UnitRecord | TrainingRecord


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """Ctrl-C: what is under way is being waited for."""


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """Nothing more will come."""

    how: Ending
    played: int = 0
    errored: int = 0
    untrained: int = 0
    why: str = ""
    """The limit that was passed, in words."""
    failure: Failure | None = None
    """The error of this project that ended it."""


E = TypeVar("E", bound=Event)
Subscriber = Callable[[Any], object]


class EventStream:
    """Tells events to its subscribers, one after the other, in the thread where they happen. Thread-safe."""

    def __init__(self) -> None:
        self._subscribers: tuple[tuple[type[Event], Subscriber, bool], ...] = ()
        self._changing = threading.RLock()  # a signal may come in between

    def subscribe(self, kind: type[E], hear: Callable[[E], object], required: bool = False) -> None:
        """Have `hear` told of every event of a kind, from any thread. It should be quick. Nothing depends on it: raises
        it an `Exception`, a warning says so and it hears no more. The errors of one that is `required` go on to where
        the event happened."""
        with self._changing:
            self._subscribers = (*self._subscribers, (kind, hear, required))

    def emit(self, event: Event) -> None:
        """Tell all who subscribed to it, in the order in which they did. Raises what the first of those raised that are
        required, once all have heard."""
        errors = []
        for subscriber in self._subscribers:
            kind, hear, required = subscriber
            if not isinstance(event, kind):
                continue
            try:
                hear(event)
            except Exception as error:
                if required:
                    errors.append(error)
                else:
                    self._drop(subscriber, error)
        if errors:
            raise errors[0]

    def _drop(self, subscriber: tuple[type[Event], Subscriber, bool], error: Exception) -> None:
        with self._changing:
            self._subscribers = tuple(each for each in self._subscribers if each is not subscriber)
        kind, hear, _ = subscriber
        name = getattr(hear, "__qualname__", repr(hear))
        warnings.warn(
            f"{name} hears of no {kind.__name__} any more ({type(error).__name__}: {error}); what is played goes on",
            RuntimeWarning,
            stacklevel=3,
        )
