"""The actor on the driver's node that holds the run's store for all workers."""

import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile, RssoError
from rsso_dspy.experiment.events import Event
from rsso_dspy.files import read_bytes
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.units import Job


class StoreActor:
    """The store and the event queue of a run for its workers, on the driver's node. Handles calls one by one."""

    def __init__(self, folder: Path):
        ignore_interrupts()
        self._store = Store(folder)
        self._store.hold()
        self._news: list[Event] = []
        self._stopping = False
        self._tickets: Counter[str] = Counter()

    def issue_ticket(self, work: Job) -> int:
        """Return the ticket of a starting task; 0 if the run is being stopped.

        Earlier tickets for the same work become void, because their process is dead.
        """
        self._tickets[work.key] += 1
        return 0 if self._stopping else self._tickets[work.key]

    def open_log(self, work: Job) -> bytes:
        """Return the content of a log that is about to be played on."""
        log = self._store.open_log(work)
        with suppress(FileNotFoundError, DamagedFile):
            return read_bytes(log.path)
        return b""

    def append_text(self, work: Job, ticket: int, text: str) -> None:
        """Append to the log of the task with the valid ticket."""
        if ticket != self._tickets[work.key]:
            raise RssoError(f"{work.key} is played by another process")
        self._store.append_text(self._store.path_of(work), text)

    def load(self, work: Job) -> Any:
        """Return the record of finished work; None if there is none."""
        return self._store.load(work)

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


def ignore_interrupts() -> None:
    """Leave Ctrl-C to the driver; a terminal also sends it to a local cluster's processes."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
