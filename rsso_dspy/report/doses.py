"""What of a memory stood in prompts: how often in an arm, and beside a comparison how much of what one arm has more.

    measure_doses(react, reflexion, trials=3)       # (Dose(arm="reflexion", memory="reflections", units=13, ...),)

A memory whose text reached no prompt cannot have changed a score, whatever the scores are.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.programs.methods import get_method, load_memory
from rsso_dspy.records import TrialResult, UnitRecord, estimate_tokens
from rsso_dspy.regions import EXAMPLES, TEMPLATES

FEWEST_UNITS = 2  # in whose prompts a memory stood, below which it was not tested


@dataclass(frozen=True, slots=True)
class ShownMemory:
    """How often the text of a memory stood in the prompts of an arm."""

    memory: str  # its name, or that of the region of the prompt that it fills
    trials: int  # trials in which it stood in a prompt
    later_trials: int  # of these, those after the first trial of their unit
    steps: int  # steps whose prompt had it


@dataclass(frozen=True, slots=True)
class Dose:
    """How much of a memory stood in the prompts of the arm that has it, where the other arm lacks it."""

    arm: str
    memory: str
    units: int  # units in whose prompts a text of it stood
    compared: int  # units that are compared
    trials: int  # trials in which one stood there
    possible_trials: int  # those in which one could: the later ones, or all if it stood in first ones
    are_later: bool  # whether these are the trials after the first of their unit
    items: float | None  # items in a prompt that had any, averaged over these trials; None for a document
    tokens: float | None  # likewise, estimated from the text's length


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text of a memory, as it stood in the prompts of some steps of a trial."""

    text: str
    items: int
    steps: int


# An arm.


def count_shown_memories(scored: Sequence[UnitRecord]) -> Iterator[ShownMemory]:
    """Yield how often each memory of the units' method was shown, and what filled other regions of memories."""
    regions = _name_memory_regions(scored) if scored else {}
    for region in _list_shown_regions(scored):
        regions.setdefault(region, region)
    for region, memory in regions.items():
        steps = [[_count_steps(list_shown_texts(region, result)) for result in record.trials] for record in scored]
        trials = sum(count > 0 for counts in steps for count in counts)
        later = sum(count > 0 for counts in steps for count in counts[1:])
        yield ShownMemory(memory, trials, later, sum(map(sum, steps)))


def _name_memory_regions(records: Sequence[UnitRecord]) -> dict[str, str]:
    """Return the regions that the memories of an arm fill, each with the memory's name. Of a method that was added in
    another process, and is unknown here, those whose texts stood in prompts."""
    try:
        return {load_memory(name).region: name for name in get_method(records[0].method).memories}
    except (UnknownName, UsageError):
        return {region: region for region in _list_shown_regions(records)}


def list_memory_regions(result: TrialResult) -> list[str]:
    """Return the regions of memories whose texts stood in prompts of a trial."""
    regions = dict.fromkeys(re.split("[:@]", key)[0] for key in result.shown)
    return [region for region in regions if region not in (TEMPLATES, EXAMPLES)]


def _list_shown_regions(records: Sequence[UnitRecord]) -> list[str]:
    """Return the regions of memories whose texts stood in prompts, in order of first appearance."""
    results = (result for record in records for result in record.trials)
    return list(dict.fromkeys(region for result in results for region in list_memory_regions(result)))


def _count_steps(texts: Sequence[ShownText]) -> int:
    return sum(text.steps for text in texts)


def list_shown_texts(region: str, result: TrialResult) -> list[ShownText]:
    """Return the texts of a region that stood in a prompt of a trial, with the number of steps of each."""
    steps = result.trajectory.steps if result.trajectory else ()
    texts = [*_list_recalled_texts(region, result), *_list_standing_texts(region, result)]
    return [text for text in texts if text.steps] if steps else []


def _list_recalled_texts(region: str, result: TrialResult) -> Iterator[ShownText]:
    """Yield the texts that stood at steps which recalled their items."""
    steps = result.trajectory.steps if result.trajectory else ()
    texts = {
        tuple(key.partition(":")[2].split(",")): text
        for key, text in result.shown.items()
        if key.startswith(f"{region}:")
    }
    counts = Counter(_find_recalled(list(texts), step.recalled) for step in steps)
    for items, text in texts.items():
        yield ShownText(text, len(items), counts[items])


