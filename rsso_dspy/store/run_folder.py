"""The folder of a run, and what its files say.

    DIR/run.json                                   identity, arms with their programs, commands, what they were given
    DIR/units/ARM/TASK/INDEX-sSEED.jsonl           the log of a unit, see `unit_log.py`
    DIR/trainings/ARM/TASK/sSEED.jsonl             the log of a training, likewise

A log may be packed, `gzip -r DIR/units`: it is read and replayed as it is. Another configuration is refused. A damaged
log becomes NAME.jsonl.damaged; what can still be read of its bill counts on, see `set_aside.py`."""

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NotRequired

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from rsso_dspy.environments.benchmark import ORIGIN as BENCHMARK
from rsso_dspy.errors import DamagedFile, FolderGone, NotRecorded, RunMismatch, UsageError, find_shortage
from rsso_dspy.files import (
    atomic_write_text,
    explain_absence,
    find_packed,
    pick_quarantine_path,
    read_bytes,
    read_json,
)
from rsso_dspy.log_lines import describe_flaw, find_logs
from rsso_dspy.programs.methods import Method
from rsso_dspy.records import (
    SCHEMA_VERSION,
    ZERO_SHOT,
    RoleUsage,
    TrainingRecord,
    UnitRecord,
    Usage,
    Variant,
    name_arm,
)
from rsso_dspy.store.set_aside import SetAsideLog, find_set_aside_logs, read_set_aside_log
from rsso_dspy.store.unit_log import JobRecord, UnitLog


@dataclass(frozen=True, slots=True)
class Arm:
    method: Method
    program: str = ZERO_SHOT
    constitution: str = ""  # name of the constitution that it starts from; empty if that has no name, or without one

    @property
    def name(self) -> str:
        return name_arm(self.method.name, self.constitution, self.program)


@dataclass(frozen=True, slots=True)
class Unit:
    """One (arm, task, variant, seed) to play, with its step budget per trial."""

    arm: Arm
    variant: Variant
    seed: int
    budget: int
    place: str = ""  # place of a unit in its stream, number of units and order: ``3/36 of 1f0c9a``

    @property
    def name(self) -> str:
        return self.variant.key

    @property
    def key(self) -> str:
        return f"{self.arm.name}/{self.name}/s{self.seed}"


@dataclass(frozen=True, slots=True)
class Training:
    """One (arm, task, seed) to train before the task's units: a trial on each of `episodes` in turn."""

    arm: Arm
    task: str
    seed: int
    episodes: tuple[Variant, ...]
    budgets: tuple[int, ...]  # step budget per episode

    @property
    def name(self) -> str:
        return f"{self.task} (training)"

    @property
    def key(self) -> str:
        return f"{self.arm.name}/{self.name}/s{self.seed}"


Job = Unit | Training
RUN_FILE = "run.json"


class RunConfig(TypedDict):
    """What of a run's configuration is read by name."""

    backend: NotRequired[str]
    backends: NotRequired[dict[str, dict[str, Any]]]
    benchmark: NotRequired[str]


class RunIdentity(TypedDict):
    """What all results of a run depend on."""

    protocol: NotRequired[str]
    config: NotRequired[RunConfig]
    carried: NotRequired[dict[str, str]]


class RunData(TypedDict):
    """The content of ``run.json``. What `commands` keeps there is read as far as it is needed."""

    schema: Literal[1]
    identity: RunIdentity
    arms: dict[str, str]
    shards: NotRequired[list[str]]
    planned: NotRequired[list[str]]
    rounds: NotRequired[dict[str, Any]]
    commands: NotRequired[list[dict[str, Any]]]
    given: NotRequired[dict[str, str]]


_RUN = TypeAdapter(RunData)


def describe_difference(known: dict[str, Any], wanted: dict[str, Any]) -> str:
    ours, theirs = flatten_keys(known), flatten_keys(wanted)
    return "\n".join(
        f"  {key}: there {ours.get(key, '(absent)')!r}, now {theirs.get(key, '(absent)')!r}"
        for key in sorted({*ours, *theirs})
        if ours.get(key) != theirs.get(key)
    )


