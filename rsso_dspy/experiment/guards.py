"""What a run may not start from, whoever asks for it: anything that has seen a variant on which the run is scored, or
that was made on another benchmark. Planning a run (`run.plan_run`) meets every guard once.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.environments.benchmark import named_in
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import Variant
from rsso_dspy.store.run_spec import RunSpec


def check_held_out(calibration: Collection[str], held_out: Iterable[Variant]) -> None:
    """Raise `SplitError` when a program that was compiled on the variants of these keys is about to be scored on one of
    them."""
    if seen := [variant.key for variant in held_out if variant.key in calibration]:
        raise SplitError(
            f"the program was compiled on {', '.join(dict.fromkeys(seen))}: a score there is not held out. "
            "Leave them out of this run, or compile on other variants (--calib)."
        )


def check_benchmark(what: object, made_on: str, wanted: str) -> None:
    """Raise `UsageError` that names both when something made on one benchmark is about to be used on another."""
    if made_on != wanted:
        raise UsageError(
            f"{what} was made on the benchmark {made_on}, not on {wanted}, whose tasks, actions and points are others: "
            f'name {made_on} (--benchmark {made_on}, or benchmark = "{made_on}" in the configuration), or take one '
            f"that was made on {wanted}"
        )


def check_sources(
    file: Path,
    provenance: Mapping[str, Any],
    variants: Collection[str],
    config: Config,
    plan: Plan,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Raise `UsageError` when a file of memories comes from another benchmark than the one that is played, `SplitError`
    when it was learnt on a variant that the plan holds out. `say` is told of others of the test split that it was
    learnt on."""
    for made_on in _benchmarks_in(provenance):
        check_benchmark(file, made_on, config.benchmark)
    if seen := sorted({unit.variant.key for unit in plan.units}.intersection(variants)):
        raise SplitError(
            f"{file} was learnt on {', '.join(seen)}, which this run holds out: its scores would not be those of a "
            "first meeting; leave them out of --variants, or take a file that was made on training variants"
        )
    try:
        held_out = config.active_benchmark.select_held_out(variants)
    except UsageError as error:
        raise UsageError(
            f"{file} was learnt on variants that {config.benchmark} does not have ({error}) and does not say of which "
            f"benchmark they are: play that one (--benchmark), or take a file that was made on {config.benchmark}"
        ) from None
    if held_out:
        say(f"{file} was learnt on {', '.join(held_out)} of the test split: say so where you report these scores")


def check_readers(spec: RunSpec, read_only: bool = False) -> None:
    """Raise `UsageError` when a method that reads a constitution and writes none has none to read. A plan that is only
    looked at does without one that is still to be built."""
    rows = [get_method(name) for name in spec.methods]
    idle = [row.name for row in rows if "constitution" in row.memories and row.writing is None]
    if idle and not (spec.constitution or (spec.unbuilt and read_only)):
        raise UsageError(
            f"{', '.join(idle)} would have nothing to read: add --constitution FILE, or leave +constitution out"
        )


def _benchmarks_in(provenance: Mapping[str, Any]) -> Iterator[str]:
    """The benchmarks that a file, or the files that it was merged from, says that it was made on."""
    made_by, parts = provenance.get("made_by"), provenance.get("merged_from")
    if isinstance(made_by, Mapping) and (name := named_in(made_by)):
        yield name
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, Mapping):
            yield from _benchmarks_in(part)
