"""Several folders read as one run.

    pool = PooledRuns(stores)             # `rsso r_freq=5` and `rsso r_freq=10` if that setting differs
    for record in pool.units(): ...

Units of an arm are pooled, so they must agree in everything that matters. Runs may differ in seeds, variants and arms,
and in initial memories that an arm does not read; other settings and initial memories that differ become part of an
arm's label.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.programs.methods import ADDITIONS, METHODS
from rsso_dspy.records import RoleUsage, TrainingRecord, UnitRecord
from rsso_dspy.store.commands import read_given
from rsso_dspy.store.run_folder import Store, describe_difference, find_logs, flatten_keys

FIXED = ("benchmark", "environment.simplification", "environment.data")
"""Settings that make other variants or points: runs that differ in one are refused."""


class PooledRuns:
    """Several run folders read as one run."""

    def __init__(self, stores: Sequence[Store]):
        """Read run.json of each folder.

        Raises `UsageError` for a folder without a run, and `RunMismatch` if benchmark, versions or prompts differ, if
        arms of one label differ, or two folders hold the same unit or training of one arm.
        """
        self.stores = stores
        self._identities = {store: store.read_identity() for store in stores}
        for one, other in combinations(stores, 2):
            self._check_comparable(one, other)
        settings = {store: _read_settings(identity) for store, (identity, _) in self._identities.items()}
        self._settings = dict(zip(settings, _describe_differences(list(settings.values())), strict=True))
        self._files = _name_files(self._identities)
        self._labels: dict[tuple[Store, str], str] = {}
        self._check_arms()
        self._check_no_overlap()

    def units(self) -> Iterator[UnitRecord]:
        """Yield all units, folder by folder."""
        return self._label_records(Store.units)

    def trainings(self) -> Iterator[TrainingRecord]:
        """Yield all trainings, as `units` does."""
        return self._label_records(Store.trainings)

    def load_begun(self) -> Iterator[UnitRecord | TrainingRecord]:
        """Yield the finished trials of unfinished units and trainings."""
        return self._label_records(Store.load_begun)

    def _label_records(self, read: Callable[[Store], Iterable[Any]]) -> Iterator[Any]:
        for store in self.stores:
            yield from (replace(record, arm=self.label_arm(store, record.arm)) for record in read(store))

    def read_abandoned(self) -> Iterator[RoleUsage]:
        """Return arm, role and usage of abandoned costs."""
        for store in self.stores:
            yield from ((self.label_arm(store, arm), role, usage) for arm, role, usage in store.read_abandoned())

    def read_under_way(self, store: Store) -> list[RoleUsage]:
        """Return the same for current trials of a folder, or interrupted ones that were not resumed."""
        return [(self.label_arm(store, arm), role, usage) for arm, role, usage in store.read_under_way()]

    def label_arm(self, store: Store, name: str) -> str:
        """Return the name of a folder's arm in this pool."""
        if len(self.stores) == 1:
            return name
        if (store, name) not in self._labels:
            memories = {
                each: {
                    what: self._files.get(digest, digest[:6]) for what, digest in _select_carried(known, name).items()
                }
                for each, (known, arms) in self._identities.items()
                if name in arms or each is store
            }
            said = dict(zip(memories, _describe_differences(list(memories.values())), strict=True))[store]
            self._labels[store, name] = " ".join(filter(None, (name, self._settings[store], said)))
        return self._labels[store, name]

    def find_sources(self, record: UnitRecord | TrainingRecord) -> Iterator[tuple[Store, UnitRecord | TrainingRecord]]:
        """Yield the folders that may hold a record of this pool, each with the record under its arm's own name."""
        if len(self.stores) == 1:
            yield self.stores[0], record
            return
        for store, (_, arms) in self._identities.items():
            yield from ((store, replace(record, arm=arm)) for arm in arms if self.label_arm(store, arm) == record.arm)

    def label_unit(self, store: Store, unit: str) -> str:
        """Return the key ``ARM/TASK::INDEX/sSEED`` of a folder's unit with the label of its arm."""
        arm, slash, rest = unit.partition("/")
        return f"{self.label_arm(store, arm)}{slash}{rest}"

    def _check_comparable(self, one: Store, other: Store) -> None:
        """Raise `RunMismatch` for runs of which no comparison would mean anything."""
        identities = [self._identities[store][0] for store in (one, other)]
        settings = [_read_settings(identity) for identity in identities]
        left_out = {"config", "config_hash", "carried"}
        if settings[0] != settings[1]:
            left_out.add("protocol")
        if any(settings[0].get(key) != settings[1].get(key) for key in ("protocol.preset", "protocol.interface")):
            left_out.add("prompts")
        ours, theirs = (
            {key: value for key, value in identity.items() if key not in left_out}
            | {f"config.{key}": own[key] for key in FIXED if key in own}
            for identity, own in zip(identities, settings, strict=True)
        )
        if ours != theirs:
            raise RunMismatch(
                f"{one.folder} and {other.folder} cannot be compared:\n{describe_difference(ours, theirs)}"
            )

    def _check_arms(self) -> None:
        """Raise `RunMismatch` if arms of one label have other programs or initial memories."""
        known: dict[str, tuple[Path, dict[str, str]]] = {}
        for store, (identity, arms) in self._identities.items():
            for arm, program in arms.items():
                label, kind = self.label_arm(store, arm), {**_select_carried(identity, arm), "program": program}
                folder, earlier = known.setdefault(label, (store.folder, kind))
                if kind != earlier:
                    raise RunMismatch(
                        f"{label} in {store.folder} is not the same arm as {label} in {folder}:\n"
                        f"{describe_difference(earlier, kind)}\nTheir units cannot be pooled: report each folder alone"
                    )

    def _check_no_overlap(self) -> None:
        held: dict[tuple[str, ...], Path] = {}
        for store in self.stores:
            files = (file for kind in ("units", "trainings") for file in find_logs(store.folder / kind))
            for name in (file.relative_to(store.folder) for file in files):
                kind, arm, *rest = name.parts
                if (other := held.setdefault((kind, self.label_arm(store, arm), *rest), store.folder)) != store.folder:
                    raise UsageError(f"{other} and {store.folder} both hold {name.with_suffix('')}; drop one of them")


