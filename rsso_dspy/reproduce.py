"""Reproduction of a run: what has changed since, and whether the same came out, record by record.

store = Store(Path("runs/x"))
list_changes(store, load_invocations(store))    # versions, prompts, commit, models
compare_runs(store, Store(Path("runs/x-again"))).different
"""

import json
import os
import platform
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rsso_dspy.config import EMBEDDED, PROFILES, format_override, load_config
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.protocol import hash_prompts, interface_of, read_commit
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.commands import CONFIG, Invocation, extract_given
from rsso_dspy.store.run_folder import Store, flatten_keys
from rsso_dspy.store.unit_log import dump_record
from rsso_dspy.version import __version__

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class RunChange:
    """A change since the run."""

    what: str
    certain: bool
    """Whether results will certainly differ: the folder itself would refuse to resume."""


def list_changes(store: Store, orders: Sequence[Invocation] = (), replay: bool = False) -> list[RunChange]:
    """List the changes since the run, and contradictions in its folder.

    Ignores input files, of which copies are kept, and with `replay` also models. Raises `UsageError` if `run.json` or
    the configuration of one of `orders` is damaged.
    """
    known, _ = store.read_identity()
    config = _get_config(store, known)
    of = get_run_benchmark(config)
    said = hash_prompts(of, interface_of(config.get("protocol", {})))
    today = {"rsso_dspy": __version__, "dspy": version("dspy"), **of.origin(), "prompts": said}
    found = [
        RunChange(f"{name} {known.get(name, ABSENT)} then, {now} now", True)
        for name, now in today.items()
        if known.get(name) != now
    ]
    found += [RunChange(what, True) for what in dict.fromkeys(_find_contradictions(store, known, orders))]
    then: dict[str, set[str]] = defaultdict(set)
    for record in store.records():
        for name in ("commit", "python"):
            then[name].add(record.provenance.get(name, ABSENT))
        then["model"].update(_list_answering_models(record) - {EMBEDDED})
    embedder = config["embedder"]["model"]
    then["model"].update([embedder] if embedder.startswith("litellm/") else [])
    for name, now in {"commit": read_commit(), "python": platform.python_version()}.items():
        if others := sorted(then[name] - {now}):
            found.append(RunChange(f"{name} {', '.join(others)} then, {now} now", False))
    if any("+dirty" in each for each in then["commit"]):
        found.append(RunChange("the source tree had uncommitted changes", False))
    if then["model"] and not replay:
        when = " to ".join(store.list_played_days())
        found.append(
            RunChange(
                f"{', '.join(sorted(then['model']))} answered{f' on {when}' if when else ''}: a model may "
                "answer differently when asked again, and its provider may have changed it",
                False,
            )
        )
    return found


def _list_answering_models(record: UnitRecord | TrainingRecord) -> set[str]:
    """Return the models of roles that were called."""
    called = {role for trial in record.trials for role in trial.usage}
    return {record.models.get(role, record.model) for role in called} or {record.model}


