"""The variants that a program is compiled on, in three disjoint parts: `train` for feedback, `val` to choose among
candidates, `confirm` to compare the chosen one with the program it started from.

    >>> calibration = draw_calibration("1-per-task", ["boil"], seed=0)
    >>> len(calibration.train), len(calibration.val), len(calibration.confirm)
    (1, 1, 3)

No part can hold a held-out variant: making such a `Calibration` raises.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rsso_dspy.bounds import MOST_DIGITS, MOST_PER_TASK, shorten_text
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.environments.splits import SAMPLE_SIZE, TaskTable
from rsso_dspy.errors import DamagedFile, SplitError, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.records import Variant

if TYPE_CHECKING:
    import dspy

PARTS = ("train", "val", "confirm")
NEEDED = ("train", "val")
"""Parts that a compile needs. Without `confirm` it plays, but confirms nothing."""

CONFIRM_SHARE = 3
"""Confirm variants for every val variant. On 18 val variants the best of four useless candidates looks better in nine
of ten compiles; 54 confirm variants, which only the chosen candidate plays, correct that (`benchmarks/junk.py`)."""

SPARE = 5
"""Spare variants per task, where the training split has as many."""

_PER_TASK = re.compile(r"([1-9][0-9]*)-per-task")
_FILE_FORM = '{"train": ["task::index", ...], "val": ["task::index", ...], "confirm": ["task::index", ...]}'


@dataclass(frozen=True, slots=True)
class Calibration:
    """Variants that a compile may play. Raises ``SplitError`` when a variant belongs to the test split, whatever its
    own field says, or is in two parts, and ``UsageError`` when `train` or `val` is empty."""

    train: tuple[Variant, ...]
    """Played for feedback: traces, reflections, demonstrations."""
    val: tuple[Variant, ...]
    """Scored to choose among candidate programs; no candidate was made from them."""
    confirm: tuple[Variant, ...] = ()
    """Played only by the chosen candidate and by the program it started from. Without any, nothing can be confirmed."""
    notes: tuple[str, ...] = ()
    """Notes on where the draw differs from what was asked for."""
    benchmark: str = DEFAULT
    """Name of the benchmark that the variants are of."""
    spare: tuple[Variant, ...] = ()
    """Further variants for feedback, drawn in order once those of `train` are solved."""
    seeds: int = 1
    """Number of seeds that each val and confirm variant is played with; its score is their mean."""

    def __post_init__(self) -> None:
        wrong = []
        if held_out := get_benchmark(self.benchmark).select_held_out(variant.key for variant in self.variants):
            wrong.append(
                f"of the held-out test split: {', '.join(dict.fromkeys(held_out))}; take train or dev variants"
            )
        parts = {part: {variant.key: None for variant in getattr(self, part)} for part in (*PARTS, "spare")}
        for one, other in combinations(parts, 2):
            if shared := [key for key in parts[one] if key in parts[other]]:
                wrong.append(f"both in {one} and in {other}: {', '.join(shared)}; leave each in one of them")
        if wrong:
            raise SplitError(f"these variants cannot calibrate: {', and '.join(wrong)}.")
        if empty := [part for part in NEEDED if not getattr(self, part)]:
            raise UsageError(
                f"no calibration variants in {' and none in '.join(empty)}: both parts need at least one. "
                "Name more tasks or more variants."
            )

    @property
    def variants(self) -> tuple[Variant, ...]:
        """All variants, the spare ones included."""
        return (*self.train, *self.val, *self.confirm, *self.spare)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(variant.key for variant in (*self.train, *self.val, *self.confirm))

    @property
    def val_rollouts(self) -> int:
        """Rollouts that one candidate takes on all of `val`."""
        return len(self.val) * self.seeds

    @property
    def confirm_rollouts(self) -> int:
        """Rollouts that two programs take on all of `confirm`."""
        return 2 * len(self.confirm) * self.seeds

    @property
    def size(self) -> str:
        """How many variants each part has, in words."""
        return f"{len(self.train)} train, {len(self.val)} val and {len(self.confirm) or 'no'} confirm variants"


def draw_calibration(
    text: str,
    names: Sequence[str] | None,
    seed: int,
    simplification: str | None = None,
    of: Benchmark | None = None,
    confirm_share: int = CONFIRM_SHARE,
) -> Calibration:
    """The calibration that ``text`` asks for, of the named tasks (all when None) of a benchmark (the default one when
    None). `simplification` is that of the variants; None means the benchmark's usual one.

    ``K-per-task``: of each task K training variants for `train`, K others for `val` and `confirm_share` times K for
    `confirm`, drawn with ``seed``, and at least `SPARE` spare ones; fewer where the split has fewer, with a note.
    Otherwise the path of a JSON file that lists train or dev variants: ``{"train": ["boil::0", ...], "val":
    ["boil::14", ...], "confirm": [...]}``; without `confirm`, the result stays unconfirmed.

    Raises ``UnknownName`` for a task, ``SplitError`` for variants of the test split or in two parts, ``UsageError`` for
    a text in neither form, a file in another form, and an empty `train` or `val`.
    """
    of = of or get_benchmark()
    table = of.tasks
    names = tuple(dict.fromkeys(names or table.names()))
    for name in names:
        table.indices(name, "train")  # raises for an unknown name
    per_task = _PER_TASK.fullmatch(text)
    if per_task and (len(per_task[1]) > MOST_DIGITS or int(per_task[1]) > MOST_PER_TASK):
        raise UsageError(
            f"--calib {shorten_text(text)}: {MOST_PER_TASK:,}-per-task at most; no task has as many variants"
        )
    if per_task:
        found = _draw_per_task(names, int(per_task[1]), seed, of, confirm_share)
    else:
        found = _load_listed_variants(text, names, of)
    if simplification is None:
        return found
    parts = {
        part: tuple(replace(variant, simplification=simplification) for variant in getattr(found, part))
        for part in (*PARTS, "spare")
    }
    return _build_calibration(parts, of, found.notes)


def split_pool(
    task: str, pool: Sequence[Variant], k: int, seed: int, confirm_share: int = CONFIRM_SHARE
) -> tuple[dict[str, tuple[Variant, ...]], str | None]:
    """``k`` variants of the pool for `train`, ``k`` others for `val`, `confirm_share` times ``k`` for `confirm`, the
    rest as `spare`; and a note when the pool is too small for all three: then they share it in proportion, with at
    least one for `train` and one for `val`. A pool of one or none gives no variants."""
    if len(pool) < 2:
        return {}, f"{task} is left out: of {_format_pool_size(pool)} none can be for train and another for val"
    train, val, confirm = _share_pool(len(pool), k, confirm_share)
    order = random.Random(f"{seed}/{task}").sample(pool, len(pool))
    parts = dict(zip(PARTS, (order[:train], order[train : train + val], order[train + val :][:confirm]), strict=True))
    parts["spare"] = order[train + val + confirm :]
    note = (
        f"{task} has {_format_pool_size(pool)}: {train} for train, {val} for val and {confirm or 'none'} for confirm "
        f"instead of {k}, {k} and {confirm_share * k}"
        if confirm_share
        else f"{task} has {_format_pool_size(pool)}: {train} for train and {val} for val instead of {k} and {k}"
    )
    short = len(pool) < (2 + confirm_share) * k
    return {part: tuple(variants) for part, variants in parts.items()}, note if short else None


def _share_pool(size: int, k: int, confirm_share: int) -> tuple[int, int, int]:
    """Return how many variants of a pool of this size go to `train`, `val` and `confirm`."""
    val = min(k, max(1, size // (2 + confirm_share)))
    train = min(k, max(1, (size - val) // (1 + confirm_share)))
    return train, val, min(confirm_share * k, size - train - val)


def count_confirm_variants(tasks: Iterable[str], k: int, of: Benchmark) -> int:
    """Return how many confirm variants ``K-per-task`` gives for these tasks."""
    sizes = [min(len(of.tasks.indices(task, "train")), max(SAMPLE_SIZE, (2 + CONFIRM_SHARE) * k)) for task in tasks]
    return sum(_share_pool(size, k, CONFIRM_SHARE)[2] for size in sizes if size >= 2)


def build_examples(variants: Iterable[Variant]) -> list["dspy.Example"]:
    """What an optimizer is given: the key of each variant and nothing else, so no label, length or gold path can reach
    a prompt through an example."""
    import dspy

    return [dspy.Example(variant=variant.key).with_inputs("variant") for variant in variants]


def trainset(
    benchmark: str = DEFAULT, calib: str = "1-per-task", tasks: Sequence[str] | None = None, seed: int = 0
) -> list["dspy.Example"]:
    """Variants to learn from, for any optimizer of DSPy's: ``optimizer.compile(Agent("rsso"), trainset=trainset())``.
    `calib` is as in `draw_calibration`, whose errors it raises."""
    return build_examples(draw_calibration(calib, tasks, seed, of=get_benchmark(benchmark)).train)


def valset(
    benchmark: str = DEFAULT, calib: str = "1-per-task", tasks: Sequence[str] | None = None, seed: int = 0
) -> list["dspy.Example"]:
    """Variants to choose by, none of which is in the `trainset` of the same arguments."""
    return build_examples(draw_calibration(calib, tasks, seed, of=get_benchmark(benchmark)).val)


def _draw_per_task(names: Iterable[str], k: int, seed: int, of: Benchmark, confirm_share: int) -> Calibration:
    drawn: dict[str, list[Variant]] = {part: [] for part in (*PARTS, "spare")}
    notes = []
    for task in names:
        # The ten of the reference sample come first: their gold lengths are shipped.
        pool = of.tasks.train_sample(task, max(SAMPLE_SIZE, (2 + confirm_share) * k))
        parts, note = split_pool(task, pool, k, seed, confirm_share)
        if parts and (lacking := SPARE - len(parts["spare"])) > 0:  # not part of the pool, which the draw depends on
            others = [each for each in of.tasks.train_sample(task, len(pool) + lacking) if each not in pool]
            parts["spare"] = (*parts["spare"], *others[:lacking])
        for part, variants in parts.items():
            drawn[part] += variants
        notes += [note] if note else []
    return _build_calibration(drawn, of, notes)


def _build_calibration(parts: Mapping[str, Sequence[Variant]], of: Benchmark, notes: Sequence[str] = ()) -> Calibration:
    train, val, confirm, spare = (tuple(parts.get(part, ())) for part in (*PARTS, "spare"))
    return Calibration(train, val, confirm, tuple(notes), of.name, spare)


def _load_listed_variants(text: str, names: Sequence[str], of: Benchmark) -> Calibration:
    """The variants of the named tasks that a file lists. The whole file is checked first."""
    content = _read_variant_lists(text)
    parts = {part: tuple(_parse_listed_key(key, text, of.tasks) for key in getattr(content, part)) for part in PARTS}
    if twice := [key for part in parts.values() for key, n in Counter(v.key for v in part).items() if n > 1]:
        raise UsageError(f"{text} lists {', '.join(twice)} more than once: list each variant once.")
    try:
        _build_calibration(parts, of)
    except UsageError as error:
        raise type(error)(f"{text}: {error}") from None
    held = sorted(set.intersection(*({variant.task for variant in parts[part]} for part in NEEDED)))
    kept = {part: tuple(variant for variant in listed if variant.task in names) for part, listed in parts.items()}
    if empty := [repr(part) for part in NEEDED if not kept[part]]:
        raise UsageError(
            f"{text} has no variant of {', '.join(names)} in {' and '.join(empty)}: list some there, or name other "
            f"tasks in --tasks; in both lists: {', '.join(held) or 'none'}."
        )
    lacking = () if kept["confirm"] else (f"{text} lists nothing to confirm by: what is found stays unconfirmed",)
    return _build_calibration(kept, of, lacking)


def _parse_listed_key(key: str, source: str, table: TaskTable) -> Variant:
    try:
        return table.parse(key)
    except UsageError as error:
        kind = SplitError if isinstance(error, SplitError) else UsageError
        raise kind(f"{source}: {error}") from None


class _Listed(BaseModel):
    """The form of a file that lists variants."""

    model_config = ConfigDict(extra="forbid", strict=True)
    train: list[str]
    val: list[str]
    confirm: list[str] = []


def _read_variant_lists(text: str) -> _Listed:
    try:
        content: Any = read_json(Path(text))
    except (OSError, DamagedFile) as error:
        why = error.why if isinstance(error, DamagedFile) else error.strerror
        if isinstance(error, DamagedFile) and not Path(text).is_dir():
            raise UsageError(f"{text} is not JSON ({why}): expected {_FILE_FORM}.") from None
        raise UsageError(
            f"--calib {text!r} is neither K-per-task with K from 1 (e.g. 1-per-task) nor a file that can be read "
            f"({why}) with {_FILE_FORM}."
        ) from None
    try:
        return _Listed.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        wrong = ": ".join([".".join(map(str, first["loc"])), first["msg"]]).removeprefix(": ")
        raise UsageError(f"{text} does not list calibration variants ({wrong}): expected {_FILE_FORM}.") from None


def _format_pool_size(pool: Sequence[Variant]) -> str:
    return f"{len(pool)} train variant{'' if len(pool) == 1 else 's'}"
