"""What one session ran and was shown: a small JSON file in the user's folder, forgotten after two days.

Commands stand in it without values that are nobody's business, and with a mark of 16 bits, by which the same one is
known again.
"""

from __future__ import annotations

import json
import os
import time
from typing import NamedTuple
from zlib import crc32

from reflexion.store import Store, read_json, write_file

KEPT, MOST_COMMANDS, MOST_OPEN = 2 * 86_400.0, 40, 8
FIELDS = ("number", "began", "waiting", "silent", "ran", "open", "shown")


class Ran(NamedTuple):
    """A command that a session ran: as it is compared, and as it was typed, without what stood before and behind."""

    number: int
    command: str
    typed: str
    mark: int
    ok: bool
    began: float
    ended: float


class Failure(NamedTuple):
    """A command that failed and waits for what will help; `id` is its entry's."""

    id: str
    number: int
    command: str
    typed: str
    mark: int
    at: float
    until: int = 0
    """Number of the next run of the same command, at which its trigger did not come again; 0 while there was none."""
    edited: list[str] | None = None
    """Files that were edited up to that run; None where that is not known."""


class Shown(NamedTuple):
    """That an entry was recalled: how many commands had been run by then, how often, and whether what followed is
    counted."""

    number: int
    times: int
    settled: bool


class Session:
    """The state of one session; `save` keeps it."""

    def __init__(self, store: Store, name: str):
        self.folder = os.path.join(store.state, "sessions")
        self._path = os.path.join(self.folder, f"{crc32(name.encode('utf-8', 'replace')):08x}.json")
        data = read_json(self._path) or {}
        self.number: int = data.get("number", 0)
        self.began: float = data.get("began", 0.0)
        self.waiting: str = data.get("waiting", "")
        """A block that the host could not be told."""
        self.silent: dict[str, str] = data.get("silent", {})
        """Calls to their commands, of which the host did not say how they ended."""
        self.ran = [Ran(*row) for row in data.get("ran", [])]
        self.open = [Failure(*row) for row in data.get("open", [])]
        self.shown = {entry_id: Shown(*row) for entry_id, row in data.get("shown", {}).items()}

    def save(self) -> None:
        """Write it; old sessions are deleted when a new one begins."""
        if not os.path.exists(self._path):
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            for file in os.scandir(self.folder):
                if file.stat().st_mtime < time.time() - KEPT:
                    os.unlink(file.path)
        write_file(self._path, json.dumps({name: getattr(self, name) for name in FIELDS}))

    def add_command(self, command: str, typed: str, mark: int, ok: bool, now: float) -> int:
        """A command was run; its number."""
        self.number += 1
        began = self.began if self.began and (not self.ran or self.began >= self.ran[-1].ended) else now
        self.ran = [*self.ran, Ran(self.number, command, typed, mark, ok, began, now)][-MOST_COMMANDS:]
        self.began = 0.0
        return self.number

    def list_between(self, after: int, until: int = 0) -> list[Ran]:
        """Commands that were run after a number and before another."""
        return [ran for ran in self.ran if after < ran.number and (not until or ran.number < until)]

    def stop_waiting(self, entry_id: str) -> None:
        """A failure waits no longer."""
        self.open = [each for each in self.open if each.id != entry_id]

    def note_recall(self, entry_id: str) -> None:
        """An entry was recalled. What was run since the first recall that is not settled counts as run after it."""
        was = self.shown.get(entry_id, Shown(self.number, 0, True))
        self.shown[entry_id] = Shown(self.number if was.settled else was.number, was.times + 1, False)

    def settle(self, entry_id: str) -> None:
        """What followed a recall is counted."""
        self.shown[entry_id] = self.shown[entry_id]._replace(settled=True)


def count_silent_calls(store: Store) -> int:
    """Commands of the last days of which no host said how they ended."""
    folder = os.path.join(store.state, "sessions")
    files = (
        [read_json(os.path.join(folder, name)) or {} for name in os.listdir(folder)] if os.path.isdir(folder) else []
    )
    return sum(len(data.get("silent", {})) for data in files)
