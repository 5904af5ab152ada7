"""What is appended to files of a run's folder as it goes, line by line: nothing of it is in a record.

    DIR/run.log.jsonl       what happened when, for whoever watches
    DIR/timings.jsonl       seconds per trial; kept apart, so that records replay byte for byte
    DIR/abandoned.jsonl     what trials cost that are in no record: cut short, or played again

A kill may leave half a line: it is read past, and swallows nothing that comes after it.
"""

import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rsso_dspy.protocol.place import Place
from rsso_dspy.trajectory import SCHEMA_VERSION, Usage


class Journals:
    """The journals of one run. Thread-safe."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.place = Place(folder)
        """All that is written below the folder goes through it."""
        self._appending = threading.Lock()

    def note_seconds(self, unit: str, trial: int, seconds: float) -> None:
        """Append how long a trial took."""
        self._append("timings.jsonl", {"unit": unit, "trial": trial, "seconds": round(seconds, 3)})

    def note_event(self, event: str, details: Mapping[str, Any]) -> None:
        """Append what happened; see `events.py`."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append("run.log.jsonl", {"time": now, "event": event, **details})

    def note_abandoned(self, arm: str, unit: str, usage: Mapping[str, Usage], file: int = 0) -> None:
        """Append what a trial cost, by role, that no record will tell of. `file` is when the file was written that told
        of it until now, in nanoseconds: of one file it is noted once."""
        if usage and not (file and (unit, file) in self.given_up()):
            costs = {role: asdict(spent) for role, spent in usage.items()}
            told = {"file": file} if file else {}
            self._append("abandoned.jsonl", {"arm": arm, "unit": unit, "usage": costs, **told})

    def abandoned(self) -> list[tuple[str, str, Usage]]:
        """Arm, role and usage of every such cost. A line that a kill cut off is left out."""
        found = []
        for line in self._lines("abandoned.jsonl"):
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                entry = json.loads(line)
                found += [(entry["arm"], role, Usage(**spent)) for role, spent in entry["usage"].items()]
        return found

    def given_up(self) -> set[tuple[str, int]]:
        """Unit and time of writing of the files whose costs are noted so, whether they are still there or not."""
        return {known for line in self._lines("abandoned.jsonl") if (known := _file_of(line))}

    def copy_notes(self, other: "Journals") -> None:
        """Take over another folder's notes of such costs and of what happened when, each once."""
        for name in ("abandoned.jsonl", "run.log.jsonl"):
            known, given_up = set(self._lines(name)), self.given_up()
            for line in other._lines(name):
                if line not in known and _file_of(line) not in given_up:
                    self.place.append(self.folder / name, line)

    def _lines(self, name: str) -> list[str]:
        return lines_of(self.folder / name)

    def _append(self, name: str, entry: dict[str, Any]) -> None:
        with self._appending:
            self.place.append(self.folder / name, json.dumps({"schema": SCHEMA_VERSION, **entry}))


def lines_of(file: Path) -> list[str]:
    """The lines of a file, none of one that is not there."""
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []


def line_of(role: str, usage: Usage, trial: int = 0) -> str:
    """What an answer cost, as a line of a journal of the trial under way; trial 0 is one that nobody named."""
    return json.dumps([role, asdict(usage), trial])


def costs_in(file: Path) -> list[tuple[str, Usage, int]]:
    """Role, usage and trial of every answer that such a journal holds. A line that is being written, or that a kill cut
    off, is left out."""
    found = []
    for line in lines_of(file):
        with suppress(ValueError, TypeError):
            role, usage, *trial = json.loads(line)  # an older version named no trial
            found.append((str(role), Usage(**usage), int(trial[0]) if trial else 0))
    return found


def _file_of(line: str) -> tuple[str, int] | None:
    """The unit and file that a note of an abandoned trial is about; None where it names none."""
    with suppress(ValueError, KeyError, TypeError):
        entry = json.loads(line)
        return str(entry["unit"]), int(entry["file"])
    return None
