"""`Benchmark`, all that is known about a benchmark, and the registry of benchmarks: `get_benchmark(name)`. A package
provides one through an entry point of the group `rsso_dspy.benchmarks`, named like the benchmark; a script adds its own
with `add_benchmark`. Nothing outside of a benchmark's folder names it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module, metadata
from importlib.metadata import EntryPoint
from typing import Any

from rsso_dspy.environments import Environment
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import NotInstalled, SplitError, UnknownName, UsageError
from rsso_dspy.records import Lesson, Split, State, Step, Variant

DEFAULT = "scienceworld"  # the benchmark played by default. Records and hashes that name no benchmark belong to it.
_FOLDERS = (DEFAULT, "alfworld", "babyai", "house-rules", "pddl", "tau2", "textworld-express")
BUILT_IN = {name: f"rsso_dspy.environments.{name.replace('-', '_')}" for name in _FOLDERS}
"""The benchmarks that come with the project, with the modules that hold them as `BENCHMARK`."""

QUICK = "babyai"  # the benchmark that `run --quick` plays where none is named
GROUP = "rsso_dspy.benchmarks"  # entry point group of benchmarks
ADDED: dict[str, "Benchmark"] = {}  # benchmarks of this process, by name: see `add_benchmark`


@dataclass(frozen=True, slots=True)
class Budget:
    """How many steps a trial may take: a multiple of the gold length."""

    gold_length: Callable[[Variant], int]
    """Number of actions of the variant's solution, or a substitute. May take minutes; raises ``GoldUnknown`` if there
    is none."""
    is_known: Callable[[Variant], bool] = lambda _: True  # whether `gold_length` is fast for a variant
    most_steps: int | None = None  # steps after which environments end an episode by themselves; no budget is larger


@dataclass(frozen=True, slots=True)
class Hints:
    about: str = ""  # what the world is and how actions are worded, in a few sentences; no strategy
    goals: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    """Kind of goal (see `Goal`) to its description, in words that hold for every variant, and to sentences of advice if
    it was missed."""
    lessons: Callable[[str, Sequence[State], Sequence[Step]], Sequence[Lesson]] = lambda *_: ()
    """Lessons of the newest step of an episode, given task, states and steps; see `Environment.lessons`."""
    examples: Callable[[], tuple[str, ...]] = tuple
    """Examples of training play with rules that patterns drew, for a neuro-symbolic writer without a file of examples.
    Without any, such a writer is refused."""
    reflections: Callable[[], tuple[Mapping[str, Any], ...]] = tuple
    """Examples for the reflector, field to value, from variants that are neither calibration nor held out. Without any,
    it is shown none."""
    facts: Callable[[str, Sequence[State], Sequence[Step]], Sequence[Lesson]] = lambda *_: ()
    """Abstract rules that the newest step of an episode shows to hold: for examples, in play no writer is told them."""


@dataclass(frozen=True, slots=True)
class UserData:
    digest: Callable[[str], str]  # what results are bound to; raises `UsageError` for a folder that lacks something
    check: Callable[[Sequence[Variant], str | None], None]  # raises `UsageError` where a variant can't be played
    find: Callable[[], str | None] = lambda: None  # the folder where the configuration names none
    count: Callable[[str], Mapping[tuple[str, Split], int]] | None = None
    """Returns how many variants of each task type and split the folder holds, the first ones of the split; those of a
    pair that is not named, none. If None, a folder holds all of them or is refused."""
    describe_skipped: Callable[[str], str] = lambda _: ""
    """Says which files of the folder are not played and why; an empty text if all are."""
    tasks: Callable[[str], TaskTable] | None = None
    """Returns the task types of the data, where these decide what there is to play; keys are parsed by them."""


@dataclass(frozen=True, slots=True)
class QuickStudy:
    """What `run --quick` plays: enough task types for an answer, and no more than a small model plays in an evening."""

    tasks: tuple[str, ...]
    per_task: int
    trials: int
    steps: int


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A benchmark. The first five fields are required, the others optional. The same name and version must give the
    same variants, texts and points everywhere; both are part of a folder's identity."""

    name: str  # name in the configuration, in `--benchmark` and in records: letters, digits, `-`, `_` and `.`
    version: str  # version of the simulator, or of whatever determines texts and points
    tasks: TaskTable  # task types, splits, selections and simplifications
    make_environment: Callable[[Any, Callable[[], bool]], Environment]
    """Creates an environment, given section `environment` of the configuration: heap, step_seconds and data. Called by
    any thread; nothing should start before the first reset. A slow start must poll the second argument, and raise
    ``Stopped`` once it returns true."""
    budget: Budget  # how many steps a trial may take
    action_templates: Mapping[str, str] = field(default_factory=dict)
    """Interface to the text of the prompt's action_templates region, or the part that all variants share. Part of a
    folder's identity."""
    gold_path: Callable[[Variant, str | None, str], Sequence[str]] | None = None
    """The actions of the variant's solution, given the user's data folder, if any, and the interface that words them.
    None if there are no such solutions. May take minutes; raises ``GoldUnknown``. Asked for training variants alone:
    `find_gold_path` sees to that."""
    lists_actions: bool = False  # whether environments list the possible actions, some dozen
    hints: Hints = field(default_factory=Hints)  # what actor, symbolic writers and the feedback of a compile are told
    data: UserData | None = None  # what to do with a folder of the user's; None if the benchmark takes no such folder
    quick: QuickStudy | None = None  # what `run --quick` plays of it
    tokens_per_call: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Role to input and output tokens of an average call, where they are far from those of ScienceWorld; for plans."""
    strata: Callable[[Variant, str | None], tuple[str, ...]] = lambda *_: ()
    """Returns the parts of the benchmark that a variant belongs to, given the user's data, if any: a report also
    compares arms on each part alone. They are named as in its tables."""
    count_guesses: Callable[[str, str | None], int] = lambda *_: 0
    """Returns from how many equally likely facts that of a task type was drawn, given the user's data: what a guess is
    worth. 0 where nothing was drawn."""
    tasks_of: str | None = None
    """The user's data whose task types these are; None where data do not decide them. `take_tasks` sets it."""

    def simplify(self, variant: Variant, setting: str) -> Variant:
        return replace(variant, simplification=setting if self.tasks.simplifications else "")

    def check_simplification(self, setting: str) -> str:
        """Return the simplification of variants. Raises `UsageError` for a name that a simulator might ignore."""
        allowed = self.tasks.simplifications
        if allowed and (unknown := [name for name in setting.split(",") if name and name not in allowed]):
            raise UsageError(f"{', '.join(unknown)} is not one of {', '.join(allowed)}")
        return setting if allowed else ""

    def locate_data(self, named: str | None) -> str | None:
        """The user's data folder: the one that the configuration names, else the benchmark's own find."""
        return named if named is not None or self.data is None else self.data.find()

    def take_tasks(self, named: str | None) -> "Benchmark":
        """Return this benchmark with the task types of the user's data, where these decide them. Raises `UsageError`
        for data that cannot be read."""
        folder = self.locate_data(named)
        if folder is None or self.data is None or self.data.tasks is None:
            return self
        return replace(self, tasks=self.data.tasks(folder), tasks_of=folder)

    def limit_to_data(self, named: str | None) -> "Benchmark":
        """Return this benchmark with the tasks that the user's data folder holds, for selecting and drawing variants.
        Raises `UsageError` for a folder that does not hold what it should."""
        benchmark = self.take_tasks(named)
        folder = self.locate_data(named)
        if folder is None or self.data is None or self.data.count is None:
            return benchmark
        return replace(benchmark, tasks=benchmark.tasks.limit(self.data.count(folder)))

    def describe_skipped_data(self, named: str | None) -> str:
        """Say which files of the user's data folder are not played and why; an empty text if all are."""
        folder = self.locate_data(named)
        return "" if folder is None or self.data is None else self.data.describe_skipped(folder)

    def check_data(self, variants: Sequence[Variant], named: str | None) -> None:
        """Raise `UsageError` if the user's data, or their lack, leave one of these variants unplayable."""
        if self.data is not None:
            self.data.check(variants, self.locate_data(named))

    def limit_steps(self, steps: int) -> int:
        return min(steps, self.budget.most_steps or steps)

    def identify_data(self, folder: str) -> str:
        """What results are bound to that depend on a folder of the user's. Raises `UsageError` for a benchmark that
        takes none, and for a folder that does not hold what it should."""
        if self.data is None:
            raise UsageError(f"{self.name} takes no folder of data")
        return self.data.digest(folder)

    def select_held_out(self, keys: Iterable[str]) -> list[str]:
        return [key for key in keys if self.tasks.parse(key).split == "test"]

    def check_gold_paths(self, variants: Iterable[Variant]) -> None:
        """Raise `UsageError` if this benchmark has no gold paths, and `SplitError` for any variant that is not of the
        train split, whatever split its own field names."""
        if self.gold_path is None:
            why = f"{self.name} has no gold paths to teach from"
            raise UsageError(f"{why}: name a backend as the teacher, e.g. --teacher embedded")
        parsed = (self.tasks.parse(variant.key) for variant in variants)
        if wrong := [f"{variant.key} ({variant.split})" for variant in parsed if variant.split != "train"]:
            raise SplitError(
                f"gold paths are shown of training variants alone, and these are not: {', '.join(wrong)}. Take train "
                "variants into the train part, or another teacher"
            )

    def find_gold_path(self, variant: Variant, data: str | None = None, interface: str = "sso") -> tuple[str, ...]:
        """Return the actions of a training variant's solution, in the wording of an interface; `data` is the user's
        data folder, if there is one. Raises what `check_gold_paths` raises, and `GoldUnknown`."""
        self.check_gold_paths([variant])
        assert self.gold_path is not None
        return tuple(self.gold_path(variant, data, interface))

    def smoke_test(self, settings: Any, environment: Environment | None = None) -> str:
        """Reset a training variant if there is one, read the user's data, and return one line on what works. Without an
        environment, one is made for it."""
        simulator = environment or self.make_environment(settings, lambda: False)
        try:
            for variant in self.limit_to_data(settings.data).tasks.train_sample(self.tasks.names()[0], 1):
                simulator.reset(variant)
        finally:
            if environment is None:
                simulator.close()
        folder = self.locate_data(settings.data)
        data_note = f", with the data in {folder}: {self.identify_data(folder)}" if folder else ""
        return f"{self.name} {self.version} plays{data_note}"

    def origin(self) -> dict[str, str]:
        if self.name == DEFAULT:
            return {DEFAULT: self.version}  # as in records older than other benchmarks
        return {"benchmark": f"{self.name} {self.version}"}


