"""What is appended to files of a run's folder as it goes, line by line: nothing of it is in a record.

    DIR/run.log.jsonl       what happened when, for whoever watches
    DIR/timings.jsonl       seconds per trial; kept apart, so that records replay byte for byte
    DIR/abandoned.jsonl     what trials cost that are in no record: cut short, or played again

A kill may leave half a line: it is read past, and swallows nothing that comes after it.
"""

import json
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rsso_dspy.redaction import redact_json
from rsso_dspy.trajectory import SCHEMA_VERSION, Usage


class Journals:
    """The journals of one run. Thread-safe."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._appending = threading.Lock()

    def note_seconds(self, unit: str, trial: int, seconds: float) -> None:
        """Append how long a trial took."""
        self._append("timings.jsonl", {"unit": unit, "trial": trial, "seconds": round(seconds, 3)})

    def note_event(self, event: str, details: Mapping[str, Any]) -> None:
        """Append what happened; see `events.py`."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._append("run.log.jsonl", {"time": now, "event": event, **details})

    def note_abandoned(self, arm: str, unit: str, usage: Mapping[str, Usage]) -> None:
        """Append what a trial cost, by role, that no record will tell of."""
        if usage:
            costs = {role: asdict(spent) for role, spent in usage.items()}
            self._append("abandoned.jsonl", {"arm": arm, "unit": unit, "usage": costs})

    def abandoned(self) -> list[tuple[str, str, Usage]]:
        """Arm, role and usage of every such cost. A line that a kill cut off is left out."""
        found = []
        for line in self._lines("abandoned.jsonl"):
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                entry = json.loads(line)
                found += [(entry["arm"], role, Usage(**spent)) for role, spent in entry["usage"].items()]
        return found

    def copy_notes(self, other: "Journals") -> None:
        """Take over another folder's notes of such costs and of what happened when, each once."""
        for name in ("abandoned.jsonl", "run.log.jsonl"):
            known = set(self._lines(name))
            new = [line for line in other._lines(name) if line not in known]
            if new:
                with (self.folder / name).open("a", encoding="utf-8") as file:
                    file.write(redact_json("".join(f"{line}\n" for line in new)))

    def _lines(self, name: str) -> list[str]:
        return lines_of(self.folder / name)

    def _append(self, name: str, entry: dict[str, Any]) -> None:
        line = redact_json(json.dumps({"schema": SCHEMA_VERSION, **entry}))
        with self._appending, (self.folder / name).open("ab+") as file:
            if file.tell():  # a line that a kill cut off must not swallow this one
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else f"\n{line}"
            file.write(f"{line}\n".encode())


def lines_of(file: Path) -> list[str]:
    """The lines of a file, none of one that is not there."""
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []
