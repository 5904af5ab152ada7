"""What sessions ran and were shown, for two days: the part of the index that no file holds."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

KEPT = 2 * 86_400.0
"""Seconds after which a session is forgotten."""


class Shown(NamedTuple):
    """That an entry was recalled in a session."""

    id: str
    place: str
    """`prompt`, `before` (its command) or `after` (its failure)."""
    number: int
    """How many commands had been run by then, the one whose failure it was recalled with among them."""


class Ran(NamedTuple):
    """A command that a session ran."""

    command: str
    """As it is compared."""
    ok: bool
    typed: str
    """As it was typed, without secrets."""
    number: int


class Failure(NamedTuple):
    """A command that failed and waits for what will help."""

    id: str
    """Its entry's."""
    command: str
    typed: str
    number: int


class Sessions:
    """The sessions in an open index."""

    def __init__(self, connection: sqlite3.Connection):
        self._all = connection

    def add_command(self, session: str, command: str, ok: bool, typed: str, now: float) -> int:
        """A command was run; its number. Old sessions are forgotten."""
        made = self._all.execute(
            "INSERT INTO ran(session, command, ok, typed, at) VALUES(?,?,?,?,?)", (session, command, ok, typed, now)
        )
        number = int(made.lastrowid or 0)
        if number % 50 == 0:
            for table in ("ran", "open_failure", "shown", "waiting", "silent_call"):
                self._all.execute(f"DELETE FROM {table} WHERE at < ?", (now - KEPT,))
        return number

    def list_commands(self, session: str, after: int) -> list[Ran]:
        """Commands that a session ran after that number, the newest ones, in their order."""
        query = "SELECT command, ok, typed, number FROM ran WHERE session=? AND number>? ORDER BY number DESC LIMIT 40"
        found = self._all.execute(query, (session, after)).fetchall()
        return [Ran(command, bool(ok), typed, number) for command, ok, typed, number in reversed(found)]

    def open_failure(self, session: str, failure: Failure, now: float) -> None:
        """A command failed and waits for what will help."""
        self._all.execute("INSERT OR REPLACE INTO open_failure VALUES(?,?,?,?,?,?)", (session, *failure, now))

    def list_open_failures(self, session: str, since: float) -> list[Failure]:
        """What waits, newest first."""
        query = (
            "SELECT id, command, typed, number FROM open_failure WHERE session=? AND at>=? ORDER BY number DESC LIMIT 5"
        )
        return [Failure(*row) for row in self._all.execute(query, (session, since))]

    def close_failure(self, session: str, entry_id: str) -> None:
        self._all.execute("DELETE FROM open_failure WHERE session=? AND id=?", (session, entry_id))

    def add_shown(self, session: str, entry_id: str, place: str, now: float) -> None:
        """An entry was recalled. What was run since the first recall that is not settled counts as run after it."""
        number = self._all.execute("SELECT coalesce(max(number),0) FROM ran").fetchone()[0]
        self._all.execute(
            "INSERT INTO shown VALUES(?,?,?,1,?,?) ON CONFLICT(session,id) DO UPDATE SET place=excluded.place, "
            "times=times+1, number=CASE shown.place WHEN 'settled' THEN excluded.number ELSE shown.number END, "
            "at=excluded.at",
            (session, entry_id, place, number, now),
        )

    def count_shown(self, session: str, entry_id: str) -> int:
        """How often an entry was recalled in a session."""
        query = "SELECT times FROM shown WHERE session=? AND id=?"
        found = self._all.execute(query, (session, entry_id)).fetchone()
        return int(found[0]) if found else 0

    def list_shown(self, session: str) -> list[Shown]:
        """What was recalled in a session and is not settled."""
        query = "SELECT id, place, number FROM shown WHERE session=? AND place!='settled' ORDER BY at DESC LIMIT 12"
        return [Shown(*row) for row in self._all.execute(query, (session,))]

    def settle_shown(self, session: str, entry_id: str) -> None:
        """What followed a recall is counted."""
        self._all.execute("UPDATE shown SET place='settled' WHERE session=? AND id=?", (session, entry_id))

    def add_waiting(self, session: str, block: str, now: float) -> None:
        """A block that the host cannot be told now."""
        self._all.execute("DELETE FROM waiting WHERE session=?", (session,))
        self._all.execute("INSERT INTO waiting(session, block, at) VALUES(?,?,?)", (session, block, now))

    def take_waiting(self, session: str) -> str:
        """The block that waits; it waits no longer."""
        found = self._all.execute("SELECT block FROM waiting WHERE session=?", (session,)).fetchone()
        self._all.execute("DELETE FROM waiting WHERE session=?", (session,))
        return str(found[0]) if found else ""

    def add_silent_call(self, session: str, call: str, command: str, now: float) -> None:
        """A command ended, and the host did not say how."""
        self._all.execute("INSERT OR REPLACE INTO silent_call VALUES(?,?,?,?)", (session, call, command, now))

    def list_silent_calls(self, session: str) -> dict[str, str]:
        """Calls of a session to their commands, as long as it is not known how they ended; the newest ones."""
        query = "SELECT call, command FROM silent_call WHERE session=? ORDER BY at DESC LIMIT 40"
        return dict(reversed(self._all.execute(query, (session,)).fetchall()))

    def drop_silent_call(self, session: str, call: str) -> None:
        """It is known how a call ended."""
        self._all.execute("DELETE FROM silent_call WHERE session=? AND call=?", (session, call))

    def tally(self, what: str, times: int = 1) -> None:
        """Count something for the dashboard."""
        self._all.execute(
            "INSERT INTO tally VALUES(?,?) ON CONFLICT(what) DO UPDATE SET times=times+excluded.times", (what, times)
        )

    def get_tallies(self) -> dict[str, int]:
        return dict(self._all.execute("SELECT what, times FROM tally"))
