"""Merges shards of a run that were played on separate machines.

rsso-dspy run ... --shard 2/8 --out runs/part-2
rsso-dspy merge runs/part-* --out runs/whole
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rsso_dspy.errors import RunMismatch
from rsso_dspy.records import TrainingRecord, UnitRecord, sum_usage
from rsso_dspy.store.manifest import load_invocations, merge_manifests
from rsso_dspy.store.pooled_runs import ArmChecker
from rsso_dspy.store.run_file import describe_difference
from rsso_dspy.store.run_log import list_planned_units
from rsso_dspy.store.run_spec import Shard, list_missing_shards
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.usage_ledger import get_job_key


def merge_shards(sources: Sequence[Path], target: Store, say: Callable[[str], None] = lambda _: None) -> int:
    """Merge the records of several folders of one run into `target`, which may hold some already; return their number.

    Includes trials of unfinished units and abandoned costs. `say` receives notes on missing shards and units, which the
    target remembers, and on unreadable files. Raises `RunMismatch` if the folders are not of one run, if shards are of
    different selections of variants, if units of an arm cannot be pooled, or if a unit has different records. All
    folders are checked before anything is written.
    """
    stores = [Store(folder, read_only=True) for folder in sources]
    identity, arms = stores[0].read_identity()
    kinds = ArmChecker("drop that folder")
    for store in stores:
        known, there = store.read_identity()
        if known != identity:
            raise RunMismatch(
                f"{store.folder} and {stores[0].folder} are of different runs:\n{describe_difference(identity, known)}"
            )
        kinds.check_arms(store)
        arms = {**arms, **there}
    target.check_identity(identity, arms)
    looked_at = [*stores, *([target] if (target.folder / "run.json").exists() else [])]
    _check_same_selection(looked_at)
    shards = _find_shards(looked_at)
    if missing := list_missing_shards(shards):
        say(f"shards are missing: {', '.join(missing)}")
    chosen: dict[Path, RecordPart] = {}
    lost: list[tuple[RecordPart, RecordPart]] = []
    given_up = set().union(*(store.read_abandoned_files() for store in looked_at))
    for part in (part for store in looked_at for part in _load_parts(store, given_up)):
        if not part.begun:
            kinds.check_record(part.store, part.record)
        _choose_part(chosen, lost, target.path_of(part.record), part)
    with target.lock():
        target.open(identity, arms)
        target.note_shards(shards if missing else ())
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
    if left := list_planned_units(target) - {get_job_key(part.record) for part in records}:
        say(f"{len(left)} planned unit{'s have' if len(left) > 1 else ' has'} no record yet")
    for store in (*stores, target):
        for file in store.set_aside:
            say(f"{store.describe_quarantined(file)}: its unit is missing")
    return len(records)


def _find_shards(stores: Sequence[Store]) -> list[str]:
    """Return the shards that these folders hold together; none if one of them holds the whole run."""
    held = [store.read_shards() for store in stores]
    return sorted({shard for shards in held for shard in shards}) if all(held) else []


def _check_same_selection(stores: Sequence[Store]) -> None:
    """Raise `RunMismatch` if shards were cut from different selections, or into different numbers of parts: together
    they are no run at all."""
    splits = {Shard.parse(shard).of: store.folder for store in stores for shard in store.read_shards()}
    if len(splits) > 1:
        said = ", ".join(f"{folder} is one of {of}" for of, folder in sorted(splits.items()))
        raise RunMismatch(f"these shards are of different splits: {said}; play one of them again as the other")
    known: dict[frozenset[str], Path] = {}
    for store in stores:
        if store.read_shards() and (asked := load_invocations(store.folder)):
            known.setdefault(frozenset(each.describe_selection() for each in asked), store.folder)
    if len(known) > 1:
        said = "\n".join(f"  {folder}: {', then '.join(sorted(chosen))}" for chosen, folder in known.items())
        raise RunMismatch(f"these shards are of different variants:\n{said}\nPlay one of them again as the other")


@dataclass(frozen=True, slots=True)
class RecordPart:
    """The data of one unit or training in one folder."""

    record: UnitRecord | TrainingRecord
    store: Store
    file: Path
    begun: bool = False
    """Whether it has finished trials but no record yet."""

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Precedence of parts of one unit: finished, then errored, then the longer one."""
        return not (self.begun or self.record.has_errors), not self.begun, len(self.record.trials)

    @property
    def trials_before_error(self) -> "RecordPart | None":
        file = self.store.started_path(self.file)
        record = self.store.load_either(file)
        return RecordPart(record, self.store, file, begun=True) if record else None


def _load_parts(store: Store, given_up: Collection[tuple[str, int]]) -> Iterator[RecordPart]:
    """Return all parts of a folder. If the error of a unit was discarded elsewhere, only its earlier trials."""
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
    """Choose between two parts of one unit. Two finished ones must be equal."""
    known = chosen.get(path)
    finished = not (part.begun or part.record.has_errors)
    if known is None:
        chosen[path] = part
    elif finished and known.rank >= (True, True, 0):
        if not _is_same_record(part.record, known.record):
            raise RunMismatch(
                f"{part.store.folder} holds another record of {part.record.arm} {part.record.key} than an earlier "
                "folder: they are not shards of one run; merge only one of them"
            )
    else:
        more, less = (part, known) if part.rank > known.rank else (known, part)
        chosen[path] = more
        lost.append((less, more))


def _write_part(part: RecordPart, target: Store) -> None:
    """Write a part of a unit. Files keep their modification times, which abandoned costs refer to."""
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
        if before := part.trials_before_error:  # it resumes from there
            _write_part(before, target)


def _note_lost_trials(less: RecordPart, more: RecordPart, target: Store) -> None:
    """Store the cost of trials that only the rejected part has as abandoned."""
    record, kept = less.record, more.record.trials
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
    """Store the cost of trials cut short by a kill as abandoned, because the merged run does not resume them."""
    if store.is_playing():
        say(f"{store.folder} is being played: merge it again later to include the cost of its current trials")
        return
    for arm, key, file, costs in store.read_cut_short():
        target.note_abandoned(arm, key, costs, _get_write_time(file))


def _is_same_record(one: UnitRecord | TrainingRecord, other: UnitRecord | TrainingRecord) -> bool:
    """Return whether two records hold the same trials."""
    return replace(one, provenance={}) == replace(other, provenance={})
