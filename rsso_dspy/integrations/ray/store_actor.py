"""The actor on the driver's node that holds the run's store for all workers."""

import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsso_dspy.errors import RssoError
from rsso_dspy.experiment.events import Event, UsageSpent
from rsso_dspy.records import Usage
from rsso_dspy.store.guarded_folder import Identity
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.units import Job


class StoreActor:
    """The store and the event queue of a run for its workers, on the driver's node. Handles calls one by one."""

    def __init__(self, folder: Path, identity: Identity | None):
        ignore_interrupts()
        self._store = Store(folder)
        if identity:
            self._store.place.hold(identity)
        self._news: list[Event] = []
        self._stopping = False
        self._tickets: Counter[str] = Counter()
        self._begun: dict[str, Job] = {}

    def issue_ticket(self, work: Job) -> int:
        """Return the ticket of a starting task; 0 if the run is being stopped.

        Earlier tickets for the same work become void, because their process is dead.
        """
        self._store.recover_under_way(work)
        self._begun[work.key] = work
        self._tickets[work.key] += 1
        return 0 if self._stopping else self._tickets[work.key]

    def call_store(self, key: str, ticket: int, method: str, *arguments: Any) -> Any:
        """Call a method of the store for the task with the valid ticket."""
        if ticket != self._tickets[key]:
            raise RssoError(f"{key} is played by another process")
        return getattr(self._store, method)(*arguments)

    def report_usage(self, work: Job, role: str, usage: Usage, trial: int) -> None:
        """Store the cost of an answer."""
        self._news.append(UsageSpent(work, role, usage))
        self._store.note_under_way(work, role, usage, trial)

    def tell(self, event: Event) -> None:
        """Queue an event."""
        self._news.append(event)

    def drain_events(self) -> list[Event]:
        """Return the events since the last call."""
        news, self._news = self._news, []
        return news

    def request_stop(self) -> None:
        """Stop every task before its next step."""
        self._stopping = True

    def is_stopping(self) -> bool:
        return self._stopping

    def close(self) -> None:
        """Store the cost of trials that will not be finished as abandoned."""
        for work in self._begun.values():
            self._store.recover_under_way(work)


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver; a terminal also sends it to a local cluster's processes."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
