"""The 18 tasks of the adaptation protocol, their splits, and which variants a run takes from them.

    >>> parse("boil::22")
    Variant(task='boil', index=22, split='test', simplification='easy')
    >>> [variant.index for variant in held_out("identify-life-stages-2")]
    [7, 6, 8, 9]

Splits are contiguous ranges of variant indices, as ScienceWorld itself divides them; they stand in a data file so that
planning a run needs no simulator.
"""

import json
import random
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

from rsso_dspy.bounds import MOST_DIGITS, shortened
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.trajectory import Split, Variant

Selection = Literal["sso", "first"]
"""How held-out variants are chosen. ``sso``: the sample that the SSO reference draws (seed 42, training variants first,
then test variants). ``first``: the lowest indices of the test split."""

SAMPLE_SIZE = 10
"""Variants per task in the papers; fewer where the split has fewer."""


def tasks() -> tuple[str, ...]:
    """Names of the 18 tasks, in alphabetical order."""
    return tuple(_table())


def indices(task: str, split: Split) -> range:
    """Variant indices of one split. Raises ``UnknownName`` for a task or split that does not exist."""
    row = _row(task)
    if split not in get_args(Split):
        raise UnknownName("split", split, get_args(Split))
    first, last = row[split]
    return range(first, last + 1)


def split_of(task: str, index: int) -> Split:
    """The split that a variant index belongs to. Raises ``SplitError`` when the task has no such variant."""
    for split in get_args(Split):
        if index in indices(task, split):
            return split
    last = indices(task, "test")[-1]
    raise SplitError(f"{task} has no variant {index}: its indices run from 0 to {last} ({_ranges(task)}).")


def variant(task: str, index: int, split: Split | None = None, simplification: str = "easy") -> Variant:
    """One variant. With ``split``, raises ``SplitError`` unless it belongs to that split."""
    found = split_of(task, index)
    if split is not None and found != split:
        raise SplitError(f"{task}::{index} is a {found} variant, not {split}; of {task}, {_ranges(task)}.")
    return Variant(task, index, found, simplification)


def parse(key: str, split: Split | None = None) -> Variant:
    """The variant that ``task::index`` names. Raises ``UsageError`` for a text of another form."""
    task, separator, index = key.strip().partition("::")
    if not separator or not index.isdecimal() or len(index) > MOST_DIGITS:
        raise UsageError(f"{shortened(key)!r} does not name a variant: expected task::index, e.g. find-plant::228.")
    return variant(task, int(index), split)


def held_out(task: str, selection: Selection = "sso", n: int = SAMPLE_SIZE) -> tuple[Variant, ...]:
    """Up to ``n`` variants of the test split, fewer when the selection has fewer; a smaller ``n`` takes the first of
    the same order. Raises ``SplitError`` when ``n`` is more than the sample of ``sso`` holds by design."""
    if selection not in get_args(Selection):
        raise UnknownName("selection", selection, get_args(Selection))
    if n < 1:
        raise SplitError(f"cannot select {n} variants of {task}: ask for at least 1.")
    if selection == "sso" and n > SAMPLE_SIZE:
        raise SplitError(
            f"selection 'sso' is a fixed sample of at most {SAMPLE_SIZE} variants a task, {n} were asked for; "
            "use selection 'first' for more."
        )
    chosen = _row(task)["sso"] if selection == "sso" else indices(task, "test")
    return tuple(variant(task, index, "test") for index in chosen[:n])


def train_sample(task: str, n: int = SAMPLE_SIZE, seed: int = 42) -> tuple[Variant, ...]:
    """Up to ``n`` training variants, drawn with ``seed``; with seed 42, those that the SSO reference trains on. Fewer
    than ten are the first of the ten, so a small sample is part of a larger one. Gold lengths of the ten of seed 42
    are shipped."""
    return _sample(task, "train", n, seed)


def dev_sample(task: str, n: int = SAMPLE_SIZE, seed: int = 42) -> tuple[Variant, ...]:
    """As ``train_sample``, of the development split."""
    return _sample(task, "dev", n, seed)


def _sample(task: str, split: Split, n: int, seed: int) -> tuple[Variant, ...]:
    if n < 1:
        raise SplitError(f"cannot draw {n} variants of {task}: ask for at least 1.")
    population = indices(task, split)
    drawn = random.Random(seed).sample(population, min(max(n, SAMPLE_SIZE), len(population)))
    return tuple(variant(task, index, split) for index in drawn[:n])


def _ranges(task: str) -> str:
    return ", ".join(
        f"{split} is {r.start} to {r.stop - 1}" for split in get_args(Split) for r in [indices(task, split)]
    )


def _row(task: str) -> dict[str, list[int]]:
    try:
        return _table()[task]
    except KeyError:
        raise UnknownName("task", task, _table()) from None


@cache
def _table() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("data/splits.json").read_text(encoding="utf-8")
    return json.loads(text)["tasks"]
