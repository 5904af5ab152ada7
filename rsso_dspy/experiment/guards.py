"""Guards against leaks: a run must not use anything that saw its held-out variants or was made on another benchmark.

Planning a run (`run.plan_run`) applies every guard once.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
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
    """Raise `SplitError` if a program compiled on these variants would be scored on one of them."""
    if seen := [variant.key for variant in held_out if variant.key in calibration]:
        raise SplitError(
            f"the program was compiled on {', '.join(dict.fromkeys(seen))}: a score there is not held out. "
            "Drop them from this run, or compile on other variants (--calib)."
        )


def check_benchmark(what: object, made_on: str, wanted: str) -> None:
    """Raise `UsageError` if something made on one benchmark would be used on another."""
    if made_on != wanted:
        raise UsageError(
            f"{what} was made on the benchmark {made_on}, not on {wanted}, which has other tasks, actions and points: "
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
    """Check the source variants of a memory file.

    Raises `UsageError` if it comes from another benchmark, and `SplitError` if it was learned on a variant that the
    plan holds out. `say` receives a note on other test variants.
    """
    made_by = provenance.get("made_by")
    if isinstance(made_by, Mapping) and (made_on := named_in(made_by)):
        check_benchmark(file, made_on, config.benchmark)
    if seen := sorted({unit.variant.key for unit in plan.units}.intersection(variants)):
        raise SplitError(
            f"{file} was learned on {', '.join(seen)}, which this run holds out: scores there would not be "
            "held out; drop them from --variants, or use a file made on training variants"
        )
    try:
        held_out = config.active_benchmark.select_held_out(variants)
    except UsageError as error:
        raise UsageError(
            f"{file} was learned on variants that {config.benchmark} does not have ({error}), and does not name its "
            f"benchmark: select that one (--benchmark), or use a file made on {config.benchmark}"
        ) from None
    if held_out:
        say(f"{file} was learned on {', '.join(held_out)} of the test split: mention this when you report scores")


def check_readers(spec: RunSpec) -> None:
    """Raise `UsageError` if a method needs a constitution to read and there is none."""
    rows = [get_method(name) for name in spec.methods]
    idle = [row.name for row in rows if "constitution" in row.memories and row.writing is None]
    if idle and not spec.constitution:
        raise UsageError(
            f"{', '.join(idle)} would have nothing to read: add --constitution FILE, or drop +constitution"
        )
