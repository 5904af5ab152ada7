"""The recordings of a run's folder, written trial by trial before the record of the trial.

    store.open_recordings(about)
    store.cut_recording(name_of(work), 2)           # discards everything after the second trial
    store.add_recording(name_of(work), 3, data)

So a kill between the two leaves one trial too many, which is cut off when the unit resumes, and never one too few. See
`recordings.py` for the files.
"""

import json
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import explain_unreadable, pick_quarantine_path, read_bytes
from rsso_dspy.recordings import ABOUT, ENDING, FOLDER, LEFT_OUT, MOST_RECORDED, SCHEMA, left_out_of, members
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.journals import Journals
from rsso_dspy.store.units import Job, Unit


def name_of(work: Job | UnitRecord | TrainingRecord) -> str:
    """Return the name of a unit's or training's recording."""
    arm = work.arm if isinstance(work.arm, str) else work.arm.name
    if isinstance(work, Unit | UnitRecord):
        return f"units/{arm}/{work.variant.task}/{work.variant.index}-s{work.seed}"
    return f"trainings/{arm}/{work.task}/s{work.seed}"


class Taping(Journals):
    """The recording part of a `Store`. Thread-safe."""

    most_recorded = MOST_RECORDED

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.recordings = folder / FOLDER
        """Folder of the recordings; those of a build outlive its folder."""
        self._adding = threading.Lock()
        self._size: int | None = None

    @property
    def recorded(self) -> bool:
        """Whether the run is recorded; once started, every further command records too."""
        return (self.recordings / ABOUT).is_file()

    def open_recordings(self, about: dict[str, Any]) -> None:
        if not self.recorded:
            self.place.write(self.recordings / ABOUT, json.dumps(about, indent=1) + "\n")

    def add_recording(self, name: str, trial: int, data: bytes) -> None:
        """Append the exchanges of a trial.

        Exchanges beyond the size limit, and later ones of the same file, are left out and listed.
        """
        with self._adding:
            if self._size is None:
                self._size = sum(file.stat().st_size for file in self.recordings.rglob(f"*{ENDING}"))
            if self._size + len(data) > self.most_recorded or name in self._left_out():
                note = {"schema": SCHEMA, "name": name, "trial": trial}
                self.place.append(self.recordings / LEFT_OUT, json.dumps(note))
                return
            self.place.append_bytes(self._file(name), data)
            self._size += len(data)

    def cut_recording(self, name: str, trials: int) -> None:
        """Discard everything after this many trials, and a partial write of a kill."""
        file = self._file(name)
        if why := explain_unreadable(file):
            os.replace(file, pick_quarantine_path(file))
            self.left_out[file] = why
        with suppress(FileNotFoundError), self._adding:
            end = max((each.end for each in members(read_bytes(file)) if each.trial <= trials), default=0)
            self._size = None
            self.place.check_exists()
            if end:
                os.truncate(file, end)
            else:
                self.place.remove(file)

    def trials_left_out(self) -> int:
        """Count the trials that did not fit into the recordings."""
        return len({(entry.get("name"), entry.get("trial")) for entry in left_out_of(self.recordings)})

    def carry_recording(self, other: "Taping", work: UnitRecord | TrainingRecord) -> None:
        """Take over another folder's recording of a unit or training, if it has one."""
        with suppress(FileNotFoundError, DamagedFile):
            data = read_bytes(other._file(name_of(work)))
            self.place.replace(self._file(name_of(work)), data)
            self._size = None

    def carry_about(self, others: Sequence["Taping"]) -> None:
        """Start recording if any of the folders was recorded."""
        for other in others:
            if other.recorded and not self.recorded:
                self.place.replace(self.recordings / ABOUT, read_bytes(other.recordings / ABOUT))

    def _left_out(self) -> set[Any]:
        return {entry.get("name") for entry in left_out_of(self.recordings)}

    def _file(self, name: str) -> Path:
        return self.recordings / f"{name}{ENDING}"
