"""Tasks of a benchmark, their splits, and the selection of variants."""

import random
from collections.abc import Mapping, Sequence
from copy import copy
from typing import get_args

from rsso_dspy.bounds import MOST_DIGITS, shorten_text
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.records import Split, Variant

FIRST = "first"  # name of the selection that every benchmark has: the lowest indices of the test split
SAMPLE_SIZE = 10  # default number of variants per task; fewer if the split has fewer
TaskRow = Mapping[str, Sequence[int]]  # first and last index of each split; for a named sample, its indices in order


class TaskTable:
    """Task types by name with the indices of their variants. ``samples`` names fixed selections of held-out variants
    that every row has besides its splits; runs take the first one by default. ``examples``: task types that show in
    minutes what a run is like, by default the first. ``simplifications``: allowed names, that of created variants
    first."""

    def __init__(
        self,
        rows: Mapping[str, TaskRow],
        samples: Sequence[str] = (),
        examples: Sequence[str] = (),
        simplifications: Sequence[str] = (),
    ):
        self._rows = rows
        self._held: Mapping[tuple[str, Split], int] | None = None
        self.selections = (*samples, FIRST)  # names of the selections of held-out variants, the default first
        self.simplifications = tuple(simplifications)

        self.examples = tuple(examples) or self.names()[:1]
        task = self.examples[-1]
        selection = samples[0] if samples else "test"
        index = rows[task][selection][0]
        self.example = f"{task}::{index}"

    def limit(self, held: Mapping[tuple[str, Split], int]) -> "TaskTable":
        """Return this table for a data folder that holds only the first ``held[task, split]`` variants of a split.
        Variants are then selected and drawn from those alone; keys and splits stay what they are."""
        table = copy(self)
        table._held = held
        return table

    @property
    def played_split(self) -> Split:
        """The split that runs play: ``test``, but ``dev`` where a data folder holds variants of ``dev`` and none of
        ``test``."""
        if self._held is None:
            return "test"

        splits = {split for (_, split), count in self._held.items() if count}
        if "dev" in splits and "test" not in splits:
            return "dev"
        return "test"

    def list_held(self, task: str, split: Split) -> range:
        """Return the indices of a split that can be played: all of them, or as many as the data folder holds."""
        indices = self.indices(task, split)
        if self._held is None:
            return indices

        count = self._held.get((task, split), 0)
        return indices[:count]

    def names(self) -> tuple[str, ...]:
        return tuple(self._rows)

    def indices(self, task: str, split: Split) -> range:
        """Return the variant indices of one split. Raises ``UnknownName`` for an unknown task."""
        first, last = self._get_row(task)[split]
        return range(first, last + 1)

    def split_of(self, task: str, index: int) -> Split:
        """Return the split of a variant index. Raises ``SplitError`` if the task has no such variant."""
        for split in get_args(Split):
            if index in self.indices(task, split):
                return split

        last = self.indices(task, "test")[-1]
        ranges = self._describe_ranges(task)
        raise SplitError(f"{task} has no variant {index}: its indices run from 0 to {last} ({ranges}).")

    def variant(self, task: str, index: int, split: Split | None = None, simplification: str | None = None) -> Variant:
        """Return one variant. Raises ``SplitError`` if it does not belong to ``split``."""
        actual_split = self.split_of(task, index)
        if split is not None and actual_split != split:
            ranges = self._describe_ranges(task)
            raise SplitError(f"{task}::{index} is a {actual_split} variant, not {split}; of {task}, {ranges}.")

        if simplification is None:
            simplification = self.simplifications[0] if self.simplifications else ""
        return Variant(task, index, actual_split, simplification)

    def parse(self, key: str, split: Split | None = None) -> Variant:
        """Parse ``task::index``. Raises ``UsageError`` for any other form."""
        task, separator, index = key.strip().partition("::")
        if not separator or not index.isdecimal() or len(index) > MOST_DIGITS:
            why = f"{shorten_text(key)!r} does not name a variant"
            raise UsageError(f"{why}: expected task::index, e.g. {self.example}.")

        return self.variant(task, int(index), split)

    def held_out(self, task: str, selection: str | None = None, n: int = SAMPLE_SIZE) -> tuple[Variant, ...]:
        """Return up to ``n`` test variants (of `played_split`), fewer if the selection or the data folder has fewer. A
        smaller ``n`` takes the first of the same order. Raises ``UnknownName`` and ``SplitError``."""
        if selection is None:
            selection = self.selections[0]
        if selection not in self.selections:
            raise UnknownName("selection", selection, self.selections)
        if n < 1:
            raise SplitError(f"cannot select {n} variants of {task}: choose at least 1.")

        split = self.played_split
        playable = self.list_held(task, split)
        indices: Sequence[int]
        if selection == FIRST:
            indices = self.indices(task, split)
        else:
            indices = self._get_row(task)[selection]
            self._check_sample_size(selection, n)

        variants = []
        for index in indices[:n]:
            if self._held is None or index in playable:
                variants.append(self.variant(task, index, split))
        return tuple(variants)

    def _check_sample_size(self, selection: str, n: int) -> None:
        sizes = [len(row[selection]) for row in self._rows.values()]
        limit = max(SAMPLE_SIZE, *sizes)
        if n > limit:
            why = f"selection {selection!r} has at most {limit} variants a task, not {n}"
            raise SplitError(f"{why}; use selection {FIRST!r} for more.")

    def train_sample(self, task: str, n: int = SAMPLE_SIZE, seed: int = 42) -> tuple[Variant, ...]:
        """Draw up to ``n`` training variants with ``seed``; up to ten, smaller samples are part of larger ones."""
        if n < 1:
            raise SplitError(f"cannot draw {n} variants of {task}: choose at least 1.")

        population = self.list_held(task, "train")
        size = min(max(n, SAMPLE_SIZE), len(population))
        indices = random.Random(seed).sample(population, size)
        return tuple(self.variant(task, index, "train") for index in indices[:n])

    def _describe_ranges(self, task: str) -> str:
        ranges = []
        for split in get_args(Split):
            indices = self.indices(task, split)
            ranges.append(f"{split} is {indices.start} to {indices.stop - 1}" if indices else f"{split} is empty")
        return ", ".join(ranges)

    def _get_row(self, task: str) -> TaskRow:
        if task not in self._rows:
            raise UnknownName("task", task, self._rows)

        return self._rows[task]
