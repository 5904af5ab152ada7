"""Several folders read as one run.

Units of an arm are pooled, so they must agree in everything that matters. Runs may differ in seeds, variants and arms,
and in initial memories that an arm does not read; other settings and initial memories that differ become part of an
arm's label: `rsso r_freq=5` and `rsso r_freq=10`.
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
    def __init__(self, stores: Sequence[Store]):
        """Raises `RunMismatch` if benchmark, versions or prompts differ or arms of one label do, and `UsageError` if
        two folders hold the same unit."""
        self.stores = stores
        self._identities = {store: store.read_identity() for store in stores}
        self._settings = {store: _read_settings(identity) for store, (identity, _) in self._identities.items()}
        for first, second in combinations(stores, 2):
            self._check_comparable(first, second)
        self._labels: dict[tuple[Store, str], str] = {}
        if len(stores) > 1:
            self._name_arms()
        self._check_arms()
        self._check_no_overlap()

    def units(self) -> Iterator[UnitRecord]:
        return self._label_records(Store.units)

    def trainings(self) -> Iterator[TrainingRecord]:
        return self._label_records(Store.trainings)

    def load_begun(self) -> Iterator[UnitRecord | TrainingRecord]:
        return self._label_records(Store.load_begun)

    def _label_records(self, read: Callable[[Store], Iterable[Any]]) -> Iterator[Any]:
        return (
            replace(record, arm=self.label_arm(store, record.arm)) for store in self.stores for record in read(store)
        )

    def label_usage(self, store: Store, usage: Iterable[RoleUsage]) -> list[RoleUsage]:
        return [(self.label_arm(store, arm), role, role_usage) for arm, role, role_usage in usage]

    def label_arm(self, store: Store, name: str) -> str:
        return self._labels.get((store, name), name)

    def _name_arms(self) -> None:
        """Label every arm by what differs between the folders: settings, and memories that the arm starts from."""
        files = _name_files(self._identities)
        differing = dict(zip(self.stores, _describe_differences(list(self._settings.values())), strict=True))
        for name in dict.fromkeys(arm for _, arms in self._identities.values() for arm in arms):
            started = {
                store: {what: files.get(digest, digest[:6]) for what, digest in _select_carried(identity, name).items()}
                for store, (identity, arms) in self._identities.items()
                if name in arms
            }
            for store, difference in zip(started, _describe_differences(list(started.values())), strict=True):
                self._labels[store, name] = " ".join(filter(None, (name, differing[store], difference)))

    def find_sources(self, record: UnitRecord | TrainingRecord) -> Iterator[tuple[Store, UnitRecord | TrainingRecord]]:
        """Yield the folders that may hold a record of this pool, each with the record under its arm's own name."""
        for store, (_, arms) in self._identities.items():
            yield from ((store, replace(record, arm=arm)) for arm in arms if self.label_arm(store, arm) == record.arm)

    def _check_comparable(self, one: Store, other: Store) -> None:
        identities = [self._identities[store][0] for store in (one, other)]
        settings = [self._settings[store] for store in (one, other)]
        left_out = {"config", "config_hash", "carried"}
        if settings[0] != settings[1]:
            left_out.add("protocol")
        if any(settings[0].get(key) != settings[1].get(key) for key in ("protocol.preset", "protocol.interface")):
            left_out.add("prompts")
        ours, theirs = (
            {key: value for key, value in identity.items() if key not in left_out}
            | {f"config.{key}": own_settings[key] for key in FIXED if key in own_settings}
            for identity, own_settings in zip(identities, settings, strict=True)
        )
        if ours != theirs:
            difference = describe_difference(ours, theirs)
            raise RunMismatch(f"{one.folder} and {other.folder} cannot be compared:\n{difference}")

    def _check_arms(self) -> None:
        by_label: dict[str, tuple[Path, dict[str, str]]] = {}
        for store, (identity, arms) in self._identities.items():
            for arm, program in arms.items():
                label = self.label_arm(store, arm)
                kind = {**_select_carried(identity, arm), "program": program}
                folder, earlier = by_label.setdefault(label, (store.folder, kind))
                if kind != earlier:
                    raise RunMismatch(
                        f"{label} in {store.folder} is not the same arm as {label} in {folder}:\n"
                        f"{describe_difference(earlier, kind)}\nTheir units cannot be pooled: report each folder alone"
                    )

    def _check_no_overlap(self) -> None:
        folders: dict[tuple[str, ...], Path] = {}
        for store in self.stores:
            files = (file for kind in ("units", "trainings") for file in find_logs(store.folder / kind))
            for name in (file.relative_to(store.folder) for file in files):
                kind, arm, *rest = name.parts
                key = (kind, self.label_arm(store, arm), *rest)
                folder = folders.setdefault(key, store.folder)
                if folder != store.folder:
                    raise UsageError(f"{folder} and {store.folder} both hold {name.with_suffix('')}; drop one of them")


def _select_carried(identity: Mapping[str, Any], arm: str) -> dict[str, str]:
    """The digests of the files that an arm starts from, by what they hold; of an unknown method all."""
    base, *added = arm.split("+")
    memories = METHODS[base].memories if base in METHODS else ("skills", "constitution")
    memories = (*memories, *(["constitution"] if set(added) & set(ADDITIONS) else []))
    carried = {}
    for what, digest in identity.get("carried", {}).items():
        kind, _, name = what.split()[0].partition("+")
        if kind in memories and (not name or name in added):
            carried[what] = digest
    return carried


def _name_files(identities: Mapping[Store, tuple[Mapping[str, Any], Any]]) -> dict[str, str]:
    """Digest to name of the files that units start from; where files share a name, the start of the digest."""
    names: dict[str, str] = {}
    for store, (identity, _) in identities.items():
        file_names = {path.parent.name: path.stem for path in map(Path, read_given(store))}
        carried = {digest: file_names.get(what.split()[-1]) for what, digest in identity.get("carried", {}).items()}
        names |= {digest: name for digest, name in carried.items() if name}
    count = Counter(names.values())
    return {digest: name if count[name] == 1 else digest[:6] for digest, name in names.items()}


def _read_settings(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key to value of the settings that are set, but the seed; the backend's below `backend`."""
    config = dict(identity.get("config", {}))
    name = config.pop("backend", "")
    backends = config.pop("backends", {})
    settings = flatten_keys(
        {**config, "backend": backends.get(str(name), {}) if isinstance(backends, dict) else backends}
    )
    if "memory.reflections.size" in settings:  # as without improvements
        settings["memory.reflections"] = settings.pop("memory.reflections.size")
    return {key: value for key, value in settings.items() if value is not None and key != "seed"}


def _describe_differences(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return of each of these mappings its values that are not the same in all of them, as ``key=value``. Keys are
    shortened to as many of their last parts as tell them apart; unset ones are left out."""
    all_keys = dict.fromkeys(chain.from_iterable(settings))
    keys = [key for key in all_keys if any(mapping.get(key) != settings[0].get(key) for mapping in settings)]
    short_keys = {key: _shorten_key(key, keys) for key in keys}
    return [
        " ".join(f"{short_keys[key]}={_format_value(mapping[key])}" for key in keys if key in mapping)
        for mapping in settings
    ]


def _shorten_key(key: str, others: Sequence[str]) -> str:
    parts = key.split(".")
    tails = (".".join(parts[place:]) for place in reversed(range(len(parts))))
    return next(tail for tail in tails if tail == key or sum(f".{other}".endswith(f".{tail}") for other in others) == 1)


def _format_value(value: Any) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
