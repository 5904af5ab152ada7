"""One folder per run, one JSON file per unit, each written whole.

    DIR/run.json                                   what the results depend on; the arms in order, with their programs
    DIR/units/ARM/TASK/VARIANT-sSEED.json          a UnitRecord
    DIR/trainings/ARM/TASK/sSEED.json              a TrainingRecord
    DIR/started/...                                the same two after each trial, until they are finished
    DIR/given/...                                  what the commands asked for and were given, to play it again
    DIR/started/...under-way                       what the trial under way cost so far, answer by answer: of one that a
                                                   kill cut short it is all that is told
    DIR/recordings/...                             what was said to the models and by them, see `recordings.py`
    DIR/*.jsonl                                    what was appended on the way, see `journals.py`

The same command again plays what is missing, from the last finished trial on; another configuration is refused with the
difference shown.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.records import SCHEMA_VERSION, TrainingRecord, UnitRecord
from rsso_dspy.safe_read import explain_unreadable, pick_quarantine_path
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
from rsso_dspy.store.taping import Taping
from rsso_dspy.store.units import Job, Unit
from rsso_dspy.store.usage_ledger import UsageLedger

_UNFINISHED = re.compile(r"\..+\.\d+-\d+")
"""Name of a file that `write_whole` has not yet put in its place; a kill may leave one."""

PATIENCE = 0.2
"""Seconds for which a lock is asked for: somebody may just be looking whether it is held."""


class Store(UsageLedger, Taping):
    """The folder of one run."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.read_only = False
        """Whether damaged files stay where they are."""
        self.set_aside: list[Path] = []
        """Files that are not taken for records, each renamed to end in what it is instead, one of `WHY`."""
        self._why: dict[Path, str] = {}
        self._known: tuple[tuple[int, int], dict[str, Any], dict[str, str]] | None = None

    def check_identity(self, identity: dict[str, Any], arms: Mapping[str, str] | None = None) -> dict[str, str]:
        """The arms of the run that is there (name to fingerprint of the program), none when the folder is empty. Raises
        `RunMismatch` when its results depend on something else than `identity`, or when an arm of the same name played
        another program; `UsageError` for a folder that is something else. Changes nothing."""
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
                f"Use the same settings, or another --out; `run --fork {self.folder}` takes over what is still valid."
            )
        if other := [arm for arm, program in (arms or {}).items() if there.get(arm, program) != program]:
            raise RunMismatch(
                f"{self.folder} holds units of {', '.join(other)} that another program played: "
                "use another --out, or give the compiled file another name"
            )
        return there

    def open(self, identity: dict[str, Any], arms: Mapping[str, str] | None = None, shard: str = "") -> None:
        """Make the run, or continue it, maybe with more arms; raises what `check_identity` raises. `read_shard` says
        which part of a run it is."""
        file = self.folder / RUN_FILE
        before = self.check_identity(identity, arms)
        self.quarantine_journals()
        arms = {**before, **(arms or {})}
        if not (file.exists() and arms == before):
            data = {"schema": SCHEMA_VERSION, **({"shard": shard} if shard else {}), "arms": arms, "identity": identity}
            self.place.write(file, json.dumps(data, indent=1) + "\n")
        self.place.watch_file(file.name)

    def read_identity(self) -> tuple[dict[str, Any], dict[str, str]]:
        """What the results of the run depend on, and its arms in order, with the fingerprints of their programs. Raises
        `UsageError` when the folder holds no run, or a damaged one."""
        file = self.folder / RUN_FILE
        if self.folder.is_file():
            raise UsageError(f"{self.folder} is a file; name the folder of a run")
        if not file.exists():
            if runs := sorted(str(each.parent) for each in self.folder.glob("*/run.json")):
                some = ", ".join(runs[:3]) + (f" or {len(runs) - 3} more" if len(runs) > 3 else "")
                raise UsageError(f"{self.folder} holds runs and is none itself: name one of them, {some}")
            raise UsageError(f"{self.folder} holds no run (no run.json); `rsso-dspy run --out {self.folder}` makes one")
        data = read_run_file(self.folder / RUN_FILE)
        return data["identity"], data["arms"]

    def read_shard(self) -> str:
        """Which part of a run this is, ``i/n``; empty when it is no part."""
        self.read_identity()
        return str(read_run_file(self.folder / RUN_FILE).get("shard", ""))

    def unit_path(self, arm: str, task: str, index: int, seed: int) -> Path:
        """The file of a unit."""
        return self.folder / "units" / arm / task / f"{index}-s{seed}.json"

    def path_of(self, work: Job | UnitRecord | TrainingRecord) -> Path:
        """The file of a unit or training that is planned or was played."""
        arm = work.arm if isinstance(work.arm, str) else work.arm.name
        if isinstance(work, Unit | UnitRecord):
            return self.unit_path(arm, work.variant.task, work.variant.index, work.seed)
        return self.folder / "trainings" / arm / work.task / f"s{work.seed}.json"

    def started_path(self, path: Path) -> Path:
        """The file that holds the trials of a unit or training which is not finished."""
        return self.folder / "started" / path.relative_to(self.folder)

    def save(self, record: UnitRecord | TrainingRecord) -> Path:
        """Write a unit or training whole; what was noted of it on the way is no longer needed, unless it errored."""
        path = self.path_of(record)
        self.place.write(path, record_text(record))
        if not record.has_errors:
            self.place.remove(self.started_path(path))
        return path

    def save_started(self, record: UnitRecord | TrainingRecord) -> None:
        """Note the trials finished so far, with the memories after them."""
        self.place.write(self.started_path(self.path_of(record)), record_text(record))

    def load(self, path: Path) -> UnitRecord | None:
        """A unit, or None when it was never written. A file that is damaged, of a newer version, of another unit than
        its path says, of another run, or that tells what cannot have been is set aside under another name and counts as
        missing."""
        return self._load_record(path, UNIT)

    def load_training(self, path: Path) -> TrainingRecord | None:
        """A training, as `load` gives units."""
        return self._load_record(path, TRAINING)

    def _load_record(self, path: Path, form: TypeAdapter[R]) -> R | None:
        try:
            record = read_record(path, form)
            self._check_record(path, record)
            return record
        except FileNotFoundError:
            return None
        except RecordRejected as error:
            self._quarantine_file(path, error)
            return None

    def _check_record(self, path: Path, record: UnitRecord | TrainingRecord) -> None:
        """Raise `RecordRejected` when the record does not belong here, or cannot be true."""
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
        """What `read_identity` tells, read again only when it changed; nothing where there is no run yet."""
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
        """Put aside what stands where journals belong and is no file: a named pipe would be waited for, for ever."""
        for file in self.journal_paths():
            if why := explain_unreadable(file):
                self._quarantine_file(file, RecordRejected("damaged", why))

    def describe_quarantined(self, aside: Path) -> str:
        """What is wrong with a file of `set_aside`, under the name it had."""
        return f"{aside.with_suffix('')} {self._why[aside]}"

    def units(self) -> Iterator[UnitRecord]:
        """All units, ordered by arm (as the run was asked for), task, variant and seed."""
        return self._load_all("units", self.load)

    def trainings(self) -> Iterator[TrainingRecord]:
        """All trainings, ordered likewise."""
        return self._load_all("trainings", self.load_training)

    def _load_all(self, kind: str, load: Callable[[Path], R | None]) -> Iterator[R]:
        _, arms = self.read_identity()
        for path in sorted(find_record_files(self.folder / kind), key=lambda path: position_of(path, list(arms))):
            record = load(path)
            if record is not None:
                yield record

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes out of the folder for the time of the block; raises `UsageError` when one is in it. What
        a killed one was writing is removed. In the block, what writes raises `FolderGone` when the folder is no longer
        there."""
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
            raise UsageError(f"another process plays into {self.folder}; wait for it, or use another --out") from None
        finally:
            self.place.release()

    def is_playing(self) -> bool | None:
        """Whether a process is in the folder now; None where that cannot be told. Keeps nobody out: the look takes
        microseconds, and `lock` asks again."""
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
        """Finished trials of units and trainings that have no record yet."""
        found: list[UnitRecord | TrainingRecord] = []
        for kind in ("trainings", "units"):
            for file in sorted(find_record_files(self.folder / "started" / kind)):
                if not (self.folder / file.relative_to(self.folder / "started")).exists():
                    begun = self.load(file) if kind == "units" else self.load_training(file)
                    found += [begun] if begun else []
        return found

    def recover_under_way(self, work: Job) -> None:
        """Note what a trial cost that was cut short. What stands in the journal's place and is no file is put aside."""
        file = self._under_way_path(work)
        if why := explain_unreadable(file):
            self._quarantine_file(file, RecordRejected("damaged", why))
        super().recover_under_way(work)
