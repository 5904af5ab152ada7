"""The variants that a program is compiled on, in three disjoint parts: `train` for feedback, `val` to choose among
candidates, `confirm` to compare the chosen one with the program it started from.

    >>> calibration = draw_calibration("1-per-task", ["boil"], seed=0)
    >>> len(calibration.train), len(calibration.val), len(calibration.confirm)
    (1, 1, 3)
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations

import dspy

from rsso_dspy.bounds import MOST_PER_TASK, shorten_text
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.environments.splits import SAMPLE_SIZE
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.plan import choose_variants
from rsso_dspy.records import Variant

PARTS = ("train", "val", "confirm")

CONFIRM_SHARE = 3
"""Confirm variants for every val variant. On 18 val variants the best of four useless candidates looks better in nine
of ten compiles; 54 confirm variants, which only the chosen candidate plays, correct that (`benchmarks/junk.py`)."""

_PER_TASK = re.compile(r"([1-9][0-9]{0,8})-per-task")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Variants that a compile may play. Raises ``SplitError`` for a held-out one, whatever split its own field
    names, or one in two parts, and ``UsageError`` when `train` or `val` is empty."""

    train: tuple[Variant, ...]  # played for feedback: traces, reflections, demonstrations
    val: tuple[Variant, ...]  # scored to choose among candidates; no candidate was made from them
    confirm: tuple[Variant, ...] = ()  # played by the chosen candidate and the program it started from alone
    notes: tuple[str, ...] = ()  # where the draw differs from what was asked for
    benchmark: str = DEFAULT
    data: str | None = None  # the user's data whose task types these are, see `Benchmark.tasks_of`
    seeds: int = 1  # that each val and confirm variant is played with; its score is their mean

    def __post_init__(self) -> None:
        keys = {part: self._list_keys(part) for part in PARTS}
        problems = [*self._find_held_out(keys), *_find_shared(keys)]
        if problems:
            raise SplitError(f"these variants cannot calibrate: {', and '.join(problems)}.")

        empty = [part for part in ("train", "val") if not keys[part]]
        if empty:
            raise UsageError(
                f"no calibration variants in {' and none in '.join(empty)}: both parts need at least one. "
                "Name more tasks or more variants."
            )

    @property
    def played_benchmark(self) -> Benchmark:
        return get_benchmark(self.benchmark).take_tasks(self.data)

    @property
    def variants(self) -> tuple[Variant, ...]:
        return (*self.train, *self.val, *self.confirm)

    @property
    def val_rollouts(self) -> int:
        return len(self.val) * self.seeds

    @property
    def confirm_rollouts(self) -> int:
        return 2 * len(self.confirm) * self.seeds

    @property
    def size(self) -> str:
        confirm = len(self.confirm) or "no"
        return f"{len(self.train)} train, {len(self.val)} val and {confirm} confirm variants"

    def _list_keys(self, part: str) -> list[str]:
        """The keys of the variants in a part, each once."""
        keys = [variant.key for variant in getattr(self, part)]
        return list(dict.fromkeys(keys))

    def _find_held_out(self, keys: Mapping[str, Sequence[str]]) -> Iterator[str]:
        held_out = self.played_benchmark.select_held_out(chain.from_iterable(keys.values()))
        if held_out:
            listing = ", ".join(dict.fromkeys(held_out))
            yield f"of the held-out test split: {listing}; take train or dev variants"