def _list_read_memories(arm: str) -> tuple[str, ...]:
    """Return the memories that an arm reads, by its name; all memories for an unknown method."""
    base, *added = arm.split("+")
    if base not in METHODS:
        return ("skills", "constitution")
    return (*METHODS[base].memories, *(["constitution"] if set(added) & set(ADDITIONS) else []))


def _select_carried(identity: Mapping[str, Any], arm: str) -> dict[str, str]:
    """Return the digests of the files that an arm starts from, by what they hold."""
    read = _list_read_memories(arm)
    return {name: digest for name, digest in identity.get("carried", {}).items() if name.split()[0] in read}


def _name_files(identities: Mapping[Store, tuple[Mapping[str, Any], Any]]) -> dict[str, str]:
    """Return digest to name of the files that units start from; where files share a name, the start of the digest."""
    names: dict[str, str] = {}
    for store, (identity, _) in identities.items():
        given = {path.parent.name: path.stem for path in map(Path, read_given(store))}
        carried = {digest: given.get(what.split()[-1]) for what, digest in identity.get("carried", {}).items()}
        names |= {digest: name for digest, name in carried.items() if name}
    count = Counter(names.values())
    return {digest: name if count[name] == 1 else digest[:6] for digest, name in names.items()}


def _read_settings(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return dotted key to value of all settings but the seed and unset ones; the backend's own stand below `backend`,
    whatever its name."""
    config = dict(identity.get("config", {}))
    name, backends = config.pop("backend", ""), config.pop("backends", {})
    found = flatten_keys({**config, "backend": backends.get(str(name), {}) if isinstance(backends, dict) else backends})
    if "memory.reflections.size" in found:  # as without improvements
        found["memory.reflections"] = found.pop("memory.reflections.size")
    return {key: value for key, value in found.items() if value is not None and key != "seed"}


def _describe_differences(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return of each of these mappings its values that are not the same in all of them, as ``key=value``.

    Keys are shortened to as many of their last parts as tell them apart; unset ones are left out.
    """
    first = settings[0]
    keys = [
        key
        for key in dict.fromkeys(chain.from_iterable(settings))
        if any(each.get(key) != first.get(key) for each in settings)
    ]
    named = {key: _shorten_key(key, keys) for key in keys}
    return [" ".join(f"{named[key]}={_format_value(each[key])}" for key in keys if key in each) for each in settings]


def _shorten_key(key: str, others: Sequence[str]) -> str:
    parts = key.split(".")
    tails = (".".join(parts[place:]) for place in reversed(range(len(parts))))
    return next(tail for tail in tails if tail == key or sum(f".{other}".endswith(f".{tail}") for other in others) == 1)


def _format_value(value: Any) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
