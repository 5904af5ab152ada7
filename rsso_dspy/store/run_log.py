"""Reads `run.log.jsonl`: when the run was played, its units, and its events.

    log = RunLog(store)
    news = log.read()       # again and again
    log.units, log.last

`run_log_writer.py` writes it. Results come from the records, not from the log.
"""

from collections.abc import Mapping
from typing import Any

from rsso_dspy.safe_read import MOST_BYTES, explain_unreadable, parse_entry
from rsso_dspy.store.journals import LOG
from rsso_dspy.store.unit_store import Store

Entry = Mapping[str, Any]


class RunLog:
    """The log of a run, read as it grows; empty before the first `read`, and for a run without a log."""

    def __init__(self, store: Store):
        self.last: Entry = {}
        self.begun: Entry = {}
        self.done = 0
        self.units: set[str] = set()
        """Keys of all planned units of any command, without trainings."""
        self._store = store
        self._file = store.folder / LOG
        self._offset = 0

    def read(self) -> list[Entry]:
        """Return the entries since the last call, without an incomplete last line."""
        if why := explain_unreadable(self._file):
            self._store.left_out[self._file] = why
            return []
        try:
            with self._file.open("rb") as file:
                if file.seek(0, 2) < self._offset:  # another run took its place
                    self._offset = 0
                file.seek(self._offset)
                text = file.read(MOST_BYTES)
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        found = [entry for line in whole.split(b"\n") if (entry := _parse_event(line))]
        for entry in found:
            self._track_event(entry)
        return found

    def _track_event(self, entry: Entry) -> None:
        self.last = entry
        if entry["event"] == "started":
            self.begun, self.done = entry, 0
            self.units.update(key for key in entry["left"] if " (training)/" not in key)
        elif entry["event"] in ("unit", "training"):
            self.done += 1


def _parse_event(line: bytes) -> Entry | None:
    """Parse a line; None for a broken one, e.g. cut off by a kill."""
    entry = parse_entry(line)
    if not isinstance(entry, dict) or not isinstance(entry.get("event"), str):
        return None
    if entry["event"] == "started":
        left = entry.get("left")
        return {**entry, "left": [str(key) for key in left] if isinstance(left, list) else []}
    return entry


def get_played_days(store: Store) -> tuple[str, ...]:
    """Return the first and last day of play in UTC; one if they are equal, none without a log."""
    found = [str(entry["time"])[:10] for entry in RunLog(store).read() if entry["event"] == "trial" and "time" in entry]
    return tuple(dict.fromkeys((min(found), max(found)))) if found else ()


def list_planned_units(store: Store) -> set[str]:
    """Return the keys of all planned units of any command; empty without a log."""
    log = RunLog(store)
    log.read()
    return log.units
