"""What is appended to files of a run's folder as it goes, line by line: nothing of it is in a record.

    DIR/run.log.jsonl       what happened when, for whoever watches
    DIR/timings.jsonl       seconds per trial; kept apart, so that records replay byte for byte
    DIR/abandoned.jsonl     what trials cost that are in no record: cut short, or played again

A kill may leave half a line: it is read past, and swallows nothing that comes after it.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile
from rsso_dspy.records import SCHEMA_VERSION, Usage
from rsso_dspy.safe_read import parse_entry, read_lines
from rsso_dspy.store.guarded_folder import GuardedFolder
from rsso_dspy.store.record_checks import parse_usage

LOG, TIMINGS, ABANDONED = "run.log.jsonl", "timings.jsonl", "abandoned.jsonl"


class Journals:
    """The journals of one run. Thread-safe."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.place = GuardedFolder(folder)
        """All that is written below the folder goes through it."""
        self.left_out: dict[Path, str] = {}
        """Journals that were not read, and why."""
        self._appending = threading.Lock()

    def note_seconds(self, unit: str, trial: int, seconds: float) -> None:
        """Append how long a trial took."""
        self._append_entry(TIMINGS, {"unit": unit, "trial": trial, "seconds": round(seconds, 3)})

    def note_event(self, event: str, details: Mapping[str, Any]) -> None:
        """Append what happened; see `run_log_writer.py`."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append_entry(LOG, {"time": now, "event": event, **details})

    def note_abandoned(self, arm: str, unit: str, usage: Mapping[str, Usage], file: int = 0) -> None:
        """Append what a trial cost, by role, that no record will tell of. `file` is when the file was written that told
        of it until now, in nanoseconds: of one file it is noted once."""
        if usage and not (file and (unit, file) in self.read_abandoned_files()):
            costs = {role: asdict(spent) for role, spent in usage.items()}
            told = {"file": file} if file else {}
            self._append_entry(ABANDONED, {"arm": arm, "unit": unit, "usage": costs, **told})

    def read_abandoned(self) -> list[tuple[str, str, Usage]]:
        """Arm, role and usage of every such cost. A line that a kill cut off, or that tells of no cost, is left out."""
        found = []
        for line in self._read_by_name(ABANDONED):
            match parse_entry(line):
                case {"arm": str(arm), "usage": dict(costs)}:
                    read = [(arm, str(role), parse_usage(spent)) for role, spent in costs.items()]
                    found += [(arm, role, usage) for arm, role, usage in read if usage]
        return found

    def read_abandoned_files(self) -> set[tuple[str, int]]:
        """Unit and time of writing of the files whose costs are noted so, whether they are still there or not."""
        return {known for line in self._read_by_name(ABANDONED) if (known := _parse_abandoned_file(line))}

    def copy_entries(self, other: "Journals") -> None:
        """Take over another folder's notes of such costs and of what happened when, each once."""
        for name in (ABANDONED, LOG):
            known, given_up = set(self._read_by_name(name)), self.read_abandoned_files()
            for line in other._read_by_name(name):
                if line not in known and _parse_abandoned_file(line) not in given_up:
                    self.place.append(self.folder / name, line)

    def journal_paths(self) -> list[Path]:
        """The files."""
        return [self.folder / name for name in (LOG, TIMINGS, ABANDONED)]

    def read_journal(self, file: Path) -> list[str]:
        """The whole lines of a file of the folder, none of one that is not there. One that cannot be read, and why,
        stands in `left_out`."""
        try:
            return [line for line in read_lines(file) if line]
        except DamagedFile as error:
            self.left_out[file] = error.why
            return []

    def _read_by_name(self, name: str) -> list[str]:
        return self.read_journal(self.folder / name)

    def _append_entry(self, name: str, entry: dict[str, Any]) -> None:
        with self._appending:
            self.place.append(self.folder / name, json.dumps({"schema": SCHEMA_VERSION, **entry}))


def format_usage_line(role: str, usage: Usage, trial: int = 0) -> str:
    """What an answer cost, as a line of a journal of the trial under way; trial 0 is one that nobody named."""
    return json.dumps([role, asdict(usage), trial])


def parse_usage_lines(lines: Iterable[str]) -> Iterator[tuple[str, Usage, int]]:
    """Role, usage and trial of every answer that the lines of such a journal tell of. A line that is being written, or
    that a kill cut off, is left out."""
    for line in lines:
        match parse_entry(line):
            case [str(role), dict(spent), *trial] if usage := parse_usage(spent):  # an older version named no trial
                yield role, usage, trial[0] if trial and isinstance(trial[0], int) else 0


def _parse_abandoned_file(line: str) -> tuple[str, int] | None:
    """The unit and file that a note of an abandoned trial is about; None where it names none."""
    match parse_entry(line):
        case {"unit": str(unit), "file": int(file)}:
            return unit, file
    return None
