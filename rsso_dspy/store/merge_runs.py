"""Parts of a run that were played apart, on machines that know nothing of each other, put together again.

rsso-dspy run ... --shard 2/8 --out runs/part-2
rsso-dspy merge runs/part-* --out runs/whole
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rsso_dspy.errors import RunMismatch
from rsso_dspy.records import TrainingRecord, UnitRecord, sum_usage
from rsso_dspy.store.manifest import merge_manifests
from rsso_dspy.store.pooled_runs import ArmChecker
from rsso_dspy.store.run_file import describe_difference
from rsso_dspy.store.run_spec import Shard
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.usage_ledger import get_job_key


def merge_shards(sources: Sequence[Path], target: Store, say: Callable[[str], None] = lambda _: None) -> int:
    """Put the records of several folders of one run into `target`, which may hold some already; gives how many came.
    Trials of units that are not finished come too, and what was spent that no record tells of. `say` is told of shards
    that are missing and of files that could not be read.

    Raises `RunMismatch` when the folders are not of one run, or hold units of one arm that are not of one kind, or
    different records of the same unit. Nothing is written before all of them were looked at.
    """
    stores = [Store(folder) for folder in sources]
    identity, arms = stores[0].read_identity()
    kinds = ArmChecker("leave that folder out")
    for store in stores:
        store.read_only = True
        known, there = store.read_identity()
        if known != identity:
            raise RunMismatch(
                f"{store.folder} and {stores[0].folder} are of different runs:\n{describe_difference(identity, known)}"
            )
        kinds.check_arms(store)
        arms = {**arms, **there}
    target.check_identity(identity, arms)
    _report_missing_shards(stores, say)
    looked_at = [*stores, *([target] if (target.folder / "run.json").exists() else [])]
    chosen: dict[Path, RecordPart] = {}
    lost: list[tuple[RecordPart, RecordPart]] = []
    given_up = set().union(*(store.read_abandoned_files() for store in looked_at))
    for part in (part for store in looked_at for part in _load_parts(store, given_up)):
        if not part.begun:
            kinds.check_record(part.store, part.record)
        _choose_part(chosen, lost, target.path_of(part.record), part)
    with target.lock():
        target.open(identity, arms)
        merge_manifests([store.folder for store in stores], target.folder)
        target.carry_about(stores)
        for store in stores:
            target.copy_entries(store)
            _copy_under_way_costs(store, target, say)
        for less, more in lost:
            _note_lost_trials(less, more, target)
        for part in chosen.values():
            if part.store is not target:
                _write_part(part, target)
    records = [part for part in chosen.values() if not part.begun]
    for store in (*stores, target):
        for file in store.set_aside:
            say(f"{store.describe_quarantined(file)}: its unit is missing")
    return len(records)


def _report_missing_shards(stores: Sequence[Store], say: Callable[[str], None]) -> None:
    parts = [Shard.parse(text) for store in stores if (text := store.read_shard())]
    for of in sorted({part.of for part in parts}):
        there = {part.number for part in parts if part.of == of}
        if missing := [f"{number}/{of}" for number in range(1, of + 1) if number not in there]:
            say(f"shards are missing: {', '.join(missing)}")


@dataclass(frozen=True, slots=True)
class RecordPart:
    """What one folder holds of one unit or training."""

    record: UnitRecord | TrainingRecord
    store: Store
    file: Path
    begun: bool = False
    """It has no record yet, but finished trials."""

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Of two parts of one unit the higher counts: a finished one, else an errored one, else the longer."""
        return not (self.begun or self.record.has_errors), not self.begun, len(self.record.trials)

    @property
    def trials_before_error(self) -> "RecordPart | None":
        """The trials before the error of an errored one; None when there are none."""
        file = self.store.started_path(self.file)
        unit = isinstance(self.record, UnitRecord)
        record = self.store.load(file) if unit else self.store.load_training(file)
        return RecordPart(record, self.store, file, begun=True) if record else None


def _load_parts(store: Store, given_up: Collection[tuple[str, int]]) -> Iterator[RecordPart]:
    """Everything of a folder. Of a unit whose error was given up somewhere, the trials before it."""
    finished: list[UnitRecord | TrainingRecord] = [*store.units(), *store.trainings()]
    for record in finished:
        part = RecordPart(record, store, store.path_of(record))
        if record.has_errors and (get_job_key(record), _get_write_time(part.file)) in given_up:
            if before := part.trials_before_error:
                yield before
        else:
            yield part
    for begun in store.load_begun():
        yield RecordPart(begun, store, store.started_path(store.path_of(begun)), begun=True)


def _choose_part(
    chosen: dict[Path, RecordPart], lost: list[tuple[RecordPart, RecordPart]], path: Path, part: RecordPart
) -> None:
    """Choose between two parts of one unit. Two finished ones must be the same."""
    known = chosen.get(path)
    finished = not (part.begun or part.record.has_errors)
    if known is None:
        chosen[path] = part
    elif finished and known.rank >= (True, True, 0):
        if not _is_same_record(part.record, known.record):
            raise RunMismatch(
                f"{part.store.folder} holds another record of {part.record.arm} {part.record.key} than a folder before "
                "it: they are not shards of one run; merge only one of them"
            )
        chosen[path] = known if getattr(known.record, "trials_allowed", 1) else part
    else:
        more, less = (part, known) if part.rank > known.rank else (known, part)
        chosen[path] = more
        lost.append((less, more))


def _write_part(part: RecordPart, target: Store) -> None:
    """Write what a folder holds of a unit. Each file keeps its time: notes of those given up name them by it."""
    home = target.path_of(part.record)
    target.carry_recording(part.store, part.record)
    if part.begun:
        target.save_started(part.record)
        home = target.started_path(home)
    else:
        target.save(part.record)
    os.utime(home, ns=(_get_write_time(part.file),) * 2)
    if part.record.has_errors and not part.begun:
        target.place.remove(target.started_path(home))
        if before := part.trials_before_error:  # it is played on from there
            _write_part(before, target)


def _note_lost_trials(less: RecordPart, more: RecordPart, target: Store) -> None:
    """Note what the trials cost that a part has and the one that was chosen instead has not."""
    record, kept = less.record, more.record.trials
    if "forked_from" in record.provenance:
        return
    before = less.trials_before_error if record.has_errors else None
    first = len(before.record.trials) if before else 0
    lost = [trial if trial not in kept[place : place + 1] else None for place, trial in enumerate(record.trials)]
    for part, trials in ((before, lost[:first]), (less, lost[first:])):
        if part:
            target.note_abandoned(
                record.arm, get_job_key(record), sum_usage(filter(None, trials)), _get_write_time(part.file)
            )


def _get_write_time(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0


def _copy_under_way_costs(store: Store, target: Store, say: Callable[[str], None]) -> None:
    """Note what trials cost that a kill cut short. Nobody goes on with them in the whole."""
    if store.is_playing():
        say(f"{store.folder} is being played: what its trials under way cost comes when it is merged again")
        return
    for arm, key, file, costs in store.read_cut_short():
        target.note_abandoned(arm, key, costs, _get_write_time(file))


def _is_same_record(one: UnitRecord | TrainingRecord, other: UnitRecord | TrainingRecord) -> bool:
    """Whether they tell of the same trials. An older version does not say how many are allowed."""
    one, other = replace(one, provenance={}), replace(other, provenance={})
    if isinstance(one, UnitRecord) and isinstance(other, UnitRecord) and not one.trials_allowed * other.trials_allowed:
        one, other = replace(one, trials_allowed=0), replace(other, trials_allowed=0)
    return one == other
