"""One folder per run, one JSON file per unit, written atomically.

    DIR/run.json                                   identity of the run; arms in order, with their programs
    DIR/units/ARM/TASK/VARIANT-sSEED.json          a UnitRecord
    DIR/trainings/ARM/TASK/sSEED.json              a TrainingRecord
    DIR/started/...                                both kinds while unfinished, rewritten after each trial
    DIR/given/...                                  arguments and input files of the commands, to reproduce the run
    DIR/started/...under-way                       cost of the current trial, answer by answer; after a kill, all that
    is
                                                   known about it
    DIR/recordings/...                             exchanges with models, see `recordings.py`
    DIR/*.jsonl                                    journals, see `journals.py`

Repeating the command plays what is missing, from the last finished trial on; another configuration is refused and the
difference shown.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.files import explain_unreadable, pick_quarantine_path
from rsso_dspy.records import SCHEMA_VERSION, TrainingRecord, UnitRecord
from rsso_dspy.store.record_checks import find_memory_fault, find_origin_fault, find_record_fault
from rsso_dspy.store.record_files import (
    TRAINING,
    UNIT,
    R,
    RecordRejected,
    find_record_files,
    position_of,
    read_record,
    record_text,
)
from rsso_dspy.store.run_file import RUN_FILE, describe_difference, read_run_file
from rsso_dspy.store.taping import Taping, name_of
from rsso_dspy.store.units import Job
from rsso_dspy.store.usage_ledger import UsageLedger

_UNFINISHED = re.compile(r"\..+\.\d+-\d+")
"""Name of a temporary file of an atomic write; a kill may leave one."""

PATIENCE = 0.2
"""Seconds to retry a lock, because another process may just be testing it."""


class Store(UsageLedger, Taping):
    """The folder of one run."""

    def __init__(self, folder: Path, read_only: bool = False):
        super().__init__(folder)
        self.read_only = read_only
        """Whether to leave damaged files in place."""
        self.set_aside: list[Path] = []
        """Quarantined files, renamed with one of the suffixes in `WHY`."""
        self._why: dict[Path, str] = {}
        self._known: tuple[tuple[int, int], dict[str, Any], dict[str, str]] | None = None

    def check_identity(self, identity: dict[str, Any], arms: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the arms of the existing run (name to program fingerprint); empty for an empty folder.

        Raises `RunMismatch` if its identity differs or an arm has another program, and `UsageError` if the folder holds
        something else. Changes nothing.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"{self.folder} is a file; a run needs a folder, use another --out")
        if not (self.folder / RUN_FILE).exists():
            names = [entry.name for entry in self.folder.iterdir()] if self.folder.exists() else []
            if any(name != ".lock" and not _UNFINISHED.fullmatch(name) for name in names):
                raise UsageError(f"{self.folder} is not empty and holds no run; use another --out")
            return {}
        known, there = self.read_identity()
        if known != identity:
            raise RunMismatch(
                f"{self.folder} holds a run of another configuration:\n{describe_difference(known, identity)}\n"
                "Use the same settings, or another --out"
            )
        if other := [arm for arm, program in (arms or {}).items() if there.get(arm, program) != program]:
            raise RunMismatch(
                f"{self.folder} holds units of {', '.join(other)} that another program played: "
                "use another --out, or rename the compiled file"
            )
        return there

    def open(self, identity: dict[str, Any], arms: Mapping[str, str] | None = None, shard: str = "") -> None:
        """Create the run, or resume it, possibly with more arms. Raises what `check_identity` raises.

        `shard` is the part about to be played, beside those that are here; empty for the whole run.
        """
        file = self.folder / RUN_FILE
        before = self.check_identity(identity, arms)
        self.quarantine_journals()
        arms = {**before, **(arms or {})}
        there = self.read_shards() if file.exists() else ((shard,) if shard else ())
        shards = tuple(dict.fromkeys((*there, shard))) if shard and there else ()
        if not (file.exists() and arms == before and shards == there):
            self._write_run_file(identity, arms, shards)
        self.place.watch_file(file.name)

    def note_shards(self, shards: Iterable[str]) -> None:
        """Store which shards the run holds; none for a whole run."""
        identity, arms = self.read_identity()
        if tuple(shards) != self.read_shards():
            self._write_run_file(identity, arms, shards)

    def _write_run_file(self, identity: dict[str, Any], arms: Mapping[str, str], shards: Iterable[str]) -> None:
        parts = {"shards": list(shards)} if shards else {}
        data = {"schema": SCHEMA_VERSION, **parts, "arms": arms, "identity": identity}
        self.place.write(self.folder / RUN_FILE, json.dumps(data, indent=1) + "\n")

    def read_identity(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the identity of the run, and its arms in order with their program fingerprints.

        Raises `UsageError` if the folder holds no run or a damaged one.
        """
        file = self.folder / RUN_FILE
        if self.folder.is_file():
            raise UsageError(f"{self.folder} is a file; name the folder of a run")
        if not file.exists():
            if runs := sorted(str(each.parent) for each in self.folder.glob("*/run.json")):
                some = ", ".join(runs[:3]) + (f" or {len(runs) - 3} more" if len(runs) > 3 else "")
                raise UsageError(f"{self.folder} holds several runs; name one of them: {some}")
            raise UsageError(f"{self.folder} holds no run (no run.json); `rsso-dspy run --out {self.folder}` makes one")
        data = read_run_file(self.folder / RUN_FILE)
        return data["identity"], data["arms"]

    def read_shards(self) -> tuple[str, ...]:
        """Return the shards ``i/n`` that the folder holds; empty for a whole run."""
        self.read_identity()
        data = read_run_file(self.folder / RUN_FILE)
        return tuple(data.get("shards", [data["shard"]] if "shard" in data else []))

    def path_of(self, work: Job | UnitRecord | TrainingRecord) -> Path:
        return self.folder / f"{name_of(work)}.json"

    def started_path(self, path: Path) -> Path:
        return self.folder / "started" / path.relative_to(self.folder)

    def save(self, record: UnitRecord | TrainingRecord) -> Path:
        """Save a finished unit or training, and remove its started file unless it errored."""
        path = self.path_of(record)
        self.place.write(path, record_text(record))
        if not record.has_errors:
            self.place.remove(self.started_path(path))
        return path

    def save_started(self, record: UnitRecord | TrainingRecord) -> None:
        """Save the trials finished so far with their memories."""
        self.place.write(self.started_path(self.path_of(record)), record_text(record))

    def load(self, path: Path) -> UnitRecord | None:
        """Load a unit, or None if it is missing.

        A file that is damaged, of a newer version, of another unit or run, or with impossible content is quarantined
        and counts as missing.
        """
        return self._load_record(path, UNIT)

    def load_training(self, path: Path) -> TrainingRecord | None:
        """Load a training, as `load` does for units."""
        return self._load_record(path, TRAINING)

    def load_either(self, path: Path) -> UnitRecord | TrainingRecord | None:
        """Load a unit or a training, as the folder says; see `load`."""
        return self.load_training(path) if path.parts[-4] == "trainings" else self.load(path)

    def _load_record(self, path: Path, form: TypeAdapter[R]) -> R | None:
        try:
            record = read_record(path, form)
            self._check_record(path, record)
            return record
        except FileNotFoundError:
            pass
        except RecordRejected as error:
            self._quarantine_file(path, error)
        return None

    def _check_record(self, path: Path, record: UnitRecord | TrainingRecord) -> None:
        """Raise `RecordRejected` if the record does not belong here or is impossible."""
        home = self.path_of(record)
        if path not in (home, self.started_path(home)):
            raise RecordRejected("misplaced")
        if why := find_origin_fault(record, *self._get_cached_identity()):
            raise RecordRejected("foreign", why)
        if why := find_record_fault(record, finished=path == home):
            raise RecordRejected("impossible", why)
        if (
            not self.read_only
            and (path != home or isinstance(record, TrainingRecord))
            and (why := find_memory_fault(record))
        ):
            raise RecordRejected("damaged", why)

    def _get_cached_identity(self) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the result of `read_identity`, cached until it changes; empty without a run."""
        try:
            seen = (self.folder / RUN_FILE).stat()
        except FileNotFoundError:
            return {}, {}
        stamp = seen.st_mtime_ns, seen.st_size
        if self._known is None or self._known[0] != stamp:
            self._known = (stamp, *self.read_identity())
        return self._known[1:]

    def _quarantine_file(self, path: Path, why: RecordRejected) -> None:
        aside = pick_quarantine_path(path, why.kind)
        if not self.read_only:
            self.place.check_exists()
            os.replace(path, aside)
        if aside not in self.set_aside:
            self.set_aside.append(aside)
            self._why[aside] = str(why)

    def quarantine_journals(self) -> None:
        """Quarantine anything in place of a journal that is not a regular file; reading a named pipe would block."""
        for file in self.journal_paths():
            if why := explain_unreadable(file):
                self._quarantine_file(file, RecordRejected("damaged", why))

    def describe_quarantined(self, aside: Path) -> str:
        return f"{aside.with_suffix('')} {self._why[aside]}"

    def count_units_beside(self, units: Iterable[Job]) -> int:
        """Return the number of finished units here that are none of `units`: earlier commands played them."""
        own = {self.path_of(unit) for unit in units}
        return sum(path not in own for path in find_record_files(self.folder / "units"))

    def units(self) -> Iterator[UnitRecord]:
        """Yield all units, ordered by arm (in the order of the run), task, variant and seed."""
        return self._load_all("units", self.load)

    def trainings(self) -> Iterator[TrainingRecord]:
        """Yield all trainings in the same order."""
        return self._load_all("trainings", self.load_training)

    def _load_all(self, kind: str, load: Callable[[Path], R | None]) -> Iterator[R]:
        _, arms = self.read_identity()
        for path in sorted(find_record_files(self.folder / kind), key=lambda path: position_of(path, list(arms))):
            if record := load(path):
                yield record

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against other processes for the block. Raises `UsageError` if another process holds it.

        Removes partial files of a killed process. Inside the block, writes raise `FolderGone` once the folder is gone.
        """
        from filelock import FileLock, Timeout

        self.place.hold()
        try:
            with FileLock(self.folder / ".lock", timeout=PATIENCE, poll_interval=PATIENCE / 10):
                self.place.watch_file(".lock")
                for file in self.folder.rglob(".*"):
                    if _UNFINISHED.fullmatch(file.name):
                        file.unlink()
                yield
        except Timeout:
            raise UsageError(f"another process plays into {self.folder}; wait for it or use another --out") from None
        finally:
            self.place.release()

    def is_playing(self) -> bool | None:
        """Return whether a process holds the folder; None if unknown.

        Does not keep others out: the test takes microseconds, and `lock` retries.
        """
        try:
            import fcntl

            if explain_unreadable(self.folder / ".lock"):
                return None
            with (self.folder / ".lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        except (OSError, ModuleNotFoundError):
            return None

    def load_begun(self) -> list[UnitRecord | TrainingRecord]:
        """Return the finished trials of units and trainings without a record."""
        found: list[UnitRecord | TrainingRecord] = []
        for kind in ("trainings", "units"):
            for file in sorted(find_record_files(self.folder / "started" / kind)):
                if not (self.folder / file.relative_to(self.folder / "started")).exists():
                    begun = self.load_either(file)
                    found += [begun] if begun else []
        return found

    def recover_under_way(self, work: Job) -> None:
        """Store the cost of an abandoned trial. Anything but a regular file in place of the journal is quarantined."""
        file = self._under_way_path(work)
        if why := explain_unreadable(file):
            self._quarantine_file(file, RecordRejected("damaged", why))
        super().recover_under_way(work)