def _find_recalled(lists: Sequence[tuple[str, ...]], recalled: Sequence[str]) -> tuple[str, ...]:
    """Return the list of items that a step recalled, or the one that has most of them; an empty one if none has any."""
    nearest = max(lists, key=lambda items: (len({*recalled} & {*items}), -len(items)), default=())
    return nearest if {*recalled} & {*nearest} else ()


def _list_standing_texts(region: str, result: TrialResult) -> Iterator[ShownText]:
    """Yield the texts that stood from a step on: ``region`` from the first, ``region@n`` from step n."""
    steps = result.trajectory.steps if result.trajectory else ()
    texts = {1: result.shown.get(region, "")}
    for key, text in result.shown.items():
        name, _, step = key.partition("@")
        if name == region and step.isdecimal():
            texts[int(step)] = text
    for first, following in pairwise([*sorted(texts), len(steps) + 1]):
        if texts[first]:
            yield ShownText(texts[first], _count_items(texts[first]), max(0, following - first))


def _count_items(text: str) -> int:
    """Return the number of items of a list, which stand one a line, or short ones in one line."""
    return len(re.findall(r"^- ", text, re.M)) or text.count("; ") + 1


# A comparison.


def measure_doses(first: Sequence[UnitRecord], second: Sequence[UnitRecord], trials: int) -> tuple[Dose, ...]:
    """Return the dose of each memory that one arm has and the other lacks, over the units and the first trials that are
    compared. Nothing where both have the same memories, or where nothing is known of prompts."""
    if not first or not second:
        return ()
    first_regions = _name_memory_regions(first)
    second_regions = _name_memory_regions(second)
    added = [
        _measure_dose(*region, second, trials)
        for region in second_regions.items()
        if region not in first_regions.items()
    ]
    lacking = [
        _measure_dose(*region, first, trials)
        for region in first_regions.items()
        if region not in second_regions.items()
    ]
    return tuple(dose for dose in (*added, *lacking) if dose)


def _measure_dose(region: str, memory: str, records: Sequence[UnitRecord], trials: int) -> Dose | None:
    results_by_unit = [record.trials[:trials] for record in records]
    if not any(result.trajectory and result.trajectory.steps for results in results_by_unit for result in results):
        return None

    texts = [[list_shown_texts(region, result) for result in results] for results in results_by_unit]
    in_first = any(unit[:1] != [[]] for unit in texts if unit)
    are_later = trials > 1 and not in_first
    possible = [trial_texts for unit in texts for trial_texts in unit[are_later:]]
    having = [trial_texts for trial_texts in possible if trial_texts]
    is_document = any("document" in record.memories.get(memory, {}) for record in records)
    items = [[text.items for text in trial_texts] for trial_texts in having]
    tokens = [[estimate_tokens(text.text) for text in trial_texts] for trial_texts in having]
    return Dose(
        arm=records[0].arm,
        memory=memory,
        units=sum(any(unit) for unit in texts),
        compared=len(records),
        trials=len(having),
        possible_trials=len(possible),
        are_later=are_later,
        items=None if is_document else _average_per_step(having, items),
        tokens=_average_per_step(having, tokens),
    )


def _average_per_step(having: Sequence[Sequence[ShownText]], counts: Sequence[Sequence[int]]) -> float | None:
    """Return the mean over trials of the count in a prompt, averaged over the steps that had a text."""
    means = [
        sum(text.steps * count for text, count in zip(trial_texts, counted, strict=True)) / _count_steps(trial_texts)
        for trial_texts, counted in zip(having, counts, strict=True)
    ]
    return fmean(means) if means else None


def is_untested(doses: Sequence[Dose]) -> bool:
    """Whether the arms differ in memories of which none stood in the prompts of `FEWEST_UNITS` units."""
    return bool(doses) and all(dose.units < FEWEST_UNITS for dose in doses)


def describe_dose(dose: Dose) -> str:
    later = "later " if dose.are_later else ""
    return f"{dose.memory} shown in {dose.trials:,} of {dose.possible_trials:,} {later}trials"


def describe_doses(doses: Sequence[Dose]) -> str:
    return ", ".join(map(describe_dose, doses))
