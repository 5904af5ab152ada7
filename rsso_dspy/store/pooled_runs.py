"""Runs read as one: their units of one arm are counted together, and so they have to be of one kind.

    pool = PooledRuns(stores)             # refused when an arm is one thing here and another there
    for record in pool.units(): ...

    PooledRuns(stores, separate=True)     # the arms of each folder are arms of their own, `rsso (runs/a)`

Runs may differ in seeds, variants and arms, and in what an arm never looks at: memories that others start from.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.programs.methods import ADDITIONS, METHODS
from rsso_dspy.records import RoleUsage, TrainingRecord, UnitRecord
from rsso_dspy.store.run_file import describe_difference
from rsso_dspy.store.unit_store import Store

R = TypeVar("R", UnitRecord, TrainingRecord)

NOTHING = "nothing"

MEND = "report each folder by itself, or all with --separate, which makes the arms of each folder arms of their own"


class PooledRuns:
    """What several folders hold, read as one run."""

    def __init__(self, stores: Sequence[Store], separate: bool = False):
        """Nothing is read but what stands in their run.json. Raises `UsageError` for a folder that holds no run, and
        `RunMismatch` for runs whose results depend on something else than seed and arms, when two hold the same unit or
        training and, unless `separate`, when an arm of the same name is another one there."""
        self.stores = stores
        self.separate = separate
        _check_same_identity(stores)
        self._kinds = ArmChecker(MEND)
        if not separate:
            for store in stores:
                self._kinds.check_arms(store)
            _check_no_overlap(stores)

    def units(self) -> Iterator[UnitRecord]:
        """All units, folder by folder; raises `RunMismatch` at one of another kind than those of its arm before it."""
        return self._load_checked(Store.units)

    def trainings(self) -> Iterator[TrainingRecord]:
        """All trainings, likewise."""
        return self._load_checked(Store.trainings)

    def load_begun(self) -> Iterator[UnitRecord | TrainingRecord]:
        """Units and trainings that are not finished."""
        for store in self.stores:
            for record in store.load_begun():
                yield replace(record, arm=self.label_arm(store, record.arm))

    def read_abandoned(self) -> Iterator[RoleUsage]:
        """Arm, role and usage of what was spent that no record tells of."""
        for store in self.stores:
            yield from ((self.label_arm(store, arm), role, usage) for arm, role, usage in store.read_abandoned())

    def read_under_way(self, store: Store) -> list[RoleUsage]:
        """The same of the trials of one folder that are played now, or were cut short and not gone on with."""
        return [(self.label_arm(store, arm), role, usage) for arm, role, usage in store.read_under_way()]

    def label_arm(self, store: Store, name: str) -> str:
        """What an arm of a folder is called here."""
        return f"{name} ({store.folder})" if self.separate and len(self.stores) > 1 else name

    def label_unit(self, store: Store, unit: str) -> str:
        """The key of a folder's unit, ``ARM/TASK::INDEX/sSEED``, with what its arm is called here."""
        arm, slash, rest = unit.partition("/")
        return f"{self.label_arm(store, arm)}{slash}{rest}"

    def _load_checked(self, read: Callable[[Store], Iterator[R]]) -> Iterator[R]:
        for store in self.stores:
            for record in read(store):
                if not self.separate:
                    self._kinds.check_record(store, record)
                yield replace(record, arm=self.label_arm(store, record.arm))


class ArmChecker:
    """What the units of each arm are of: their program, what they started from and their model. A record of another
    program or protocol than its folder says never comes here: the store believes none. `mend` says what to do about an
    arm whose units are not all of one kind."""

    def __init__(self, mend: str):
        self._mend = mend
        self._known: dict[str, tuple[Path, dict[str, str]]] = {}
        self._bound: dict[Path, tuple[Mapping[str, Any], Mapping[str, str]]] = {}

    def check_arms(self, store: Store) -> None:
        """Raise `RunMismatch` when an arm of this run is another one in a run before it, by what their folders say."""
        for arm in store.read_identity()[1]:
            self._register_kind(store, arm, self._read_arm_kind(store, arm))

    def check_record(self, store: Store, record: UnitRecord | TrainingRecord) -> None:
        """Raise `RunMismatch` when a record of the store is of another kind than those of its arm before it."""
        kind = {**self._read_arm_kind(store, record.arm), "model": record.model}
        digests = [source.digest for source in record.sources if source.kind == "file"]
        kind |= {"start": " ".join(digests) or NOTHING}
        self._register_kind(store, record.arm, kind, record.key)

    def _register_kind(self, store: Store, arm: str, kind: dict[str, str], unit: str = "") -> None:
        folder, known = self._known.setdefault(arm, (store.folder, kind))
        if any(known[name] != kind[name] for name in known.keys() & kind.keys()):
            shared = {name: value for name, value in known.items() if name in kind}
            told = describe_difference(shared, {name: kind[name] for name in shared})
            where = f"{unit} of {arm} in {store.folder}" if unit else f"{arm} in {store.folder}"
            raise RunMismatch(
                f"{where} is not the same arm as {arm} in {folder}:\n{told}\nTheir units cannot be counted as one arm: "
                f"{self._mend}"
            )
        self._known[arm] = (folder, {**kind, **known})

    def _read_arm_kind(self, store: Store, arm: str) -> dict[str, str]:
        identity, arms = self._bound.setdefault(store.folder, store.read_identity())
        read = _list_read_memories(arm)
        carried = {name: digest for name, digest in identity.get("carried", {}).items() if name.split()[0] in read}
        told = ", ".join(f"{name} {digest}" for name, digest in sorted(carried.items()))
        return {"carried": told or NOTHING, **({"program": arms[arm]} if arm in arms else {})}


def _list_read_memories(arm: str) -> tuple[str, ...]:
    """The memories that an arm's units read, by its name; every one of a method that is not known here."""
    base, *added = arm.split("+")
    if base not in METHODS:
        return ("skills", "constitution")
    return (*METHODS[base].memories, *(["constitution"] if set(added) & set(ADDITIONS) else []))


def _check_same_identity(stores: Sequence[Store]) -> None:
    def read_bound_identity(store: Store) -> dict[str, Any]:
        known = {key: value for key, value in store.read_identity()[0].items() if key not in ("config_hash", "carried")}
        config = known.get("config")
        return {**known, "config": {**config, "seed": ""}} if isinstance(config, dict) else known

    first = read_bound_identity(stores[0])
    for store in stores[1:]:
        if (other := read_bound_identity(store)) != first:
            raise RunMismatch(
                f"{stores[0].folder} and {store.folder} are not to be compared:\n{describe_difference(first, other)}"
            )


def _check_no_overlap(stores: Sequence[Store]) -> None:
    held: dict[Path, Path] = {}
    for store in stores:
        for file in chain.from_iterable((store.folder / kind).glob("*/*/*.json") for kind in ("units", "trainings")):
            name = file.relative_to(store.folder)
            if (other := held.setdefault(name, store.folder)) != store.folder:
                raise UsageError(f"{other} and {store.folder} both hold {name.with_suffix('')}; leave one out")
