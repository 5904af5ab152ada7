"""Typed events of a run, and the stream that delivers them to subscribers.

    events = EventStream()
    events.subscribe(TrialFinished, lambda event: print(event.work.key, event.result.trial))
    run.play(live, jobs=2, events=events)

Subscribers are the spend limit (`spend_limit.py`) and the terminal (`cli/progress.py`). Events are data that can be
sent between processes; they hold no prompts except in records.
"""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from rsso_dspy.environments.pool import StartProgress
from rsso_dspy.records import Failure, TrainingRecord, TrialResult, UnitRecord, Usage
from rsso_dspy.store.units import Job

Ending = Literal["ended", "limit", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class Event:
    """Base class of events; subscribe to it to receive all of them."""


@dataclass(frozen=True, slots=True)
class RunStarted(Event):
    """The folder of the run is ready, before any play."""

    left: tuple[str, ...]
    """Keys of the pending work."""
    jobs: int
    engine: str


@dataclass(frozen=True, slots=True)
class SimulatorsStarting(Event):
    """A simulator has started while others wait."""

    starting: StartProgress


@dataclass(frozen=True, slots=True)
class UsageSpent(Event):
    """An answer was paid for."""

    work: Job
    role: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class RunLimited(Event):
    """A limit of the run is exceeded or cannot be kept; sent after every further answer."""

    why: str


@dataclass(frozen=True, slots=True)
class TrialFinished(Event):
    """A trial is finished and saved."""

    work: Job
    result: TrialResult


@dataclass(frozen=True, slots=True)
class UnitFinished(Event):
    """A unit or training is finished and saved."""

    work: Job
    record: UnitRecord | TrainingRecord


@dataclass(frozen=True, slots=True)
class StopRequested(Event):
    """Ctrl-C was pressed; the run waits for current calls."""


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """The run has ended; no event follows."""

    how: Ending
    played: int = 0
    errored: int = 0
    untrained: int = 0
    why: str = ""
    """The exceeded limit, in words."""
    failure: Failure | None = None
    """The project's own error that ended the run."""


E = TypeVar("E", bound=Event)
Subscriber = Callable[[Any], object]


class EventStream:
    """Delivers events to subscribers in order, in the thread where they happen. Thread-safe."""

    def __init__(self) -> None:
        self._subscribers: tuple[tuple[type[Event], Subscriber, bool], ...] = ()
        self._changing = threading.RLock()  # a signal may come in between

    def subscribe(self, kind: type[E], hear: Callable[[E], object], required: bool = False) -> None:
        """Call `hear` with every event of a kind, from any thread; it should be fast.

        If it raises an `Exception`, it is dropped with a warning. Errors of a `required` subscriber propagate to the
        place of the event.
        """
        with self._changing:
            self._subscribers = (*self._subscribers, (kind, hear, required))

    def emit(self, event: Event) -> None:
        """Deliver an event to its subscribers in order of subscription.

        Afterwards raises the first error of a required subscriber.
        """
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
            f"{name} receives no more {kind.__name__} events ({type(error).__name__}: {error}); the run goes on",
            RuntimeWarning,
            stacklevel=3,
        )
