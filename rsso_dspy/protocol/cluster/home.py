"""At home: the actor beside the driver, which holds the run's store for all workers."""

import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsso_dspy.errors import RssoError
from rsso_dspy.protocol.events import Event, UsageSpent
from rsso_dspy.protocol.place import Identity
from rsso_dspy.protocol.store import Store
from rsso_dspy.protocol.units import Work
from rsso_dspy.trajectory import Usage


class Home:
    """The run as its workers see it, an actor on the driver's node: the store, and what the driver wants to hear. Does
    one thing after another."""

    def __init__(self, folder: Path, identity: Identity | None):
        leave_interrupts()
        self._store = Store(folder)
        if identity:
            self._store.place.hold(identity)
        self._news: list[Event] = []
        self._stopping = False
        self._tickets: Counter[str] = Counter()
        self._begun: dict[str, Work] = {}

    def begin(self, work: Work) -> int:
        """The ticket of a task that begins to play this; those given before for it are void: their process is dead. 0
        when the run is being stopped."""
        self._store.recover_under_way(work)
        self._begun[work.key] = work
        self._tickets[work.key] += 1
        return 0 if self._stopping else self._tickets[work.key]

    def ask(self, key: str, ticket: int, method: str, *arguments: Any) -> Any:
        """What a method of the store gives, for the task that holds the valid ticket."""
        if ticket != self._tickets[key]:
            raise RssoError(f"{key} is played by another process")
        return getattr(self._store, method)(*arguments)

    def spent(self, work: Work, role: str, usage: Usage, trial: int) -> None:
        """An answer was paid for."""
        self._news.append(UsageSpent(work, role, usage))
        self._store.note_under_way(work, role, usage, trial)

    def tell(self, event: Event) -> None:
        """Something happened there."""
        self._news.append(event)

    def news(self) -> list[Event]:
        """What happened since this was asked last."""
        news, self._news = self._news, []
        return news

    def stop(self) -> None:
        """Have every task stop before its next step."""
        self._stopping = True

    def stopping(self) -> bool:
        return self._stopping

    def close(self) -> None:
        """Note what was paid for trials that nobody finishes any more."""
        for work in self._begun.values():
            self._store.recover_under_way(work)


def leave_interrupts() -> None:
    """Leave Ctrl-C to the driver: a terminal sends it to the processes of a cluster started here too."""
    with suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.SIG_IGN)
