"""Journals: files of a run's folder that are appended to line by line.

    DIR/run.log.jsonl       events with their times
    DIR/timings.jsonl       seconds per trial; kept apart, so that records replay byte for byte
    DIR/abandoned.jsonl     cost of trials that are in no record: cut short, or played again

A kill may leave half a line, which readers skip without losing the next line.
"""

import json
import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import parse_entry, read_lines
from rsso_dspy.records import SCHEMA_VERSION, Usage
from rsso_dspy.store.guarded_folder import GuardedFolder
from rsso_dspy.store.record_checks import parse_usage

LOG, TIMINGS, ABANDONED = "run.log.jsonl", "timings.jsonl", "abandoned.jsonl"


class Journals:
    """The journals of one run. Thread-safe."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.place = GuardedFolder(folder)
        """Guards all writes below the folder."""
        self.left_out: dict[Path, str] = {}
        """Unreadable journals, with reasons."""
        self._appending = threading.Lock()

    def note_seconds(self, unit: str, trial: int, seconds: float) -> None:
        self._append_entry(TIMINGS, {"unit": unit, "trial": trial, "seconds": round(seconds, 3)})

    def read_seconds(self) -> dict[tuple[str, int], float]:
        """Return the seconds of trials by unit and number, of the last time that each was played."""
        found: dict[tuple[str, int], float] = {}
        for line in self.read_journal(self.folder / TIMINGS):
            match parse_entry(line):
                case {"unit": str(unit), "trial": int(number), "seconds": float(took)} if 0 < took < math.inf:
                    found[unit, number] = took
        return found

    def note_event(self, event: str, details: Mapping[str, Any]) -> None:
        """Append an event; see `run_log_writer.py`."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append_entry(LOG, {"time": now, "event": event, **details})

    def note_abandoned(self, arm: str, unit: str, usage: Mapping[str, Usage], file: int = 0) -> None:
        """Append the cost of an abandoned trial, by role.

        `file` is the modification time in nanoseconds of the file that held it until now; each file counts once.
        """
        if usage and not (file and (unit, file) in self.read_abandoned_files()):
            costs = {role: asdict(spent) for role, spent in usage.items()}
            told = {"file": file} if file else {}
            self._append_entry(ABANDONED, {"arm": arm, "unit": unit, "usage": costs, **told})

    def read_abandoned(self) -> list[tuple[str, str, Usage]]:
        """Return arm, role and usage of all abandoned costs, skipping broken lines."""
        found = []
        for line in self.read_journal(self.folder / ABANDONED):
            match parse_entry(line):
                case {"arm": str(arm), "usage": dict(costs)}:
                    read = [(arm, str(role), parse_usage(spent)) for role, spent in costs.items()]
                    found += [(arm, role, usage) for arm, role, usage in read if usage]
        return found

    def read_abandoned_files(self) -> set[tuple[str, int]]:
        """Return unit and modification time of files whose costs are already in the journal."""
        return {known for line in self.read_journal(self.folder / ABANDONED) if (known := _parse_abandoned_file(line))}

    def copy_entries(self, other: "Journals") -> None:
        """Take over another folder's abandoned costs and events, each once."""
        for name in (ABANDONED, LOG):
            known, given_up = set(self.read_journal(self.folder / name)), self.read_abandoned_files()
            for line in other.read_journal(other.folder / name):
                if line not in known and _parse_abandoned_file(line) not in given_up:
                    self.place.append(self.folder / name, line)

    def journal_paths(self) -> list[Path]:
        return [self.folder / name for name in (LOG, TIMINGS, ABANDONED)]

    def read_journal(self, file: Path) -> list[str]:
        """Read the complete lines of a file of the folder; empty if it is missing.

        An unreadable file is added to `left_out` with the reason.
        """
        try:
            return [line for line in read_lines(file) if line]
        except DamagedFile as error:
            self.left_out[file] = error.why
            return []

    def _append_entry(self, name: str, entry: dict[str, Any]) -> None:
        with self._appending:
            self.place.append(self.folder / name, json.dumps({"schema": SCHEMA_VERSION, **entry}))


def format_usage_line(role: str, usage: Usage, trial: int = 0) -> str:
    """Format the cost of an answer as a line of the current trial's journal; trial 0 means unknown."""
    return json.dumps([role, asdict(usage), trial])


def parse_usage_lines(lines: Iterable[str]) -> Iterator[tuple[str, Usage, int]]:
    """Parse role, usage and trial of every answer in a current trial's journal, skipping incomplete lines."""
    for line in lines:
        match parse_entry(line):
            case [str(role), dict(spent), int(trial)] if usage := parse_usage(spent):
                yield role, usage, trial


def _parse_abandoned_file(line: str) -> tuple[str, int] | None:
    match parse_entry(line):
        case {"unit": str(unit), "file": int(file)}:
            return unit, file
    return None
