"""What a run paid for, whatever became of it: every answer is told of in one place, and counted once.

    in a record                     of a unit or training, finished or begun
    in `started/...under-way`       of the trial under way, answer by answer; of one that a kill cut short too
    in `abandoned.jsonl`            of trials cut short, or played again, once somebody went on with them

A kill may fall between two writes. So a line of a trial under way names the trial, and is no more once a record holds
that trial; and a note of what a file told names the file, by the time of its writing, and is made once.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from rsso_dspy.records import TrainingRecord, UnitRecord, Usage
from rsso_dspy.store.journals import Journals, format_usage_line, parse_usage_lines
from rsso_dspy.store.units import Job

JobRecord = UnitRecord | TrainingRecord


class UsageLedger(Journals):
    """The spending part of a `Store`, which knows the records."""

    if TYPE_CHECKING:

        def units(self) -> Iterator[UnitRecord]: ...
        def trainings(self) -> Iterator[TrainingRecord]: ...
        def load_begun(self) -> list[JobRecord]: ...
        def load(self, path: Path) -> UnitRecord | None: ...
        def load_training(self, path: Path) -> TrainingRecord | None: ...
        def path_of(self, work: Job | JobRecord) -> Path: ...
        def started_path(self, path: Path) -> Path: ...

    def read_spending(self) -> Iterator[tuple[str, Usage]]:
        """Role and usage of everything that was paid for in this run, trials under way and those that a kill cut short
        among it; what was taken over was paid for elsewhere."""
        records: list[JobRecord] = [*self.units(), *self.trainings(), *self.load_begun()]
        for record in records:
            if "forked_from" not in record.provenance:
                for trial in record.trials:
                    yield from trial.usage.items()
        for _, role, usage in (*self.read_abandoned(), *self.read_under_way()):
            yield role, usage

    def read_under_way(self) -> list[tuple[str, str, Usage]]:
        """Arm, role and usage of trials that are played now, or, when no process plays, that a kill cut short and no
        command has gone on with."""
        return [(arm, role, usage) for arm, _, _, costs in self.read_cut_short() for role, usage in costs.items()]

    def read_cut_short(self) -> Iterator[tuple[str, str, Path, dict[str, Usage]]]:
        """The same trial by trial: arm, key of the unit or training, the file that tells of it, usage by role."""
        for file in sorted((self.folder / "started").glob("*/*/*/*.under-way")):
            kind, arm, task, name = file.parts[-4:]
            index, _, seed = name.removesuffix(".under-way").rpartition("s")
            key = f"{task}::{index.rstrip('-')}" if kind == "units" else f"{task} (training)"
            yield arm, f"{arm}/{key}/s{seed}", file, self._read_unrecorded_costs(file, f"{arm}/{key}/s{seed}")

    def note_under_way(self, work: Job, role: str, usage: Usage, trial: int = 0) -> None:
        """Append what an answer cost in the trial under way, so that even a kill does not lose it."""
        self.place.append(self._under_way_path(work), format_usage_line(role, usage, trial))

    def forget_under_way(self, work: Job) -> None:
        """The trial is in a record, or its cost is noted."""
        self.place.remove(self._under_way_path(work))

    def recover_under_way(self, work: Job) -> None:
        """Note what a trial cost that was cut short."""
        file = self._under_way_path(work)
        self.abandon_file(work.arm.name, work.key, file, self._read_unrecorded_costs(file, work.key))

    def abandon_file(self, arm: str, unit: str, file: Path, usage: Mapping[str, Usage]) -> None:
        """Note what a file tells that was paid for, and remove it. A kill in between has it noted once all the same."""
        with suppress(FileNotFoundError):
            written = file.stat().st_mtime_ns
            self.note_abandoned(arm, unit, usage, written)
            self.place.remove(file)

    def _read_unrecorded_costs(self, file: Path, unit: str) -> dict[str, Usage]:
        """What a journal of a trial tells that neither a record of this trial does nor a note."""
        if not file.exists() or (unit, file.stat().st_mtime_ns) in self.read_abandoned_files():
            return {}
        begun = file.with_suffix(".json")
        paths = (begun, self.folder / begun.relative_to(self.folder / "started"))
        records = [self.load(each) if file.parts[-4] == "units" else self.load_training(each) for each in paths]
        known = {trial.trial for record in records if record for trial in record.trials}
        costs: dict[str, Usage] = {}
        for role, usage, trial in parse_usage_lines(self.read_journal(file)):
            if trial not in known:
                costs[role] = costs.get(role, Usage()) + usage
        return costs

    def _under_way_path(self, work: Job) -> Path:
        path = self.started_path(self.path_of(work))
        return path.with_name(f"{path.stem}.under-way")


def get_job_key(record: JobRecord) -> str:
    """The key of the unit or training that was played."""
    name = record.key if isinstance(record, UnitRecord) else f"{record.task} (training)"
    return f"{record.arm}/{name}/s{record.seed}"
