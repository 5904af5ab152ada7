"""Several benchmarks played in one run, as one `Benchmark`.

    mixed = mix_benchmarks([get_benchmark("one"), get_benchmark("other")])
    mixed.name, mixed.find_part("count").name    # "one,other", "one"

Everything that concerns a variant is asked of the benchmark that its task type belongs to: environment, gold length,
solution. So a variant plays as in a run of its benchmark alone. `environment.data` names a folder for each benchmark
that has one: ``one=DIR,other=DIR``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from rsso_dspy.environments.benchmark import Benchmark, PlainSettings, Settings
from rsso_dspy.environments.pool import PooledEnvironment
from rsso_dspy.environments.splits import join_tables
from rsso_dspy.errors import GoldUnknown, SimulatorDied, UsageError
from rsso_dspy.records import Split, State, Variant

SPLITS: tuple[Split, ...] = get_args(Split)


def mix_benchmarks(parts: Sequence[Benchmark]) -> Benchmark:
    """Return the benchmark that consists of several. Raises `UsageError` if two of them have a task type in common."""
    owners: dict[str, Benchmark] = {}
    for part in parts:
        if clash := [task for task in part.table.tasks() if task in owners]:
            raise UsageError(
                f"{owners[clash[0]].name} and {part.name} both have a task type {clash[0]}, so records would not tell "
                "them apart: play them in runs of their own"
            )
        owners |= dict.fromkeys(part.table.tasks(), part)
    mixed = _Mixed(tuple(parts), owners)
    return Benchmark(
        name=",".join(part.name for part in parts),
        version=",".join(part.version for part in parts),
        parts=mixed.parts,
        table=join_tables([part.table for part in parts]),
        environment=mixed.make_environment,
        action_templates="\n\n".join(part.action_templates for part in parts),
        gold_length=lambda variant: owners[variant.task].gold_length(variant),
        known_length=mixed.find_known_length,
        simplifications=tuple(name for part in parts for name in part.simplifications),
        examples=mixed.list_examples,
        own_gold_path=mixed.find_gold_path if any(part.own_gold_path for part in parts) else None,
        gold_path_in=mixed.find_gold_path,
        admissible=_find_worst_listing(parts),
        own_check=mixed.smoke_test,
        digest_data=mixed.digest_data,
        check_variants=mixed.check_variants,
        count_variants=mixed.count_variants,
        find_data=lambda: mixed.complete_data(None),
        interfaces={
            interface: "\n\n".join(part.interfaces.get(interface, "") for part in parts)
            for interface in sorted({interface for part in parts for interface in part.interfaces})
        },
    )


def _find_worst_listing(parts: Sequence[Benchmark]) -> Any:
    """What holds of all: `none` if one does not list actions, `long` if one has long lists."""
    return next((kind for kind in ("none", "long") if any(part.admissible == kind for part in parts)), "short")


def _choose_settings(part: Benchmark, settings: Settings, folders: Mapping[str, str]) -> Settings:
    return PlainSettings(settings.simplification, settings.heap, settings.step_seconds, folders.get(part.name))


@dataclass(frozen=True)
class _Mixed:
    """The benchmarks, and task type to its benchmark."""

    parts: tuple[Benchmark, ...]
    owners: dict[str, Benchmark]

    def make_environment(self, settings: Settings, stopped: Callable[[], bool]) -> PooledEnvironment:
        folders = self.read_folders(settings.data)

        def start(task: str) -> tuple[str, Callable[[], PooledEnvironment]]:
            part = self.owners[task]
            return part.name, lambda: part.environment(_choose_settings(part, settings, folders), stopped)

        return cast(PooledEnvironment, MixedEnvironment(start))

    def list_examples(self) -> tuple[str, ...]:
        """Return the examples of all parts; none unless each has some."""
        found = [part.examples() for part in self.parts]
        return tuple(text for texts in found for text in texts) if all(found) else ()

    def find_known_length(self, variant: Variant) -> int | None:
        part = self.owners[variant.task]
        return part.gold_length(variant) if part.known_length is None else part.known_length(variant)

    def find_gold_path(self, variant: Variant, data: str | None = None) -> Sequence[str]:
        part = self.owners[variant.task]
        if part.own_gold_path is None:
            raise GoldUnknown(f"{part.name} has no gold paths, so none of {variant.key} is known")
        return part.find_gold_path(variant, self.read_folders(data).get(part.name))

    def smoke_test(self, settings: Settings) -> str:
        folders = self.read_folders(settings.data)
        return "; ".join(part.smoke_test(_choose_settings(part, settings, folders)) for part in self.parts)

    def read_folders(self, text: str | None) -> dict[str, str]:
        """Return benchmark to folder of data: those named in the text, and what the others find by themselves. Raises
        `UsageError` for a text of another form."""
        found: dict[str, str] = {}
        known = {part.name for part in self.parts if part.digest_data is not None}
        for pair in (text or "").split(",") if text else ():
            name, separator, folder = pair.partition("=")
            if not separator or not folder or name not in known:
                raise UsageError(
                    f"environment.data = {text} does not say whose folder it is: write NAME=DIR, separated by commas, "
                    f"for {' and '.join(sorted(known)) or 'none of them, as these benchmarks take no data'}"
                )
            found[name] = folder
        for part in self.parts:
            if part.name not in found and (own := part.locate_data(None)) is not None:
                found[part.name] = own
        return found

    def complete_data(self, text: str | None) -> str | None:
        """Return all folders in the form of `read_folders`; None if there are none."""
        return ",".join(f"{name}={folder}" for name, folder in sorted(self.read_folders(text).items())) or None

    def digest_data(self, text: str) -> str:
        parts = {part.name: part for part in self.parts}
        folders = sorted(self.read_folders(text).items())
        return ",".join(f"{name}={parts[name].identify_data(folder)}" for name, folder in folders)

    def check_variants(self, variants: Sequence[Variant], text: str | None) -> None:
        folders = self.read_folders(text)
        for part in self.parts:
            part.check_data([each for each in variants if self.owners[each.task] is part], folders.get(part.name))

    def count_variants(self, text: str) -> dict[tuple[str, Split], int]:
        folders = self.read_folders(text)
        counts: dict[tuple[str, Split], int] = {}
        for part in self.parts:
            if part.count_variants is not None and part.name in folders:
                counts |= dict(part.count_variants(folders[part.name]))
            else:
                table = part.table
                counts |= {(task, kind): len(table.indices(task, kind)) for task in table.tasks() for kind in SPLITS}
        return counts


class MixedEnvironment:
    """An environment of every benchmark whose variants were reset here, and the one that plays now.

    ``start`` returns a task type's benchmark and what creates an environment of it. All other members of the contract,
    and those beyond it, such as `goal_progress`, are those of the environment that plays.
    """

    def __init__(self, start: Callable[[str], tuple[str, Callable[[], PooledEnvironment]]]):
        self._start = start
        self._made: dict[str, PooledEnvironment] = {}
        self._playing: PooledEnvironment | None = None
        self._interface = ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # asked before __init__, as when an object is copied
            raise AttributeError(name)
        return getattr(self._require_playing(), name)

    @property
    def alive(self) -> bool:
        return all(environment.alive for environment in self._made.values())

    def choose_interface(self, name: str) -> None:
        self._interface = name

    def choose_task(self, task: str) -> None:
        """Turn to the environment of this task type, without a reset; enough to render states."""
        name, make = self._start(task)
        if name not in self._made:
            self._made[name] = make()
        self._playing = self._made[name]
        choose: Any = getattr(self._playing, "choose_interface", None)
        if choose is not None and self._interface:
            choose(self._interface)

    def reset(self, variant: Variant) -> State:
        self.choose_task(variant.task)
        return self._require_playing().reset(variant)

    def admissible_actions(self) -> Sequence[str]:
        listing: Any = self._require_playing()
        found: Sequence[str] = listing.admissible_actions()
        return found

    def close(self) -> None:
        for environment in list(self._made.values()):
            environment.close()

    def _require_playing(self) -> PooledEnvironment:
        if self._playing is None:
            raise SimulatorDied("no variant is being played: reset the environment first.")
        return self._playing
