"""Parts of a run that are played apart, on machines that know nothing of each other, and put together again.

    rsso-dspy run ... --shard 2/8 --out runs/part-2
    rsso-dspy merge runs/part-* --out runs/whole

All arms of a variant are in one shard, and under transfer all variants of a task, which share trainings. A stream is in
one shard, since its units follow from one another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.protocol.given import carry
from rsso_dspy.protocol.plan import Plan, Unit
from rsso_dspy.protocol.store import Store, difference, said_of
from rsso_dspy.trajectory import TrainingRecord, UnitRecord


@dataclass(frozen=True, slots=True)
class Shard:
    """Part `number`, from 1, of `of` parts."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """The shard that ``i/n`` names. Raises `UsageError` for anything else."""
        number, slash, of = text.partition("/")
        if not (slash and number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
            raise UsageError(f"--shard {text}: expected i/n with i from 1 to n, e.g. 2/8")
        return cls(int(number), int(of))

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def shard_of(plan: Plan, shard: Shard | None) -> Plan:
    """The plan with the units and trainings of one shard only."""
    if shard is None:
        return plan
    groups = list(dict.fromkeys(_group(plan, unit) for unit in plan.units))
    mine = set(groups[shard.number - 1 :: shard.of])
    units = tuple(unit for unit in plan.units if _group(plan, unit) in mine)
    if not units:
        raise UsageError(f"shard {shard.number}/{shard.of} is empty: the run falls into {len(groups)} parts at most")
    needed = {training for unit in units if (training := plan.training_of(unit))}
    return replace(plan, units=units, trainings=tuple(each for each in plan.trainings if each in needed))


def _group(plan: Plan, unit: Unit) -> str:
    if unit.place:
        return unit.arm.name
    return unit.variant.task if plan.trainings else unit.variant.key


def merge(sources: Sequence[Path], target: Store, say: Callable[[str], None] = lambda _: None) -> int:
    """Put the records of several folders of one run into `target`, which may hold some already; gives how many came.
    Trials of units that are not finished come too. `say` is told of shards that are missing and of files that could
    not be read.

    Raises `RunMismatch` when the folders are not of one run, or hold different records of the same unit. Nothing is
    written before all of them were looked at.
    """
    stores = [Store(folder) for folder in sources]
    identity, arms = stores[0].about()
    for store in stores:
        store.read_only = True
        known, there = store.about()
        if known != identity:
            raise RunMismatch(
                f"{store.folder} and {stores[0].folder} are of different runs:\n{difference(identity, known)}"
            )
        if other := [arm for arm, program in there.items() if arms.get(arm, program) != program]:
            raise RunMismatch(f"{store.folder} and {stores[0].folder} played other programs as {', '.join(other)}")
        arms = {**arms, **there}
    target.check(identity, arms)
    _say_what_is_missing(stores, say)
    records: dict[Path, UnitRecord | TrainingRecord] = {}
    for store in (*stores, *([target] if (target.folder / "run.json").exists() else [])):
        found: list[UnitRecord | TrainingRecord] = [*store.units(), *store.trainings()]
        for record in found:
            _add(records, target.path_of(record), record, store)
    with target.lock():
        target.open(identity, arms)
        for record in records.values():
            target.save(record)
        carry([store.folder for store in stores], target.folder)
        for store in stores:
            target.copy_notes(store)
            for begun in store.begun():
                if target.path_of(begun) not in records:
                    target.save_started(begun)
    for store in (*stores, target):
        for file in store.set_aside:
            say(f"{said_of(file)}: its unit is missing")
    return len(records)


def _say_what_is_missing(stores: Sequence[Store], say: Callable[[str], None]) -> None:
    parts = [Shard.parse(text) for store in stores if (text := store.shard())]
    for of in sorted({part.of for part in parts}):
        there = {part.number for part in parts if part.of == of}
        if missing := [f"{number}/{of}" for number in range(1, of + 1) if number not in there]:
            say(f"shards are missing: {', '.join(missing)}")


def _add(
    records: dict[Path, UnitRecord | TrainingRecord], path: Path, record: UnitRecord | TrainingRecord, store: Store
) -> None:
    """Of two records of one unit the finished one counts; two finished ones must be the same."""
    known = records.get(path)
    if known is None or (known.errored and not record.errored):
        records[path] = record
    elif not record.errored and _same(record, known):
        records[path] = known if getattr(known, "trials_allowed", 1) else record
    elif not (record.errored or known.errored):
        raise RunMismatch(
            f"{store.folder} holds another record of {record.arm} {record.key} than a folder before it: they are not "
            "shards of one run; merge only one of them"
        )


def _same(one: UnitRecord | TrainingRecord, other: UnitRecord | TrainingRecord) -> bool:
    """Whether they tell of the same trials. An older version does not say how many are allowed."""
    one, other = replace(one, provenance={}), replace(other, provenance={})
    if isinstance(one, UnitRecord) and isinstance(other, UnitRecord) and not one.trials_allowed * other.trials_allowed:
        one, other = replace(one, trials_allowed=0), replace(other, trials_allowed=0)
    return one == other