def read_package_version(name: str, package: str) -> str:
    """The version of a package that a benchmark needs and the extra of its name installs. Raises `NotInstalled`."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        why = f"the benchmark {name} needs the package {package}: pip install 'rsso-dspy[{name}]'"
        raise NotInstalled(why) from None


ORIGIN = (DEFAULT, "benchmark")  # keys of `Benchmark.origin`


def named_in(origin: Mapping[str, object]) -> str | None:
    if DEFAULT in origin:
        return DEFAULT
    return str(origin.get("benchmark", "")).rpartition(" ")[0] or None


def add_benchmark(benchmark: Benchmark) -> None:
    """Make a benchmark known to every verb and `Agent` of this process. Raises `UsageError` for what is no `Benchmark`,
    and for a name that is taken or that a folder cannot have."""
    if not isinstance(benchmark, Benchmark):
        raise UsageError(f"add_benchmark takes a Benchmark, not {type(benchmark).__name__}")
    name = benchmark.name
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UsageError(f"benchmark {name!r}: its name takes letters, digits, -, _ and ., a letter or digit first")
    if name in list_benchmarks():
        raise UsageError(f"the benchmark {name} is there already; give this one another name")
    ADDED[name] = benchmark


@cache
def get_benchmark(name: str = DEFAULT) -> Benchmark:
    """Return a benchmark. Raises `UnknownName`, or `UsageError` with the package's name if loading fails."""
    if name in BUILT_IN:
        benchmark: Benchmark = import_module(BUILT_IN[name]).BENCHMARK
        return benchmark
    if name in ADDED:
        return ADDED[name]
    if point := next(iter(metadata.entry_points(group=GROUP, name=name)), None):
        return _load_entry_point(point)
    hint = f"Packages can add more through the entry point group {GROUP}, and scripts with add_benchmark."
    raise UnknownName("benchmark", name, list_benchmarks(), hint)


def list_benchmarks() -> tuple[str, ...]:
    """Return the names of installed and added benchmarks, whether or not they can be loaded."""
    others = {*BUILT_IN, *ADDED, *(point.name for point in metadata.entry_points(group=GROUP))} - {DEFAULT}
    return (DEFAULT, *sorted(others))


def _load_entry_point(point: EntryPoint) -> Benchmark:
    where = f"the benchmark {point.name} of {point.dist.name if point.dist else 'an unknown package'} ({point.value})"
    try:
        benchmark = point.load()
    except Exception as error:
        why = f"{where} cannot be loaded: {type(error).__name__}: {error}"
        raise UsageError(f"{why}. Fix that package or uninstall it") from error
    if not isinstance(benchmark, Benchmark) or benchmark.name != point.name:
        raise UsageError(f"{where} is no Benchmark with the name {point.name}. Fix that package or uninstall it")
    return benchmark