def _get_config(store: Store, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration in the folder's identity."""
    try:
        config = known["config"]
        parts = [config["backends"][config["backend"]]["model"], config["embedder"]["model"]]
        whole = all(isinstance(part, str) for part in [*parts, config["environment"]["simplification"]])
        whole = whole and isinstance(config["seed"], int)
    except (KeyError, TypeError):
        whole = False
    if not whole:
        raise UsageError(
            f"{store.folder / 'run.json'} is damaged (its identity holds no whole config); restore it from a copy"
        )
    return config


def _find_contradictions(store: Store, known: Mapping[str, Any], orders: Sequence[Invocation]) -> Iterator[str]:
    """Return settings of the commands that contradict the folder's identity, because they were edited."""
    bound, usual = flatten_keys(known["config"]), _load_default_settings(known["config"])
    for _ in orders[:1]:  # they share one configuration
        try:
            with TemporaryDirectory(prefix="rsso-dspy-") as folder:
                extract_given(store, Path(folder))
                config = load_config(Path(folder) / CONFIG)
        except UsageError as error:
            raise UsageError(
                f"{error}. This belongs to the run in {store.folder}: restore it from a copy if it was changed, "
                f"or install the original version, rsso_dspy {known.get('rsso_dspy', ABSENT)}"
            ) from None
        asked = flatten_keys(config.resolve_settings()) | {
            "memory.constitution.examples": bound.get("memory.constitution.examples")
        }
        for key in dict.fromkeys([*bound, *asked]):
            there, now = bound.get(key, usual.get(key, ABSENT)), asked.get(key, ABSENT)
            if there != now and not (key not in bound and now is None):
                yield f"run.json says {key} = {there}, but the stored command says {now}"


def _get_model_override(resolved: Mapping[str, Any]) -> list[str]:
    """Return the setting of a custom backend's model; empty for a profile."""
    backend = str(resolved["backend"])
    if backend in PROFILES:
        return []
    return [format_override(f"{_get_backend_key(backend)}.model", resolved["backends"][backend]["model"])]


def _get_backend_key(backend: str) -> str:
    """Return the dotted key of its settings."""
    import tomlkit

    return f"backends.{tomlkit.key(backend).as_string()}"


def _load_default_settings(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults of a configuration with the same backend, by dotted key."""
    backend = [format_override("backend", str(resolved["backend"]))]
    usual = flatten_keys(load_config(Path(os.devnull), [*backend, *_get_model_override(resolved)]).resolve_settings())
    return usual | {"backend": load_config(Path(os.devnull)).backend}


def get_run_benchmark(resolved: Mapping[str, Any]) -> Benchmark:
    """Return the benchmark of an identity's configuration. Raises `UsageError` if it is not installed."""
    return get_benchmark(str(resolved.get("benchmark", DEFAULT)))


@dataclass(slots=True)
class RunComparison:
    """Comparison of a run with its reproduction."""

    alike: list[str] = field(default_factory=list)
    """Number of records equal byte for byte, or except for `apart`."""
    apart: set[str] = field(default_factory=set)
    """Provenance fields in which equal records differ."""
    different: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Record, its first differing field, and both values."""
    missing: list[str] = field(default_factory=list)
    """Records that the other run lacks, or has only with an error."""
    errored: int = 0
    """Number of errored records, which are not compared."""
    new: int = 0
    """Number of records of the other run that this one lacks."""

    @property
    def equal(self) -> int:
        return len(self.alike)

    @property
    def total(self) -> int:
        return self.equal + len(self.different) + len(self.missing)


def compare_runs(store: Store, again: Store, ignored: Sequence[str] = ()) -> RunComparison:
    """Compare the finished records of two runs.

    `ignored` names top-level fields besides `provenance` whose difference is known to be irrelevant.
    """
    found = RunComparison()
    for record in store.records():
        name = f"{record.arm} {record.key}" + (" (training)" if isinstance(record, TrainingRecord) else "")
        other = again.load(record)
        if record.has_errors:
            found.errored += 1
        elif other is None or other.has_errors:
            found.missing.append(name)
        else:
            differences = list(_find_differences(dump_record(record), dump_record(other)))
            tell = [each for each in differences if each[0].partition(".")[0] not in ("provenance", *ignored)]
            tell = [each for each in tell if not _of_dead_simulator(each[0], record)]
            if tell:
                found.different.append((name, *tell[0]))
            else:
                found.alike.append(name)
                found.apart.update(field for field, _, _ in differences)
    found.new = sum(store.load(record) is None for record in again.records())
    return found


def _of_dead_simulator(where: str, record: UnitRecord | TrainingRecord) -> bool:
    """Return whether a field differs because a replayed trial counts both attempts."""
    match where.split("."):
        case ["trials", number, "replayed" | "usage" | "failures" | "sent", *_]:
            return record.trials[int(number)].replayed > 0
    return False


def _find_differences(ours: Any, theirs: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield dotted path and both values of every difference, in the order of the file."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(key, ours.get(key, ABSENT), theirs.get(key, ABSENT)) for key in dict.fromkeys([*ours, *theirs])]
    elif isinstance(ours, list) and isinstance(theirs, list):
        pairs = [(n, *both) for n, both in enumerate(zip_longest(ours, theirs, fillvalue=ABSENT))]
    else:
        if ours != theirs:
            yield where, _shorten_value(ours), _shorten_value(theirs)
        return
    for key, one, other in pairs:
        yield from _find_differences(one, other, f"{where}.{key}" if where else str(key))


def _shorten_value(value: Any) -> str:
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."
