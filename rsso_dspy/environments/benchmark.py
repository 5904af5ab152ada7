"""What is known of a benchmark, in one object, and the registry of those that are installed.

    known = get_benchmark("toy")                      # UnknownName, with the nearest, when no package brings it
    known.table.held_out("count", n=2)
    known.environment(settings, stopped=lambda: False)

A package brings one by an entry point of the group `rsso_dspy.benchmarks`, whose name is that of the benchmark:

    [project.entry-points."rsso_dspy.benchmarks"]
    toy = "toy_benchmark:BENCHMARK"

Nothing outside of a benchmark's folder names it: whoever needs something of the one that is played asks here, with the
name in the configuration (`get_benchmark`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Literal, Protocol

from rsso_dspy.environments.grammar import Grammar
from rsso_dspy.environments.pool import PooledEnvironment
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.records import Lesson, State, Step, Variant

__all__ = ["DEFAULT", "GROUP", "Benchmark", "GoldCheck", "GoldTable", "Settings", "get_benchmark", "list_benchmarks"]

DEFAULT = "scienceworld"
"""The benchmark that comes with the project, and that is played when none is named. Records and hashes that say nothing
of a benchmark are of it."""

GROUP = "rsso_dspy.benchmarks"
"""Group of entry points that benchmarks are found by."""


class Settings(Protocol):
    """What of the configuration an environment is made with: its section `environment`."""

    @property
    def simplification(self) -> str: ...

    @property
    def heap(self) -> str:
        """Memory cap of a simulator process, e.g. ``512m``."""
        ...

    @property
    def step_seconds(self) -> float:
        """A step that takes longer ends its trial as stalled."""
        ...


class GoldCheck(Protocol):
    """A shipped gold length beside a fresh computation."""

    @property
    def variant(self) -> Variant: ...
    @property
    def shipped(self) -> int: ...
    @property
    def computed(self) -> int: ...
    @property
    def holds(self) -> bool: ...


class GoldTable(Protocol):
    """A shipped table of gold lengths that can be computed again."""

    def shipped_lengths(self) -> Mapping[Variant, int]: ...

    def recompute(self, sample: int | None = None, seed: int = 0) -> Iterator[GoldCheck]: ...


def _return_no_lessons(task: str, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:  # noqa: ARG001
    return ()


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A benchmark. The first six fields are needed, the rest is what one may offer besides.

    The same name and version give the same variants, texts and points everywhere: both are part of what a folder of
    results is bound to."""

    name: str
    """As in the configuration, in `--benchmark` and in records: letters, digits, ``-``, ``_`` and ``.``."""
    version: str
    """Of the simulator, or of whatever decides on texts and points."""
    table: TaskTable
    """Task types, splits and selections."""
    environment: Callable[[Settings, Callable[[], bool]], PooledEnvironment]
    """Makes an environment. Called by any thread; nothing should be started before the first reset. The second argument
    is asked while something starts slowly; when it says yes, ``Stopped`` is raised."""
    action_templates: str
    """The text of the prompt's action_templates region, or what all variants have of it in common. The lines after
    ``Templates:`` are actions, with what is to be filled in in capitals."""
    gold_length: Callable[[Variant], int]
    """How many actions a solution of the variant takes, or the number that takes its place: a trial's step budget is a
    multiple of it. May take minutes; raises ``GoldUnknown`` when there is none."""

    known_length: Callable[[Variant], int | None] | None = None
    """The same as far as it is known without computing; None when it always is."""
    simplifications: tuple[str, ...] = ()
    """Names that `environment.simplification` may list, the usual one first; where there are none, it has no meaning
    and no variant has one."""
    own_grammar: Grammar | None = None
    """How actions are worded in advice; that of the templates when None."""
    goal_advice: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind of goal (see `GoalProgress`) to sentences of advice for whoever missed it."""
    goal_phrases: Mapping[str, str] = field(default_factory=dict)
    """Kind of goal to what it is about, in words that hold for every variant."""
    lessons: Callable[[str, Sequence[State], Sequence[Step]], Sequence[Lesson]] = _return_no_lessons
    """What the newest step of an episode teaches, given the task, states and steps; as `Environment.lessons`."""
    examples: Callable[[], tuple[str, ...]] = tuple
    """Stretches of play with rules drawn from them, for a neuro-symbolic writer when no file gives any."""
    golds: GoldTable | None = None
    """For `rsso-dspy golds verify`."""
    admissible: Literal["none", "short", "long"] = "none"
    """Whether its environments list what can be done (`ListsActions`), and whether such a list is short enough for a
    prompt: some dozen actions."""
    own_check: Callable[[Settings], str] | None = None
    """For `rsso-dspy doctor`: plays a little, and says in a line what works. A training variant is reset when None."""
    interfaces: Mapping[str, str] = field(default_factory=dict)
    """Interface other than `sso` to what its environments say of actions, as far as variants have it in common; see
    `Environment`. Part of what a folder of results is bound to."""

    @cached_property
    def grammar(self) -> Grammar:
        """How actions are worded in advice."""
        return self.own_grammar or Grammar.from_templates(self.action_templates)

    def is_length_known(self, variant: Variant) -> bool:
        """Whether `gold_length` answers at once."""
        return self.known_length is None or self.known_length(variant) is not None

    def check_simplification(self, setting: str) -> str:
        """The simplification of variants under this setting of `environment.simplification`. Raises `UsageError` for
        names that the benchmark does not have: a simulator may ignore them, which would go unnoticed."""
        if not self.simplifications:
            return ""
        if unknown := [name for name in setting.split(",") if name and name not in self.simplifications]:
            raise UsageError(f"{', '.join(unknown)} is none of {', '.join(self.simplifications)}")
        return setting

    def select_held_out(self, keys: Iterable[str]) -> list[str]:
        """Those of these keys whose variants are of the test split. Raises what `TaskTable.parse` raises."""
        return [key for key in keys if self.table.parse(key).split == "test"]

    def smoke_test(self, settings: Settings) -> str:
        """Play a little. What works, in a line; raises what went wrong."""
        if self.own_check is not None:
            return self.own_check(settings)
        (variant,) = self.table.train_sample(self.table.tasks()[0], 1)
        environment = self.environment(settings, lambda: False)
        try:
            environment.reset(variant)
        finally:
            environment.close()
        return f"{self.name} {self.version} plays"

    def origin(self) -> dict[str, str]:
        """What records and folders of results say of the benchmark."""
        if self.name == DEFAULT:
            return {DEFAULT: self.version}  # as they did before there were others
        return {"benchmark": f"{self.name} {self.version}"}


ORIGIN = (DEFAULT, "benchmark")
"""Keys of `Benchmark.origin`."""


def named_in(origin: Mapping[str, object]) -> str | None:
    """The benchmark that an `origin`, with whatever else stands beside it, is of; None when it names none."""
    if DEFAULT in origin:
        return DEFAULT
    return str(origin.get("benchmark", "")).rpartition(" ")[0] or None


@cache
def get_benchmark(name: str = DEFAULT) -> Benchmark:
    """The benchmark called `name`. Raises `UnknownName`, and `UsageError` that names the package for one whose
    benchmark cannot be loaded."""
    if name == DEFAULT:
        found: Benchmark = import_module(f"rsso_dspy.environments.{DEFAULT}").BENCHMARK
        return found
    points = _find_entry_points()
    if name not in points:
        hint = f"Other packages bring some, by an entry point of the group {GROUP}."
        raise UnknownName("benchmark", name, {DEFAULT, *points}, hint)
    return _load_entry_point(points[name])


def list_benchmarks() -> tuple[str, ...]:
    """Names of the benchmarks that are installed, whether or not they can be loaded."""
    return (DEFAULT, *sorted(_find_entry_points().keys() - {DEFAULT}))


def _find_entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {point.name: point for point in entry_points(group=GROUP)}


def _load_entry_point(point: EntryPoint) -> Benchmark:
    where = f"the benchmark {point.name} of {point.dist.name if point.dist else 'an unknown package'} ({point.value})"
    try:
        found = point.load()
    except Exception as error:
        raise UsageError(
            f"{where} cannot be loaded: {type(error).__name__}: {error}. Mend that package, or uninstall it"
        ) from error
    if not isinstance(found, Benchmark):
        raise UsageError(f"{where} is a {type(found).__name__}, not a Benchmark. Mend that package, or uninstall it")
    if found.name != point.name:
        raise UsageError(f"{where} calls itself {found.name}: the entry point has to have the same name")
    return found
