"""Which variants a program is compiled on: some to learn from, others to choose among candidates by.

    >>> calibration = draw_calibration("1-per-task", ["boil"], seed=0)
    >>> len(calibration.learn), len(calibration.choose)
    (1, 1)

Held-out variants are in neither, by construction: a `Calibration` that holds one cannot be made.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsso_dspy.bounds import MOST_DIGITS, MOST_PER_TASK, shorten_text
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.environments.splits import SAMPLE_SIZE, TaskTable
from rsso_dspy.errors import DamagedFile, SplitError, UsageError
from rsso_dspy.records import Variant
from rsso_dspy.safe_read import explain_unreadable, read_json

if TYPE_CHECKING:
    import dspy

PARTS = ("learn", "choose")

_PER_TASK = re.compile(r"([1-9][0-9]*)-per-task")
_FILE_FORM = '{"learn": ["task::index", ...], "choose": ["task::index", ...]}'


@dataclass(frozen=True, slots=True)
class Calibration:
    """Variants that an optimizer may play. Raises ``SplitError`` when one belongs to the test split, whatever its own
    field says, or stands in both parts, and ``UsageError`` when a part is empty."""

    learn: tuple[Variant, ...]
    """Played for feedback: traces, reflections, demonstrations."""
    choose: tuple[Variant, ...]
    """Scored to choose among candidate programs; no candidate was made from them."""
    notes: tuple[str, ...] = ()
    """Where the draw differs from what was asked for."""
    benchmark: str = DEFAULT
    """Name of the benchmark that the variants are of."""

    def __post_init__(self) -> None:
        wrong = []
        if held_out := get_benchmark(self.benchmark).select_held_out(variant.key for variant in self.variants):
            wrong.append(
                f"of the held-out test split: {', '.join(dict.fromkeys(held_out))}; take train or dev variants"
            )
        chosen = {variant.key for variant in self.choose}
        if shared := [variant.key for variant in self.learn if variant.key in chosen]:
            wrong.append(f"both in learn and in choose: {', '.join(dict.fromkeys(shared))}; leave each in one of them")
        if wrong:
            raise SplitError(f"these variants cannot calibrate: {', and '.join(wrong)}.")
        if empty := [part for part in PARTS if not getattr(self, part)]:
            raise UsageError(
                f"no calibration variants to {' and none to '.join(empty)}: both parts need at least one. "
                "Name more tasks or more variants."
            )

    @property
    def variants(self) -> tuple[Variant, ...]:
        return (*self.learn, *self.choose)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(variant.key for variant in self.variants)


def draw_calibration(
    text: str,
    names: Sequence[str] | None,
    seed: int,
    simplification: str | None = None,
    of: Benchmark | None = None,
) -> Calibration:
    """The calibration that ``text`` means, of the named tasks (all when None) of a benchmark (the default one).
    `simplification` is that of the variants, the usual one when None.

    ``K-per-task``: K training variants of each task to learn from and K others to choose by, drawn with ``seed``; fewer
    where the split has fewer, with a note. Otherwise the path of a JSON file that lists train or dev variants:
    ``{"learn": ["boil::0", ...], "choose": ["boil::14", ...]}``.

    Raises ``UnknownName`` for a task, ``SplitError`` for variants of the test split or in both parts, ``UsageError``
    for a text of neither form, a file of another form, and when nothing is left of either part.
    """
    of = of or get_benchmark()
    table = of.table
    names = tuple(dict.fromkeys(names or table.tasks()))
    for name in names:
        table.indices(name, "train")  # raises for an unknown name
    per_task = _PER_TASK.fullmatch(text)
    if per_task and (len(per_task[1]) > MOST_DIGITS or int(per_task[1]) > MOST_PER_TASK):
        raise UsageError(
            f"--calib {shorten_text(text)}: {MOST_PER_TASK:,}-per-task at most; no task has as many variants"
        )
    found = _draw_per_task(names, int(per_task[1]), seed, of) if per_task else _load_listed_variants(text, names, of)
    if simplification is None:
        return found
    learn, choose = (
        tuple(replace(variant, simplification=simplification) for variant in part)
        for part in (found.learn, found.choose)
    )
    return Calibration(learn, choose, found.notes, of.name)


def split_pool(
    task: str, pool: Sequence[Variant], k: int, seed: int
) -> tuple[tuple[Variant, ...], tuple[Variant, ...], str | None]:
    """``k`` variants of the pool to learn from, ``k`` others to choose by, and a note when the pool has fewer than
    both need: then half of it, rounded down, is to choose by. A pool of one or none gives nothing."""
    if len(pool) < 2:
        return (
            (),
            (),
            f"{task} is left out: of {_format_pool_size(pool)} none can be to learn from and another to choose by",
        )
    choose = min(k, len(pool) // 2)
    learn = min(k, len(pool) - choose)
    order = random.Random(f"{seed}/{task}").sample(pool, learn + choose)
    note = (
        f"{task} has {_format_pool_size(pool)}: {learn} to learn from and {choose} to choose by instead of {k} and {k}"
    )
    return tuple(order[:learn]), tuple(order[learn:]), note if len(pool) < 2 * k else None


def build_examples(variants: Iterable[Variant]) -> list["dspy.Example"]:
    """What an optimizer is given: the key of each variant and nothing else, so no label, length or gold path can get
    into a prompt by way of an example."""
    import dspy

    return [dspy.Example(variant=variant.key).with_inputs("variant") for variant in variants]


def _draw_per_task(names: Iterable[str], k: int, seed: int, of: Benchmark) -> Calibration:
    learn: list[Variant] = []
    choose: list[Variant] = []
    notes = []
    for task in names:
        # The ten of the reference sample as far as they go: their gold lengths are shipped.
        pool = of.table.train_sample(task, max(SAMPLE_SIZE, 2 * k))
        of_learn, of_choose, note = split_pool(task, pool, k, seed)
        learn += of_learn
        choose += of_choose
        notes += [note] if note else []
    return Calibration(tuple(learn), tuple(choose), tuple(notes), of.name)


def _load_listed_variants(text: str, names: Sequence[str], of: Benchmark) -> Calibration:
    """What a file lists, of the named tasks. The whole file is checked first."""
    content = _read_variant_lists(text)
    learn, choose = (tuple(_parse_listed_key(key, text, of.table) for key in content[part]) for part in PARTS)
    if twice := [key for part in (learn, choose) for key, n in Counter(v.key for v in part).items() if n > 1]:
        raise UsageError(f"{text} lists {', '.join(twice)} more than once: list each variant once.")
    try:
        Calibration(learn, choose, benchmark=of.name)
    except UsageError as error:
        raise type(error)(f"{text}: {error}") from None
    held = sorted({variant.task for variant in learn} & {variant.task for variant in choose})
    learn, choose = (tuple(variant for variant in part if variant.task in names) for part in (learn, choose))
    if empty := [repr(part) for part, variants in zip(PARTS, (learn, choose), strict=True) if not variants]:
        raise UsageError(
            f"{text} has no variant of {', '.join(names)} in {' and '.join(empty)}: list some there, or name other "
            f"tasks in --tasks; in both lists: {', '.join(held) or 'none'}."
        )
    return Calibration(learn, choose, benchmark=of.name)


def _parse_listed_key(key: str, source: str, table: TaskTable) -> Variant:
    try:
        return table.parse(key)
    except UsageError as error:
        kind = SplitError if isinstance(error, SplitError) else UsageError
        raise kind(f"{source}: {error}") from None


def _read_variant_lists(text: str) -> dict[str, list[str]]:
    try:
        content: Any = read_json(Path(text))
    except (OSError, DamagedFile) as error:
        why = error.why if isinstance(error, DamagedFile) else error.strerror
        if isinstance(error, DamagedFile) and not explain_unreadable(Path(text)):
            raise UsageError(f"{text} is not JSON ({why}): expected {_FILE_FORM}.") from None
        raise UsageError(
            f"--calib {text!r} is neither K-per-task with K from 1 (e.g. 1-per-task) nor a file that can be read "
            f"({why}) with {_FILE_FORM}."
        ) from None
    wrong = "no object at its top"
    if isinstance(content, dict):
        wrong = "; ".join(_list_format_errors(content))
    if wrong:
        raise UsageError(f"{text} does not list calibration variants ({wrong}): expected {_FILE_FORM}.")
    return content


def _list_format_errors(content: dict[str, Any]) -> Iterable[str]:
    for key in sorted(content.keys() - set(PARTS)):
        yield f"{key!r} is unknown"
    for part in PARTS:
        if not isinstance(entries := content.get(part), list):
            yield f"{part!r} is no list" if part in content else f"{part!r} is missing"
        elif strange := [json.dumps(entry) for entry in entries if not isinstance(entry, str)]:
            yield f"no texts in {part!r}: {', '.join(strange)}"


def _format_pool_size(pool: Sequence[Variant]) -> str:
    return f"{len(pool)} train variant{'' if len(pool) == 1 else 's'}"