def _find_shared(keys: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for first, second in combinations(keys, 2):
        keys_of_second = set(keys[second])
        shared = [key for key in keys[first] if key in keys_of_second]
        if shared:
            yield f"both in {first} and in {second}: {', '.join(shared)}; leave each in one of them"


def draw_calibration(
    text: str,
    names: Sequence[str] | None,
    seed: int,
    simplification: str | None = None,
    of: Benchmark | None = None,
    confirm_share: int = CONFIRM_SHARE,
) -> Calibration:
    """The calibration that ``text`` asks for, ``K-per-task``: of each named task (of all when None) K training variants
    for `train`, K others for `val` and `confirm_share` times K for `confirm`; fewer where the split has fewer, with a
    note. Raises ``UnknownName`` for a task, ``UsageError`` for another text and for tasks with too few variants."""
    of = of or get_benchmark()
    k = _read_per_task(text)

    drawn: dict[str, list[Variant]] = {part: [] for part in PARTS}
    notes = []
    for task in dict.fromkeys(names or of.tasks.names()):
        # The ten of the reference sample come first: their gold lengths are shipped.
        pool = of.tasks.train_sample(task, max(SAMPLE_SIZE, (2 + confirm_share) * k))
        parts, note = split_pool(task, pool, k, seed, confirm_share)
        if note:
            notes.append(note)
        for part, variants in parts.items():
            drawn[part] += variants

    if simplification is not None:
        for part, variants in drawn.items():
            drawn[part] = [replace(variant, simplification=simplification) for variant in variants]
    return Calibration(
        train=tuple(drawn["train"]),
        val=tuple(drawn["val"]),
        confirm=tuple(drawn["confirm"]),
        notes=tuple(notes),
        benchmark=of.name,
        data=of.tasks_of,
    )


def _read_per_task(text: str) -> int:
    per_task = _PER_TASK.fullmatch(text)
    if per_task is None or int(per_task[1]) > MOST_PER_TASK:
        raise UsageError(f"--calib {shorten_text(text)!r} is not K-per-task with K from 1 to {MOST_PER_TASK:,}")
    return int(per_task[1])


def split_pool(
    task: str, pool: Sequence[Variant], k: int, seed: int, confirm_share: int = CONFIRM_SHARE
) -> tuple[dict[str, list[Variant]], str | None]:
    """The variants of each part, and a note if the pool is too small: then the parts share it in proportion."""
    size = f"{len(pool)} train variant{'' if len(pool) == 1 else 's'}"
    if len(pool) < 2:
        return {}, f"{task} is left out: of {size} none can be for train and another for val"

    val = min(k, max(1, len(pool) // (2 + confirm_share)))
    train = min(k, max(1, (len(pool) - val) // (1 + confirm_share)))
    confirm = min(confirm_share * k, len(pool) - train - val)

    order = random.Random(f"{seed}/{task}").sample(pool, len(pool))
    remaining = order[train:]
    parts = {
        "train": order[:train],
        "val": remaining[:val],
        "confirm": remaining[val:][:confirm],
    }
    if len(pool) >= (2 + confirm_share) * k:
        return parts, None

    if confirm_share:
        shares = f"{train} for train, {val} for val and {confirm or 'none'} for confirm"
        request = f"{k}, {k} and {confirm_share * k}"
    else:
        shares = f"{train} for train and {val} for val"
        request = f"{k} and {k}"
    return parts, f"{task} has {size}: {shares} instead of {request}"


def build_examples(variants: Iterable[Variant]) -> list[dspy.Example]:
    """The keys of the variants and nothing else, so no length or gold path can reach a prompt through an example."""
    return [dspy.Example(variant=variant.key).with_inputs("variant") for variant in variants]


def trainset(
    benchmark: str = DEFAULT, calib: str = "1-per-task", tasks: Sequence[str] | None = None, seed: int = 0
) -> list[dspy.Example]:
    """Variants to learn from, for any optimizer: ``optimizer.compile(Agent("rsso"), trainset=trainset())``."""
    calibration = draw_calibration(calib, tasks, seed, of=get_benchmark(benchmark))
    return build_examples(calibration.train)


def testset(benchmark: str = DEFAULT, per_task: int = 1, tasks: Sequence[str] | None = None) -> list[dspy.Example]:  # noqa: PT028
    """Held-out variants to report a score of, none of which is in any `trainset` or `valset`: the first `per_task` of
    each task (default: all tasks) that `rsso_dspy.run` plays too. Raises `UnknownName` for a task."""
    variants = choose_variants(tasks, (), per_task, of=get_benchmark(benchmark))
    return build_examples(variants)


def valset(
    benchmark: str = DEFAULT, calib: str = "1-per-task", tasks: Sequence[str] | None = None, seed: int = 0
) -> list[dspy.Example]:
    """Variants to choose by, none of which is in the `trainset` of the same arguments."""
    calibration = draw_calibration(calib, tasks, seed, of=get_benchmark(benchmark))
    return build_examples(calibration.val)
