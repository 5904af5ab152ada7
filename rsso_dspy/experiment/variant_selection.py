"""Selection of held-out variants."""

from collections.abc import Sequence
from typing import get_args

from rsso_dspy.config import Config
from rsso_dspy.environments.benchmark import Benchmark, get_benchmark
from rsso_dspy.environments.splits import SAMPLE_SIZE, TaskTable
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.records import Split, Variant


def choose_variants(
    names: Sequence[str] | None,
    variants: Sequence[str],
    per_task: int | None = None,
    simplification: str | None = None,
    of: Benchmark | None = None,
) -> list[Variant]:
    """Return held-out variants of the tasks (default: all), task by task, at most `per_task` of each.

    `variants` is one named selection (such as ``first``), a list of ``task::index``, or for a single task of indices;
    by default the benchmark's first selection. `of` is the benchmark (default: the built-in one), `simplification` that
    of the variants (default: the benchmark's). Raises `UnknownName` for a task, `SplitError` for a variant that is not
    held out.
    """
    of = of or get_benchmark()
    table = of.table
    variants = variants or table.selections[:1]
    if len(variants) == 1 and variants[0] in table.selections:
        limit = SAMPLE_SIZE if per_task is None else per_task
        chosen = [v for task in names or table.tasks() for v in table.held_out(task, variants[0], limit)]
    else:
        listed = [_parse_variant(text, names, table) for text in variants]
        if stray := [v.key for v in listed if names is not None and v.task not in names]:
            raise UsageError(f"{', '.join(stray)} is not a variant of the tasks in --tasks")
        tasks = dict.fromkeys(v.task for v in listed)
        chosen = [each for task in tasks for each in [v for v in listed if v.task == task][:per_task]]
    if simplification is None:
        return chosen
    return [of.simplify(variant, simplification) for variant in chosen]


def describe_missing_data(
    chosen: Sequence[Variant],
    names: Sequence[str] | None,
    variants: Sequence[str],
    per_task: int | None,
    config: Config,
) -> str:
    """Say what a named selection left out because the user's data folder does not hold it; empty if nothing.

    Raises `UsageError` if it left out everything.
    """
    whole, table = config.active_benchmark.table, config.benchmark_in_data.table
    variants = variants or whole.selections[:1]
    if table is whole or len(variants) != 1 or variants[0] not in whole.selections:
        return ""
    wanted = len(choose_variants(names, variants, per_task, of=config.active_benchmark))
    folder = config.active_benchmark.locate_data(config.environment.data)
    counts = {split: sum(table.count_held(task, split) for task in table.tasks()) for split in get_args(Split)}
    train, dev, test = (f"{count:,} {split}" for split, count in counts.items())
    held = f"{folder} holds {train}, {dev} and {test} variants"
    if not chosen:
        raise UsageError(f"none of the selected variants can be played: {held}")
    if table.played_split != "test":
        return f"{held}: {len(chosen)} of {table.played_split} played instead, not the test set"
    return f"{held}: {wanted - len(chosen)} of {wanted} selected variants are left out" if len(chosen) < wanted else ""


def _parse_variant(text: str, names: Sequence[str] | None, table: TaskTable) -> Variant:
    if "::" in text:
        return table.parse(text, table.played_split)
    if not text.isdecimal():
        raise UnknownName("selection or variant", text, table.selections, f"Or list variants, such as {table.example}.")
    if names is None or len(names) != 1:
        raise UsageError(
            f"--variants {text}: the task is missing. Write task::{text}, such as {table.example}, or name one task in "
            "--tasks"
        )
    return table.parse(f"{names[0]}::{text}", table.played_split)
