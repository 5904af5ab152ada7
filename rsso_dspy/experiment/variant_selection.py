"""Selection of held-out variants."""

from collections.abc import Sequence
from dataclasses import replace

from rsso_dspy.environments.benchmark import Benchmark, get_benchmark
from rsso_dspy.environments.splits import SAMPLE_SIZE, TaskTable
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.records import Variant


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
    table = (of or get_benchmark()).table
    variants = variants or table.selections[:1]
    if len(variants) == 1 and variants[0] in table.selections:
        limit = SAMPLE_SIZE if per_task is None else per_task
        chosen = [v for task in names or table.tasks() for v in table.held_out(task, variants[0], limit)]
    else:
        listed = [_parse_variant(text, names, table) for text in variants]
        if stray := [v.key for v in listed if names is not None and v.task not in names]:
            raise UsageError(f"{', '.join(stray)} is not a variant of the tasks in --tasks")
        chosen = [v for task in dict.fromkeys(v.task for v in listed) for v in _take_first(listed, task, per_task)]
    if simplification is None:
        return chosen
    return [replace(variant, simplification=simplification) for variant in chosen]


def _parse_variant(text: str, names: Sequence[str] | None, table: TaskTable) -> Variant:
    if "::" in text:
        return table.parse(text, "test")
    if not text.isdecimal():
        raise UnknownName("selection or variant", text, table.selections, f"Or list variants, such as {table.example}.")
    if names is None or len(names) != 1:
        raise UsageError(
            f"--variants {text}: the task is missing. Write task::{text}, such as {table.example}, or name one task in "
            "--tasks"
        )
    return table.parse(f"{names[0]}::{text}", "test")


def _take_first(listed: Sequence[Variant], task: str, limit: int | None) -> list[Variant]:
    return [variant for variant in listed if variant.task == task][:limit]
