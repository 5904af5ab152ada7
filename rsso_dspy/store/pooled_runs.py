"""Several runs read as one: units of an arm are pooled, so they must agree in everything that matters.

    pool = PooledRuns(stores)             # refused if an arm differs between folders
    for record in pool.units(): ...

    PooledRuns(stores, separate=True)     # keeps the arms of each folder apart, as `rsso (runs/a)`

Runs may differ in seeds, variants and arms, and in initial memories that an arm does not read.
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

MEND = "report each folder alone, or add --separate to keep the arms of each folder apart"


class PooledRuns:
    """Several run folders read as one run."""

    def __init__(self, stores: Sequence[Store], separate: bool = False):
        """Read run.json of each folder.

        Raises `UsageError` for a folder without a run, and `RunMismatch` if identities differ in more than seed and
        arms, if two folders hold the same unit or training, or, unless `separate`, if an arm differs between folders.
        """
        self.stores = stores
        self.separate = separate
        _check_same_identity(stores)
        self._kinds = ArmChecker(MEND)
        if not separate:
            for store in stores:
                self._kinds.check_arms(store)
            _check_no_overlap(stores)

    def units(self) -> Iterator[UnitRecord]:
        """Yield all units, folder by folder. Raises `RunMismatch` for a unit that cannot be pooled with its arm."""
        return self._load_checked(Store.units)

    def trainings(self) -> Iterator[TrainingRecord]:
        """Yield all trainings, as `units` does."""
        return self._load_checked(Store.trainings)

    def load_begun(self) -> Iterator[UnitRecord | TrainingRecord]:
        """Count unfinished units and trainings."""
        for store in self.stores:
            for record in store.load_begun():
                yield replace(record, arm=self.label_arm(store, record.arm))

    def read_abandoned(self) -> Iterator[RoleUsage]:
        """Return arm, role and usage of abandoned costs."""
        for store in self.stores:
            yield from ((self.label_arm(store, arm), role, usage) for arm, role, usage in store.read_abandoned())

    def read_under_way(self, store: Store) -> list[RoleUsage]:
        """Return the same for current trials of a folder, or interrupted ones that were not resumed."""
        return [(self.label_arm(store, arm), role, usage) for arm, role, usage in store.read_under_way()]

    def label_arm(self, store: Store, name: str) -> str:
        return f"{name} ({store.folder})" if self.separate and len(self.stores) > 1 else name

    def label_unit(self, store: Store, unit: str) -> str:
        """Return the key ``ARM/TASK::INDEX/sSEED`` of a folder's unit with the label of its arm."""
        arm, slash, rest = unit.partition("/")
        return f"{self.label_arm(store, arm)}{slash}{rest}"

    def _load_checked(self, read: Callable[[Store], Iterator[R]]) -> Iterator[R]:
        for store in self.stores:
            for record in read(store):
                if not self.separate:
                    self._kinds.check_record(store, record)
                yield replace(record, arm=self.label_arm(store, record.arm))


class ArmChecker:
    """Checks that units of each arm agree in program, initial memories and model.

    The store already rejects records of another program or protocol. `mend` says how to fix a mismatch.
    """

    def __init__(self, mend: str):
        self._mend = mend
        self._known: dict[str, tuple[Path, dict[str, str]]] = {}
        self._bound: dict[Path, tuple[Mapping[str, Any], Mapping[str, str]]] = {}

    def check_arms(self, store: Store) -> None:
        """Raise `RunMismatch` if an arm of this run differs from that of an earlier run, by their folders."""
        for arm in store.read_identity()[1]:
            self._register_kind(store, arm, self._read_arm_kind(store, arm))

    def check_record(self, store: Store, record: UnitRecord | TrainingRecord) -> None:
        """Raise `RunMismatch` if a record cannot be pooled with earlier ones of its arm."""
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
                f"{where} is not the same arm as {arm} in {folder}:\n{told}\nTheir units cannot be pooled: {self._mend}"
            )
        self._known[arm] = (folder, {**kind, **known})

    def _read_arm_kind(self, store: Store, arm: str) -> dict[str, str]:
        identity, arms = self._bound.setdefault(store.folder, store.read_identity())
        read = _list_read_memories(arm)
        carried = {name: digest for name, digest in identity.get("carried", {}).items() if name.split()[0] in read}
        told = ", ".join(f"{name} {digest}" for name, digest in sorted(carried.items()))
        return {"carried": told or NOTHING, **({"program": arms[arm]} if arm in arms else {})}


def _list_read_memories(arm: str) -> tuple[str, ...]:
    """Return the memories that an arm reads, by its name; all memories for an unknown method."""
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
                f"{stores[0].folder} and {store.folder} cannot be compared:\n{describe_difference(first, other)}"
            )


def _check_no_overlap(stores: Sequence[Store]) -> None:
    held: dict[Path, Path] = {}
    for store in stores:
        for file in chain.from_iterable((store.folder / kind).glob("*/*/*.json") for kind in ("units", "trainings")):
            name = file.relative_to(store.folder)
            if (other := held.setdefault(name, store.folder)) != store.folder:
                raise UsageError(f"{other} and {store.folder} both hold {name.with_suffix('')}; drop one of them")
