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

KEPT, MOST_COMMANDS = 2 * 86_400.0, 40


class Ran(NamedTuple):
    """A command that a session ran: as it is compared, and as it was typed, without what stood before and behind.

    One that failed and waits for what will help has its entry's `id`; `until` is the number of the next run of the same
    command, at which the trigger did not come again, `edited` whether files were edited up to it, None if not known."""

    number: int
    command: str
    typed: str
    mark: int
    ok: bool
    began: float
    ended: float
    id: str = ""
    until: int = 0
    edited: bool | None = None


class Shown(NamedTuple):
    """An entry was recalled: commands that had been run by then, how often, and whether what followed is counted."""

    number: int
    times: int
    settled: bool


class Session:
    """The state of one session; `save` keeps it."""

    def __init__(self, store: Store, name: str):
        self._path = os.path.join(store.state, "sessions", f"{crc32(name.encode('utf-8', 'replace')):08x}.json")
        data = read_json(self._path)
        self.began: float = data.get("began", 0.0)
        self.waiting: str = data.get("waiting", "")
        self.silent: dict[str, str] = data.get("silent", {})
        self.ran = [Ran(*row) for row in data.get("ran", [])]
        self.shown = {entry_id: Shown(*row) for entry_id, row in data.get("shown", {}).items()}

    def save(self) -> None:
        """Write it; old sessions are deleted when a new one begins."""
        is_new = not os.path.exists(self._path)
        names = ("began", "waiting", "silent", "ran", "shown")
        write_file(self._path, json.dumps({name: getattr(self, name) for name in names}))
        for file in os.scandir(os.path.dirname(self._path)) if is_new else ():
            if file.stat().st_mtime < time.time() - KEPT:
                os.unlink(file.path)

    @property
    def number(self) -> int:
        """Of the last command that was run."""
        return self.ran[-1].number if self.ran else 0

    def add_command(self, command: str, typed: str, mark: int, ok: bool, now: float) -> Ran:
        """A command was run."""
        began = self.began if self.began and (not self.ran or self.began >= self.ran[-1].ended) else now
        ran = Ran(self.number + 1, command, typed, mark, ok, began, now)
        self.ran, self.began = [*self.ran, ran][-MOST_COMMANDS:], 0.0
        return ran

    def list_between(self, after: int, until: int = 0) -> list[Ran]:
        """Commands that were run after a number and before another."""
        return [ran for ran in self.ran if after < ran.number and (not until or ran.number < until)]

    @property
    def open(self) -> list[Ran]:
        """Failures that wait."""
        return [ran for ran in self.ran if ran.id]

    def stop_waiting(self, entry_id: str) -> None:
        """A failure waits no longer."""
        self.ran = [ran._replace(id="") if ran.id == entry_id else ran for ran in self.ran]

    def note_recall(self, entry_id: str) -> None:
        """An entry was recalled. What was run since the first recall that is not settled counts as run after it."""
        was = self.shown.get(entry_id, Shown(self.number, 0, True))
        self.shown[entry_id] = Shown(self.number if was.settled else was.number, was.times + 1, False)

    def settle(self, entry_id: str) -> None:
        """What followed a recall is counted."""
        self.shown[entry_id] = self.shown[entry_id]._replace(settled=True)
