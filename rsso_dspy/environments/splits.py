"""Tasks of a benchmark, their splits, and which variants a run takes from them.

table = TaskTable({"count": {"train": (0, 9), "dev": (10, 14), "test": (15, 19)}})
table.parse("count::15")                # Variant(task='count', index=15, split='test', simplification='')
table.held_out("count", "first", 2)     # the lowest two indices of the test split
"""

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import get_args

from rsso_dspy.bounds import MOST_DIGITS, shorten_text
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.records import Split, Variant

__all__ = ["FIRST", "SAMPLE_SIZE", "TaskRow", "TaskTable"]

FIRST = "first"
"""Name of the selection that every benchmark has: the lowest indices of the test split."""

SAMPLE_SIZE = 10
"""Variants per task that are chosen when no number is asked for; fewer where the split has fewer."""

TaskRow = Mapping[str, Sequence[int]]
"""First and last index of the splits ``train``, ``dev`` and ``test`` of one task, and under the name of a sample the
indices that are in it, in order."""


class TaskTable:
    """Task types by name with the indices of their variants. Splits are contiguous ranges.

    ``rows`` is the table, or what reads it when it is first asked for. ``samples`` are names of fixed selections of
    held-out variants that every row has besides its splits; the first is the one that runs take when none is named.
    ``example`` is the key of a variant, for messages. ``simplification`` is that of variants as they are made here.
    """

    def __init__(
        self,
        rows: Mapping[str, TaskRow] | Callable[[], Mapping[str, TaskRow]],
        samples: Sequence[str] = (),
        example: str = "",
        simplification: str = "",
    ):
        self._given = rows
        self.selections = (*samples, FIRST)
        """Names of the ways to choose held-out variants, the usual one first."""
        self._example = example
        self._simplification = simplification

    @cached_property
    def _rows(self) -> Mapping[str, TaskRow]:
        return self._given() if callable(self._given) else self._given

    @property
    def example(self) -> str:
        """The key of a variant, for messages."""
        task = next(iter(self._rows))
        return self._example or f"{task}::{self._rows[task]['test'][0]}"

    def tasks(self) -> tuple[str, ...]:
        """Names of the task types, in the order of the table."""
        return tuple(self._rows)

    def indices(self, task: str, split: Split) -> range:
        """Variant indices of one split. Raises ``UnknownName`` for a task or split that does not exist."""
        row = self._get_row(task)
        if split not in get_args(Split):
            raise UnknownName("split", split, get_args(Split))
        first, last = row[split]
        return range(first, last + 1)

    def split_of(self, task: str, index: int) -> Split:
        """The split that a variant index belongs to. Raises ``SplitError`` when the task has no such variant."""
        for split in get_args(Split):
            if index in self.indices(task, split):
                return split
        last = self.indices(task, "test")[-1]
        raise SplitError(
            f"{task} has no variant {index}: its indices run from 0 to {last} ({self._describe_ranges(task)})."
        )

    def variant(self, task: str, index: int, split: Split | None = None, simplification: str | None = None) -> Variant:
        """One variant. With ``split``, raises ``SplitError`` unless it belongs to that split."""
        found = self.split_of(task, index)
        if split is not None and found != split:
            raise SplitError(
                f"{task}::{index} is a {found} variant, not {split}; of {task}, {self._describe_ranges(task)}."
            )
        return Variant(task, index, found, self._simplification if simplification is None else simplification)

    def parse(self, key: str, split: Split | None = None) -> Variant:
        """The variant that ``task::index`` names. Raises ``UsageError`` for a text of another form."""
        task, separator, index = key.strip().partition("::")
        if not separator or not index.isdecimal() or len(index) > MOST_DIGITS:
            raise UsageError(
                f"{shorten_text(key)!r} does not name a variant: expected task::index, e.g. {self.example}."
            )
        return self.variant(task, int(index), split)

    def held_out(self, task: str, selection: str | None = None, n: int = SAMPLE_SIZE) -> tuple[Variant, ...]:
        """Up to ``n`` variants of the test split, fewer when the selection has fewer; a smaller ``n`` takes the first
        of the same order. Raises ``UnknownName`` for a selection, ``SplitError`` when ``n`` is more than a fixed sample
        holds by design."""
        selection = self.selections[0] if selection is None else selection
        if selection not in self.selections:
            raise UnknownName("selection", selection, self.selections)
        if n < 1:
            raise SplitError(f"cannot select {n} variants of {task}: ask for at least 1.")
        if selection != FIRST and n > SAMPLE_SIZE:
            raise SplitError(
                f"selection {selection!r} is a fixed sample of at most {SAMPLE_SIZE} variants a task, {n} were asked "
                f"for; use selection {FIRST!r} for more."
            )
        chosen = self.indices(task, "test") if selection == FIRST else self._get_row(task)[selection]
        return tuple(self.variant(task, index, "test") for index in chosen[:n])

    def train_sample(self, task: str, n: int = SAMPLE_SIZE, seed: int = 42) -> tuple[Variant, ...]:
        """Up to ``n`` training variants, drawn with ``seed``. Fewer than ten are the first of the ten, so a small
        sample is part of a larger one."""
        return self._draw_sample(task, "train", n, seed)

    def dev_sample(self, task: str, n: int = SAMPLE_SIZE, seed: int = 42) -> tuple[Variant, ...]:
        """As ``train_sample``, of the development split."""
        return self._draw_sample(task, "dev", n, seed)

    def _draw_sample(self, task: str, split: Split, n: int, seed: int) -> tuple[Variant, ...]:
        if n < 1:
            raise SplitError(f"cannot draw {n} variants of {task}: ask for at least 1.")
        population = self.indices(task, split)
        drawn = random.Random(seed).sample(population, min(max(n, SAMPLE_SIZE), len(population)))
        return tuple(self.variant(task, index, split) for index in drawn[:n])

    def _describe_ranges(self, task: str) -> str:
        return ", ".join(
            f"{split} is {r.start} to {r.stop - 1}" for split in get_args(Split) for r in [self.indices(task, split)]
        )

    def _get_row(self, task: str) -> TaskRow:
        try:
            return self._rows[task]
        except KeyError:
            raise UnknownName("task", task, self._rows) from None
