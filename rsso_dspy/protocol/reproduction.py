"""What would play a run again, what is another today than it was then, and whether the records came out the same.

store = Store(Path("runs/x"))
asked(store)                                  # one `Asked` per command that is needed
changes(store)                                # versions, prompts, commit, models
compare(store, Store(Path("runs/x-again")))   # record by record
"""

import json
import os
import platform
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import product, zip_longest
from pathlib import Path
from typing import Any

from rsso_dspy.config import EMBEDDED, PROFILES, load, override
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, benchmark
from rsso_dspy.errors import UsageError
from rsso_dspy.memory.constitution.file import KIND as CONSTITUTION
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.protocol.given import Asked, kept
from rsso_dspy.protocol.presets import interface_of
from rsso_dspy.protocol.provenance import commit, prompts
from rsso_dspy.protocol.run_file import flat
from rsso_dspy.protocol.runlog import days
from rsso_dspy.protocol.selection import choose
from rsso_dspy.protocol.store import Store
from rsso_dspy.reading import read_json
from rsso_dspy.trajectory import ZERO_SHOT, TrainingRecord, UnitRecord
from rsso_dspy.version import __version__

ABSENT = "(absent)"

NEWER = ("trials_allowed",)
"""Fields of a record that older versions did not write."""

__all__ = ["CONSTITUTION", "Change", "Likeness", "asked", "changes", "compare", "settings_of"]


def asked(store: Store, say: Any = lambda _: None) -> list[Asked]:
    """What has to be asked for to have the run again. Units that no order kept in the folder is about have one put
    together from their records; `say` is told. Raises `UsageError` when there are neither, and for a damaged
    `run.json`."""
    known, _ = store.about()
    config = _config_of(store, known)
    found = kept(store.folder)
    covered = {key for each in found for key in _units_of(each, config)}
    other = [record for record in store.units() if (record.method, record.program, record.key) not in covered]
    if other:
        say(
            f"{store.folder} holds {len(other)} units from before runs kept what they were asked for: their command is "
            "put together from the records"
        )
        made = _put_together(other, known, say)
        return [*found, *(replace(each, settings=None) if found else each for each in made)]
    if not found:
        raise UsageError(f"{store.folder} holds no unit, and not what it was asked for: there is nothing to go by")
    return found


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is another today."""

    what: str
    certain: bool
    """Results will be others: the folder itself would refuse to be continued."""


def changes(store: Store, orders: Sequence[Asked] = (), replay: bool = False) -> list[Change]:
    """What is another today than when the run was played, and where its folder contradicts itself. Nothing of it is
    about files that were given: copies of these are kept; nor, with `replay`, about models, since none is asked. Raises
    `UsageError` for a damaged `run.json`, or a damaged configuration of one of `orders`."""
    known, _ = store.about()
    config = _config_of(store, known)
    of = benchmark_of(config)
    said = prompts(of, interface_of(config.get("protocol", {})))
    today = {"rsso_dspy": __version__, "dspy": version("dspy"), **of.origin(), "prompts": said}
    found = [
        Change(f"{name} {known.get(name, ABSENT)} then, {now} now", True)
        for name, now in today.items()
        if known.get(name) != now
    ]
    found += [Change(what, True) for what in dict.fromkeys(_contradictions(store, known, orders))]
    then: dict[str, set[str]] = defaultdict(set)
    for record in _records(store):
        for name in ("commit", "python"):
            then[name].add(record.provenance.get(name, ABSENT))
        then["model"].update(_answered(record) - {EMBEDDED})
    embedder = _config_of(store, known)["embedder"]["model"]
    then["model"].update([embedder] if embedder.startswith("litellm/") else [])
    for name, now in {"commit": commit(), "python": platform.python_version()}.items():
        if others := sorted(then[name] - {now}):
            found.append(Change(f"{name} {', '.join(others)} then, {now} now", False))
    if any("+dirty" in each for each in then["commit"]):
        found.append(Change("the source tree held changes then that are in no commit", False))
    if then["model"] and not replay:
        when = " to ".join(days(store))
        found.append(
            Change(
                f"{', '.join(sorted(then['model']))} answered{f' on {when}' if when else ''}: a model that is asked "
                "again may answer otherwise, and its provider may have changed it",
                False,
            )
        )
    return found


@dataclass(slots=True)
class Likeness:
    """Records of a run beside those of the run that was to be the same."""

    alike: list[str] = field(default_factory=list)
    """Records that are equal byte for byte, or but for `apart`."""
    apart: set[str] = field(default_factory=set)
    """Fields that say where a record came from, in which equal records differ."""
    different: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Record, its first field that differs, and what stands there in the one and the other."""
    missing: list[str] = field(default_factory=list)
    """Records that the other run has not, or only with an error."""
    errored: int = 0
    """Records with an error, which are compared with nothing."""
    new: int = 0
    """Records of the other run that this one has not, or no longer."""

    @property
    def equal(self) -> int:
        return len(self.alike)

    @property
    def total(self) -> int:
        return self.equal + len(self.different) + len(self.missing)