def flatten_keys(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of nested tables by dotted key, in order. Tables may be nested as deep as a file can say."""
    flat: dict[str, Any] = {}
    pending = list(data.items())
    while pending:
        key, value = pending.pop(0)
        if isinstance(value, dict):
            pending[:0] = [(f"{key}.{name}", inner) for name, inner in value.items()]
        else:
            flat[key] = value
    return flat


_UNFINISHED = re.compile(r"\..+\.\d+-\d+")  # a temporary file of an atomic write; a kill may leave one
PATIENCE = 0.2  # seconds to retry a lock, because another process may just be testing it
ORIGIN = ("config_hash", "prompts", "rsso_dspy", "dspy", *BENCHMARK)  # in provenance and identity


class Store:
    """The folder of one run. `option` is the command-line option that names it."""

    def __init__(self, folder: Path, read_only: bool = False, option: str = "--out"):
        self.folder = folder
        self.read_only = read_only  # leaves damaged files in place, and reads every file once
        self.option = option
        self.set_aside: dict[Path, str] = {}  # unreadable files under their new names, with what is wrong
        self._known: dict[str, Any] | None = None
        self._logs: dict[Path, UnitLog | None] = {}
        self._damaged: set[Path] = set()  # damaged logs that are left in place
        self._held = False

    # run.json

    def check_identity(self, identity: dict[str, Any], arms: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the arms of the run, name to program fingerprint. Raises `RunMismatch` if its identity or a program
        differs, and `UsageError` if the folder holds something else."""
        if self.folder.exists() and not self.folder.is_dir():
            raise UsageError(f"{self.folder} is a file; a run needs a folder, use another {self.option}")
        if not self.exists:
            names = [entry.name for entry in self.folder.iterdir()] if self.folder.exists() else []
            if any(name != ".lock" and not _UNFINISHED.fullmatch(name) for name in names):
                raise UsageError(f"{self.folder} is not empty and holds no run; use another {self.option}")
            return {}
        stored_identity, stored_arms = self.read_identity()
        if stored_identity != identity:
            what = f"a run of another configuration:\n{describe_difference(stored_identity, identity)}"
            raise RunMismatch(f"{self.folder} holds {what}\nUse the same settings, or another {self.option}")
        if changed_arms := [arm for arm, program in (arms or {}).items() if stored_arms.get(arm, program) != program]:
            what = f"units of {', '.join(changed_arms)} that another program played"
            raise RunMismatch(f"{self.folder} holds {what}: use another {self.option}, or rename the compiled file")
        return stored_arms

    def open(
        self,
        identity: dict[str, Any],
        arms: Mapping[str, str] | None = None,
        shard: str = "",
        planned: Iterable[str] = (),
        **told: Any,
    ) -> None:
        """Create the run, or resume it, possibly with more arms. `shard` is the part about to be played, `planned` the
        keys of its units; `told` further content of the file."""
        stored_arms = self.check_identity(identity, arms)
        data = self.read_file() if self.exists else {}
        shards = data.get("shards", ()) if data else (shard,)
        self.write_file(
            data
            | {"schema": SCHEMA_VERSION, "identity": identity, "arms": {**stored_arms, **(arms or {})}, **told}
            | {"shards": list(dict.fromkeys((*shards, shard))) if shard and shards else []}
            | {"planned": list(dict.fromkeys([*data.get("planned", ()), *planned]))}
        )
        self._held = True

    @property
    def exists(self) -> bool:
        return (self.folder / RUN_FILE).exists()

    def write_file(self, data: dict[str, Any]) -> None:
        """Write run.json unless it says the same; empty values are left out."""
        data = json.loads(json.dumps({k: v for k, v in data.items() if v or k in ("arms", "identity")}))
        if not self.exists or self.read_file() != data:
            self.check_exists()
            atomic_write_text(self.folder / RUN_FILE, json.dumps(data, indent=1) + "\n")
            self._known = None

    def read_file(self) -> dict[str, Any]:
        """The content of run.json. Raises `UsageError` if the folder holds no run or a damaged one."""
        self._known = self._known or self._read_file()
        return self._known

    def _read_file(self) -> dict[str, Any]:
        file = self.folder / RUN_FILE
        if self.folder.is_file():
            raise UsageError(f"{self.folder} is a file; name the folder of a run")
        if not self.exists:
            if runs := sorted(str(path.parent) for path in self.folder.glob("*/run.json")):
                some = ", ".join(runs[:3]) + (f" or {len(runs) - 3} more" if len(runs) > 3 else "")
                raise UsageError(f"{self.folder} holds several runs; name one of them: {some}")
            hint = f"`rsso-dspy run --out {self.folder}` makes one{explain_absence(self.folder)}"
            raise UsageError(f"{self.folder} holds no run (no run.json); {hint}")
        try:
            data: dict[str, Any] = read_json(file)
            _RUN.validate_python(data, strict=True)
            return data
        except (DamagedFile, ValidationError) as error:
            why = error.why if isinstance(error, DamagedFile) else describe_flaw(error)
            fix = "restore it, move the folder away, or update rsso-dspy, if a newer version wrote it"
            raise UsageError(f"{file} is damaged ({why}); {fix}") from None

    def read_identity(self) -> tuple[dict[str, Any], dict[str, str]]:
        data = self.read_file()
        return data["identity"], data["arms"]

    # Logs

    def path_of(self, work: Job | JobRecord) -> Path:
        return self.folder / f"{name_log(work)}.jsonl"

    def open_log(self, work: Job | JobRecord) -> UnitLog:
        """Open a log to play on. Half a line that a kill left is removed; a damaged file is set aside."""
        path = self.path_of(work)
        if packed := find_packed(path):
            raise UsageError(f"{packed} is packed, so nothing can be added to it: gunzip -r {self.folder}")
        if (log := self._read_or_set_aside(path, whole=True)) is None:
            self.check_exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            log = UnitLog(whole=True)
        elif log.is_torn:
            os.truncate(path, log.complete)
        log.path, log._write = path, lambda text: self.append_text(path, text)
        return log

    def append_text(self, path: Path, text: str) -> None:
        self.check_exists()
        try:
            with path.open("ab") as file:
                file.write(text.encode())
        except OSError:
            self.check_exists()  # it disappeared just now
            raise

    def _read(self, path: Path, whole: bool = False) -> UnitLog | None:
        """Return the log of a file, without one that is missing. Raises `DamagedFile`, also for a log of elsewhere."""
        try:
            log = UnitLog(read_bytes(path), path=path, whole=whole)
            record = log.make_record()
        except FileNotFoundError:
            return None
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise DamagedFile(path, f"it is no log of a unit ({type(error).__name__}: {error})") from None
        if log.job is not None and self.path_of(log.job) != path:
            raise DamagedFile(path, "it is the log of another unit than its name says")
        if record is not None:
            self._check_origin(path, record)
        return log

    def _check_origin(self, path: Path, record: JobRecord) -> None:
        if not self.exists:
            return
        identity, arms = self.read_identity()
        origin = {**record.provenance, "protocol": record.protocol}
        for name in ("protocol", *ORIGIN):
            if name in origin and name in identity and origin[name] != identity[name]:
                raise DamagedFile(path, f"its {name} is {origin[name]}, that of the run {identity[name]}")
        if arms and (record.arm not in arms or record.provenance.get("program", arms[record.arm]) != arms[record.arm]):
            raise DamagedFile(path, f"the run has no arm {record.arm} with its program")

    def read_log(self, work: Job | JobRecord) -> UnitLog:
        """Return a log with its calls. Raises `NotRecorded` if there is none that can be read."""
        path = self.path_of(work)
        try:
            if (log := self._read(path, whole=True)) is not None:
                return log
        except DamagedFile as error:
            raise NotRecorded(f"{path} is damaged ({error.why}); restore it from a copy") from None
        log_count = sum(len(find_logs(self.folder / kind)) for kind in ("units", "trainings"))
        fix = "play what was recorded, or drop --replay to ask the model"
        raise NotRecorded(f"{name_log(work)} is not among the {log_count} logs in {self.folder}: {fix}")

    def load_log(self, path: Path) -> UnitLog | None:
        """A log without its calls; None if it is missing. A damaged file is set aside and counts as missing."""
        if path in self._logs:
            return self._logs[path]
        log = self._read_or_set_aside(path)
        if self.read_only:
            self._logs[path] = log
        return log

    def assume_logs(self, contents: Mapping[Path, bytes]) -> None:
        """Load these contents in place of the files, until this is called again."""
        self._logs = {path: UnitLog(content, path=path) for path, content in contents.items()}

    def load(self, work: Job | JobRecord, begun: bool = False) -> Any:
        """The record of finished work, or with `begun` also of work with any finished trial."""
        path = self.path_of(work)
        log = self.load_log(path)
        if log is None or not (begun or log.is_finished):
            return None
        record = log.make_record()
        if record is not None and (why := describe_other_work(work, record)):
            self._set_aside(path, why)
            if self.read_only:
                self._logs[path] = None
            return None
        return record

    def units(self) -> Iterator[UnitRecord]:
        return self._load_records("units")

    def trainings(self) -> Iterator[TrainingRecord]:
        return self._load_records("trainings")

    def records(self) -> Iterator[JobRecord]:
        """All finished units, then all finished trainings; none without a run."""
        return self._load_records("units", "trainings") if self.exists else iter(())

    def load_begun(self) -> list[JobRecord]:
        return [*self._load_records(finished=False)]

    def _load_records(self, *kinds: str, finished: bool = True) -> Iterator[Any]:
        for _, log in self.load_logs(*kinds):
            if log.is_finished == finished and (record := log.make_record()):
                yield record

    def load_logs(self, *kinds: str) -> Iterator[tuple[str, UnitLog]]:
        """Yield every readable log, of trainings first, with the arm that played."""
        arms = list(self.read_identity()[1])
        for kind in kinds or ("trainings", "units"):
            for path in sorted(find_logs(self.folder / kind), key=lambda path: get_position(path, arms)):
                if (log := self.load_log(path)) is not None:
                    yield path.parts[-3], log

    def read_spending(self) -> Iterator[tuple[str, Usage]]:
        """Role and usage of all answers paid for in this run, including those of void and interrupted trials, and of
        damaged files as far as they can be read."""
        for _, log in self.load_logs():
            yield from log.sum_usage().items()
        for damaged in self.read_set_aside():
            yield from damaged.usage.items()

    def read_set_aside(self) -> list[SetAsideLog]:
        """What damaged logs cost: those set aside, and those that this store has met and left in place."""
        paths = [path for kind in ("trainings", "units") for path in find_set_aside_logs(self.folder / kind)]
        return [read_set_aside_log(path) for path in (*paths, *sorted(self._damaged))]

    def read_abandoned(self) -> list[RoleUsage]:
        """Arm, role and usage of trials that do not count: played again, or handed a void start."""
        return [(arm, role, usage) for arm, log in self.load_logs() for role, usage in log.abandoned.items()]

    def read_under_way(self) -> list[RoleUsage]:
        """Arm, role and usage of current trials, or of interrupted ones that were not resumed."""
        return [(arm, role, usage) for arm, log in self.load_logs() for role, usage in log.sum_current().items()]

    # Faults

    def hold(self) -> None:
        """From now on, writes raise `FolderGone` once the run is gone."""
        self._held = True

    def check_exists(self) -> None:
        """Raise `FolderGone` if the run was opened and its folder is gone."""
        if self._held and not self.exists:
            raise FolderGone(
                f"the folder {self.folder} is gone: it was moved, deleted or unmounted, and nothing was written there "
                f"since. Put it back, or repeat the command with {self.option} at its new place, to resume."
            )

    def _read_or_set_aside(self, path: Path, whole: bool = False) -> UnitLog | None:
        try:
            return self._read(path, whole)
        except DamagedFile as error:
            self._set_aside(path, error.why)
            return None

    def _set_aside(self, path: Path, why: str) -> None:
        """Rename a damaged log, or only note it where nothing is to be changed."""
        aside = pick_quarantine_path(path)
        damaged = find_packed(path) or path
        if self.read_only:
            self._damaged.add(damaged)
        else:
            self.check_exists()
            os.replace(damaged, aside)
        self.set_aside.setdefault(aside, f"{aside.with_suffix('')} cannot be read ({why})")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder for the block, in which writes raise `FolderGone` once it is gone, and remove what a killed
        process was writing."""
        from filelock import FileLock, Timeout

        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            if find_shortage(error):  # nothing is wrong with the place
                raise
            raise UsageError(
                f"{self.folder} cannot be created ({error.strerror}); name another {self.option}"
            ) from None
        try:
            with FileLock(self.folder / ".lock", timeout=PATIENCE, poll_interval=PATIENCE / 10):
                for file in self.folder.rglob(".*"):
                    if _UNFINISHED.fullmatch(file.name):
                        file.unlink()
                self._held, self._known = self.exists, None
                yield
        except Timeout:
            raise UsageError(
                f"another process plays into {self.folder}; wait for it or use another {self.option}"
            ) from None
        finally:
            self._held = False

    def is_playing(self) -> bool:
        """Whether a process holds the folder, as far as it can be known. Locks it for microseconds; `lock` retries."""
        from filelock import FileLock, Timeout

        file = self.folder / ".lock"
        try:
            with FileLock(file, timeout=0) if file.exists() else nullcontext():
                return False
        except OSError as error:
            return isinstance(error, Timeout)


def describe_other_work(work: Job | JobRecord, record: JobRecord) -> str:
    """Return what a record is of in place of this unit or training; empty if it is of it."""
    if isinstance(work, Unit) and isinstance(record, UnitRecord):
        is_same = (record.variant, record.budget) == (work.variant, work.budget)
        return "" if is_same else "it is of another variant, or of another number of steps, than is planned"

    if isinstance(work, Training) and isinstance(record, TrainingRecord):
        is_same = record.budgets == work.budgets
        for trial, episode in zip(record.trials, work.episodes, strict=False):
            is_same &= trial.trajectory is None or trial.trajectory.variant == episode
        return "" if is_same else "it is of other variants, or of other numbers of steps, than are planned"

    return ""


def name_log(work: Job | JobRecord) -> str:
    arm = work.arm if isinstance(work.arm, str) else work.arm.name
    if isinstance(work, Unit | UnitRecord):
        return f"units/{arm}/{work.variant.task}/{work.variant.index}-s{work.seed}"
    return f"trainings/{arm}/{work.task}/s{work.seed}"


def get_position(path: Path, arms: list[str]) -> tuple[int, str, str, int, int]:
    arm, task = path.parts[-3:-1]
    index, _, seed = path.stem.rpartition("s")
    return arms.index(arm) if arm in arms else len(arms), arm, task, int(index.rstrip("-") or 0), int(seed)
