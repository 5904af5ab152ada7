"""Which held-out variants a command means."""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast, get_args

from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.trajectory import Variant


def choose(
    names: Sequence[str] | None, variants: Sequence[str], per_task: int | None = None, simplification: str = "easy"
) -> list[Variant]:
    """Held-out variants of the named tasks (all 18 when None), task by task, at most `per_task` of each.

    `variants` is one selection (``sso`` or ``first``), or ``task::index`` each, or for a single task indices.
    Raises `UnknownName` for a task, `SplitError` for a variant that is not held out.
    """
    if len(variants) == 1 and variants[0] in get_args(tasks.Selection):
        selection = cast(tasks.Selection, variants[0])
        limit = tasks.SAMPLE_SIZE if per_task is None else per_task
        chosen = [v for task in names or tasks.tasks() for v in tasks.held_out(task, selection, limit)]
    else:
        listed = [_named(text, names) for text in variants]
        if stray := [v.key for v in listed if names is not None and v.task not in names]:
            raise UsageError(f"{', '.join(stray)} belongs to none of the tasks in --tasks")
        chosen = [v for task in dict.fromkeys(v.task for v in listed) for v in _first(listed, task, per_task)]
    return [replace(variant, simplification=simplification) for variant in chosen]


def _named(text: str, names: Sequence[str] | None) -> Variant:
    if "::" in text:
        return tasks.parse(text, "test")
    if not text.isdecimal():
        known = get_args(tasks.Selection)
        raise UnknownName("selection or variant", text, known, "Or list variants, such as boil::22,freeze::21.")
    if names is None or len(names) != 1:
        raise UsageError(
            f"--variants {text}: of which task? Write task::{text}, such as boil::22, or give one task in --tasks"
        )
    return tasks.parse(f"{names[0]}::{text}", "test")


def _first(listed: Sequence[Variant], task: str, limit: int | None) -> list[Variant]:
    return [variant for variant in listed if variant.task == task][:limit]