def compare(store: Store, again: Store, ignored: Sequence[str] = ()) -> Likeness:
    """The finished records of one run beside those of another. `ignored` are top-level fields besides `provenance`
    whose difference is known to mean nothing. What an older version did not write is no difference."""
    found = Likeness()
    for record in _records(store):
        name = f"{record.arm} {record.key}" + (" (training)" if isinstance(record, TrainingRecord) else "")
        path = store.path_of(record)
        other = again.folder / path.relative_to(store.folder)
        if record.errored:
            found.errored += 1
        elif not _finished(again, other, record):
            found.missing.append(name)
        else:
            ours, data = read_json(path), read_json(other)
            known = {key: value for key, value in data.items() if key in ours or key not in NEWER}
            differences = list(_differences(ours, known))
            tell = [each for each in differences if each[0].partition(".")[0] not in ("provenance", *ignored)]
            tell = [each for each in tell if not _of_dead_simulator(each[0], record)]
            if tell:
                found.different.append((name, *tell[0]))
            else:
                found.alike.append(name)
                found.apart.update(field for field, _, _ in differences)
    theirs = _records(again) if (again.folder / "run.json").exists() else ()
    found.new = sum(not store.path_of(record).exists() for record in theirs)
    return found


def _of_dead_simulator(where: str, record: UnitRecord | TrainingRecord) -> bool:
    """Whether a field differs because a trial was played again when its simulator died: it tells of both attempts."""
    match where.split("."):
        case ["trials", number, "replayed" | "usage" | "failures" | "sent", *_]:
            return record.trials[int(number)].replayed > 0
    return False


def played(store: Store) -> bool:
    """Whether a finished record is there to tell what it was played with."""
    return next(_records(store), None) is not None


def strangers(orders: Sequence[Asked]) -> list[str]:
    """Methods that the package does not know: a script added them."""
    names = dict.fromkeys(name for order in orders for name in order.methods)
    return [name for name in names if name.partition("+")[0] not in METHODS]


def _records(store: Store) -> Iterator[UnitRecord | TrainingRecord]:
    yield from store.units()
    yield from store.trainings()


def _answered(record: UnitRecord | TrainingRecord) -> set[str]:
    """The models of the roles that were called; every role has one, called or not."""
    called = {role for trial in record.trials for role in trial.usage}
    return {record.models.get(role, record.model) for role in called} or {record.model}


