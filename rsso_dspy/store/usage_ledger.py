"""The total cost of a run: every answer is stored in one place and counted once.

    record                       answers of a finished or started unit or training
    `started/...under-way`       answers of the current trial, or of one cut short by a kill
    `abandoned.jsonl`            answers of trials cut short or played again, once the unit was resumed

A kill may come between two writes. So lines of a current trial name the trial and no longer count once a record holds
it; and an entry of `abandoned.jsonl` names the file it came from by its modification time and is made once.
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
    """The cost part of a `Store`, which knows the records."""

    if TYPE_CHECKING:

        def units(self) -> Iterator[UnitRecord]: ...
        def trainings(self) -> Iterator[TrainingRecord]: ...
        def load_begun(self) -> list[JobRecord]: ...
        def load_either(self, path: Path) -> JobRecord | None: ...
        def path_of(self, work: Job | JobRecord) -> Path: ...
        def started_path(self, path: Path) -> Path: ...

    def read_spending(self) -> Iterator[tuple[str, Usage]]:
        """Return role and usage of all answers paid for in this run, including current and interrupted trials."""
        records: list[JobRecord] = [*self.units(), *self.trainings(), *self.load_begun()]
        for record in records:
            for trial in record.trials:
                yield from trial.usage.items()
        for _, role, usage in (*self.read_abandoned(), *self.read_under_way()):
            yield role, usage

    def read_under_way(self) -> list[tuple[str, str, Usage]]:
        """Return arm, role and usage of current trials, or of interrupted ones that were not resumed."""
        return [(arm, role, usage) for arm, _, _, costs in self.read_cut_short() for role, usage in costs.items()]

    def read_cut_short(self) -> Iterator[tuple[str, str, Path, dict[str, Usage]]]:
        """Return the same by trial: arm, key of the unit or training, file, usage by role."""
        for file in sorted((self.folder / "started").glob("*/*/*/*.under-way")):
            kind, arm, task, name = file.parts[-4:]
            index, _, seed = name.removesuffix(".under-way").rpartition("s")
            key = f"{task}::{index.rstrip('-')}" if kind == "units" else f"{task} (training)"
            yield arm, f"{arm}/{key}/s{seed}", file, self._read_unrecorded_costs(file, f"{arm}/{key}/s{seed}")

    def note_under_way(self, work: Job, role: str, usage: Usage, trial: int = 0) -> None:
        """Append the cost of an answer in the current trial, so that not even a kill loses it."""
        self.place.append(self._under_way_path(work), format_usage_line(role, usage, trial))

    def forget_under_way(self, work: Job) -> None:
        """Remove the current trial's journal, after its cost was saved elsewhere."""
        self.place.remove(self._under_way_path(work))

    def recover_under_way(self, work: Job) -> None:
        """Store the cost of an abandoned trial."""
        file = self._under_way_path(work)
        self.abandon_file(work.arm.name, work.key, file, self._read_unrecorded_costs(file, work.key))

    def abandon_file(self, arm: str, unit: str, file: Path, usage: Mapping[str, Usage]) -> None:
        """Store the costs in a file as abandoned and remove it. A kill in between does not count them twice."""
        with suppress(FileNotFoundError):
            written = file.stat().st_mtime_ns
            self.note_abandoned(arm, unit, usage, written)
            self.place.remove(file)

    def _read_unrecorded_costs(self, file: Path, unit: str) -> dict[str, Usage]:
        """Return the costs in a trial's journal that neither a record nor `abandoned.jsonl` holds."""
        if not file.exists() or (unit, file.stat().st_mtime_ns) in self.read_abandoned_files():
            return {}
        begun = file.with_suffix(".json")
        paths = (begun, self.folder / begun.relative_to(self.folder / "started"))
        known = {trial.trial for path in paths if (record := self.load_either(path)) for trial in record.trials}
        costs: dict[str, Usage] = {}
        for role, usage, trial in parse_usage_lines(self.read_journal(file)):
            if trial not in known:
                costs[role] = costs.get(role, Usage()) + usage
        return costs

    def _under_way_path(self, work: Job) -> Path:
        path = self.started_path(self.path_of(work))
        return path.with_name(f"{path.stem}.under-way")


def get_job_key(record: JobRecord) -> str:
    name = record.key if isinstance(record, UnitRecord) else f"{record.task} (training)"
    return f"{record.arm}/{name}/s{record.seed}"
