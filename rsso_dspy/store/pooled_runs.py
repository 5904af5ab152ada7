"""Several folders read as one run.

Units of an arm are pooled, so they must agree in everything that matters. Runs may differ in seeds, variants and arms,
and in initial memories that an arm does not read; other settings and initial memories that differ become part of an
arm's label: `rsso r_freq=5` and `rsso r_freq=10`.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
        for store in self.stores:
            for record in read(store):
                yield replace(record, arm=self.label_arm(store, record.arm))

    def label_usage(self, store: Store, usage: Iterable[RoleUsage]) -> list[RoleUsage]:
        return [(self.label_arm(store, arm), role, role_usage) for arm, role, role_usage in usage]

    def label_arm(self, store: Store, name: str) -> str:
        return self._labels.get((store, name), name)

    def _name_arms(self) -> None:
        """Label every arm by what differs between the folders: settings, and memories that the arm starts from."""
        file_names = _name_files(self._identities)
        differences = _describe_differences(list(self._settings.values()))
        settings = dict(zip(self.stores, differences, strict=True))
        arm_names = dict.fromkeys(chain.from_iterable(arms for _, arms in self._identities.values()))
        for name in arm_names:
            carried = {}
            for store, (identity, arms) in self._identities.items():
                if name in arms:
                    carried[store] = _name_carried(identity, name, file_names)

            memories = _describe_differences(list(carried.values()))
            for store, memory in zip(carried, memories, strict=True):
                parts = (name, settings[store], memory)
                self._labels[store, name] = " ".join(part for part in parts if part)

    def find_sources(self, record: UnitRecord | TrainingRecord) -> Iterator[tuple[Store, UnitRecord | TrainingRecord]]:
        """Yield the folders that may hold a record of this pool, each with the record under its arm's own name."""
        for store, (_, arms) in self._identities.items():
            for arm in arms:
                if self.label_arm(store, arm) == record.arm:
                    yield store, replace(record, arm=arm)

    def _check_comparable(self, one: Store, other: Store) -> None:
        settings = self._settings[one]
        other_settings = self._settings[other]
        left_out = {"config", "config_hash", "carried"}
        if settings != other_settings:
            left_out.add("protocol")
        for key in ("protocol.preset", "protocol.interface"):
            if settings.get(key) != other_settings.get(key):
                left_out.add("prompts")

        ours = self._select_compared(one, left_out)
        theirs = self._select_compared(other, left_out)
        if ours != theirs:
            difference = describe_difference(ours, theirs)
            raise RunMismatch(f"{one.folder} and {other.folder} cannot be compared:\n{difference}")

    def _select_compared(self, store: Store, left_out: Collection[str]) -> dict[str, Any]:
        """Return what must be the same in every folder: the identity but for these keys, and the `FIXED` settings."""
        identity, _ = self._identities[store]
        settings = self._settings[store]
        compared = {key: value for key, value in identity.items() if key not in left_out}
        for key in FIXED:
            if key in settings:
                compared[f"config.{key}"] = settings[key]
        return compared

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
            for name in _list_log_names(store):
                kind, arm, *rest = name.parts
                key = (kind, self.label_arm(store, arm), *rest)
                folder = folders.setdefault(key, store.folder)
                if folder != store.folder:
                    raise UsageError(f"{folder} and {store.folder} both hold {name.with_suffix('')}; drop one of them")


def _list_log_names(store: Store) -> Iterator[Path]:
    """Yield the logs of a folder's units and trainings, as paths in it."""
    for kind in ("units", "trainings"):
        for log in find_logs(store.folder / kind):
            yield log.relative_to(store.folder)


def _select_carried(identity: Mapping[str, Any], arm: str) -> dict[str, str]:
    """The digests of the files that an arm starts from, by what they hold; of an unknown method all."""
    base, *added = arm.split("+")
    memories = ["skills", "constitution"]
    if base in METHODS:
        memories = list(METHODS[base].memories)
    if set(added) & set(ADDITIONS):
        memories.append("constitution")

    carried = {}
    for what, digest in identity.get("carried", {}).items():
        kind, _, name = what.split()[0].partition("+")
        if kind in memories and (not name or name in added):
            carried[what] = digest
    return carried


def _name_carried(identity: Mapping[str, Any], arm: str, file_names: Mapping[str, str]) -> dict[str, str]:
    """The names of the files that an arm starts from, by what they hold; the start of the digest without a name."""
    carried = _select_carried(identity, arm)
    return {what: file_names.get(digest, digest[:6]) for what, digest in carried.items()}


def _name_files(identities: Mapping[Store, tuple[Mapping[str, Any], Any]]) -> dict[str, str]:
    """Digest to name of the files that units start from; where files share a name, the start of the digest."""
    names: dict[str, str] = {}
    for store, (identity, _) in identities.items():
        paths = [Path(text) for text in read_given(store)]
        file_names = {path.parent.name: path.stem for path in paths}
        carried = {digest: file_names.get(what.split()[-1]) for what, digest in identity.get("carried", {}).items()}
        for digest, name in carried.items():
            if name:
                names[digest] = name

    count = Counter(names.values())
    for digest, name in names.items():
        if count[name] > 1:
            names[digest] = digest[:6]
    return names


def _read_settings(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Dotted key to value of the settings that are set, but the seed; the backend's below `backend`."""
    config = dict(identity.get("config", {}))
    name = config.pop("backend", "")
    backends = config.pop("backends", {})
    if isinstance(backends, dict):
        config["backend"] = backends.get(str(name), {})
    else:
        config["backend"] = backends

    settings = flatten_keys(config)
    if "memory.reflections.size" in settings:  # as without improvements
        settings["memory.reflections"] = settings.pop("memory.reflections.size")
    return {key: value for key, value in settings.items() if value is not None and key != "seed"}


def _describe_differences(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return of each of these mappings its values that are not the same in all of them, as ``key=value``. Keys are
    shortened to as many of their last parts as tell them apart; unset ones are left out."""
    all_keys = dict.fromkeys(chain.from_iterable(settings))
    keys = [key for key in all_keys if _differs(key, settings)]
    short_keys = {key: _shorten_key(key, keys) for key in keys}

    descriptions = []
    for mapping in settings:
        values = [f"{short_keys[key]}={_format_value(mapping[key])}" for key in keys if key in mapping]
        descriptions.append(" ".join(values))
    return descriptions


def _differs(key: str, settings: Sequence[Mapping[str, Any]]) -> bool:
    value = settings[0].get(key)
    return any(mapping.get(key) != value for mapping in settings)


def _shorten_key(key: str, others: Sequence[str]) -> str:
    parts = key.split(".")
    for place in reversed(range(1, len(parts))):
        tail = ".".join(parts[place:])
        alike = [other for other in others if f".{other}".endswith(f".{tail}")]
        if len(alike) == 1:
            return tail
    return key


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    return str(value)