def _config_of(store: Store, known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration that results of the folder are bound to."""
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


def _contradictions(store: Store, known: Mapping[str, Any], orders: Sequence[Asked]) -> Iterator[str]:
    """Settings of the orders that are not those which results of the folder are bound to: somebody edited them."""
    bound, usual = flat(known["config"]), _usual(known["config"])
    for each in orders:
        options = each.options(store.folder)
        try:
            config = load(Path(str(options["--config"])), options.get("--set", ()))
        except UsageError as error:
            raise UsageError(
                f"{error}. The run in {store.folder} is kept with it: restore it from a copy when somebody changed it, "
                f"or install what played it, rsso_dspy {known.get('rsso_dspy', ABSENT)}"
            ) from None
        asked = flat(config.resolved()) | {"memory.constitution.examples": bound.get("memory.constitution.examples")}
        for key in dict.fromkeys([*bound, *asked]):  # a key that is new since then has its default
            there, now = bound.get(key, usual.get(key, ABSENT)), asked.get(key, ABSENT)
            if there != now and not (key not in bound and now is None):
                yield f"run.json holds results of {key} = {there}, and what was asked for says {now}"


def _finished(store: Store, path: Path, like: UnitRecord | TrainingRecord) -> bool:
    """Whether the store has a record there, and one without an error."""
    found = store.load(path) if isinstance(like, UnitRecord) else store.load_training(path)
    return found is not None and not found.errored


def _differences(ours: Any, theirs: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Dotted place and both values of everything that differs, in the order of the file."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(key, ours.get(key, ABSENT), theirs.get(key, ABSENT)) for key in dict.fromkeys([*ours, *theirs])]
    elif isinstance(ours, list) and isinstance(theirs, list):
        pairs = [(n, *both) for n, both in enumerate(zip_longest(ours, theirs, fillvalue=ABSENT))]
    else:
        if ours != theirs:
            yield where, _short(ours), _short(theirs)
        return
    for key, one, other in pairs:
        yield from _differences(one, other, f"{where}.{key}" if where else str(key))


def _short(value: Any) -> str:
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _own_model(resolved: Mapping[str, Any]) -> list[str]:
    """The setting that makes a backend of one's own what it is; none of a profile."""
    backend = str(resolved["backend"])
    own = backend not in PROFILES
    return [override(f"{_table_of(backend)}.model", resolved["backends"][backend]["model"])] if own else []


def _table_of(backend: str) -> str:
    """The dotted key of its settings."""
    import tomlkit

    return f"backends.{tomlkit.key(backend).as_string()}"


def _usual(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of a configuration with the same backend, by dotted key."""
    backend = [override("backend", str(resolved["backend"]))]
    usual = flat(load(Path(os.devnull), [*backend, *_own_model(resolved)]).resolved())
    return usual | {"backend": load(Path(os.devnull)).backend}


def settings_of(resolved: Mapping[str, Any]) -> tuple[str, ...]:
    """``key=value`` for every setting of a configuration, as results are bound to it, that is not the default."""
    backend, model, usual = str(resolved["backend"]), _own_model(resolved), _usual(resolved)
    changed = [(k, v) for k, v in flat(resolved).items() if v is not None and usual.get(k) != v]
    prefix, quoted = f"backends.{backend}.", f"{_table_of(backend)}."
    plain = [(quoted + k.removeprefix(prefix) if k.startswith(prefix) else k, v) for k, v in changed]
    return (*model, *(override(key, value) for key, value in plain))


def benchmark_of(resolved: Mapping[str, Any]) -> Benchmark:
    """The benchmark of a configuration as results are bound to it. Raises `UsageError` when it is not installed."""
    return benchmark(str(resolved.get("benchmark", DEFAULT)))


def _units_of(each: Asked, config: Mapping[str, Any]) -> set[tuple[str, str, str]]:
    """Method, program and variant of every unit that is asked for."""
    variants = choose(each.tasks, each.variants, each.per_task, of=benchmark_of(config))
    programs = [name if name == ZERO_SHOT else Path(name).stem for name in each.programs]
    return set(product(each.methods, programs, (variant.key for variant in variants)))


def _put_together(records: Sequence[UnitRecord], known: Mapping[str, Any], say: Any) -> list[Asked]:
    """One `Asked` for the arms that played the same variants."""
    files = {kind: _file_of(records, digest) for kind, digest in known.get("carried", {}).items()}
    programs = {record.program for record in records} - {ZERO_SHOT}
    needed = [f"{name}.json" for name in sorted(programs)] + [file for file in files.values() if file]
    if needed:
        say(f"it was given files of which it keeps no copy: {', '.join(needed)}; the command names them as if here")
    played: dict[tuple[str, str], list[UnitRecord]] = defaultdict(list)
    for record in records:
        played[record.method, record.program].append(record)
    alike: dict[tuple[str, ...], list[tuple[str, str]]] = defaultdict(list)
    for arm, units in played.items():
        alike[tuple(sorted({unit.key for unit in units}))].append(arm)
    settings, of = settings_of(known["config"]), benchmark_of(known["config"])
    found = []
    for keys, arms in alike.items():
        for group in _rectangles(arms):
            methods, played_by = group
            found.append(
                Asked(
                    methods=methods,
                    programs=tuple(name if name == ZERO_SHOT else f"{name}.json" for name in played_by),
                    **_selection(keys, of),
                    skills=files.get("skills"),
                    constitution=files.get("constitution"),
                    settings=settings,
                )
            )
    return found


def _rectangles(arms: Sequence[tuple[str, str]]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Methods with the programs that all of them played with."""
    programs: dict[str, list[str]] = defaultdict(list)
    for method, program in arms:
        programs[method].append(program)
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for method, names in programs.items():
        groups[tuple(names)].append(method)
    return [(tuple(methods), names) for names, methods in groups.items()]


def _selection(keys: Sequence[str], of: Benchmark) -> dict[str, Any]:
    """The variants as a person would ask for them where that is possible: streams depend on their order."""
    played = {key.partition("::")[0] for key in keys}
    tasks = tuple(task for task in of.table.tasks() if task in played)
    most = max(sum(key.startswith(f"{task}::") for key in keys) for task in tasks)
    for selection in of.table.selections:
        if {variant.key for variant in choose(tasks, [selection], most, of=of)} == set(keys):
            return {"tasks": None if tasks == of.table.tasks() else tasks, "variants": (selection,), "per_task": most}
    return {"variants": tuple(keys)}


def _file_of(records: Sequence[UnitRecord], digest: str) -> str | None:
    """Name of the file with this digest that units say they started from."""
    sources = (source for record in records for source in record.sources)
    return next((source.name for source in sources if source.digest == digest), None)
