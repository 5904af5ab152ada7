"""How many tokens a request took, read off the usage that its server reports in a form of its own.

    read_token_counts({"prompt_tokens": 100, "completion_tokens": 12, "total_tokens": 412})
    # TokenCounts(input=100, output=312, cached=0, cache_write=0, reasoning=300)

Forms differ in the names of their counts and in what a count includes: cached tokens stand in the input or beside it,
hidden reasoning in the output, beside it, or in the total alone. Words in its name say what a count is of. Which sum of
counts is the total says what they include.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

MOST_TOKENS = 10**9  # maximum count of a usage that is believed; no model reads or writes as much in one request


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one request. Where a server says nothing of its cache or of reasoning, there were none."""

    input: int | None  # including `cached` and `cache_write`; None if unknown
    output: int | None  # including `reasoning`; None if unknown
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def are_metered(self) -> bool:
        """Whether a bill can be made of them. No request is without input."""
        return bool(self.input) and self.output is not None


def read_token_counts(reported: Any) -> TokenCounts:
    """Return the counts of a usage in any form. Where the input is missing it is what the total leaves beside the
    output, and the other way round. What is no count is taken for missing."""
    usage = ReportedUsage.collect(reported)
    is_input_short = usage.cache_miss > 0 and (usage.input or 0) < usage.cached + usage.cache_miss
    if not usage.input or is_input_short:
        usage = replace(usage, input=_derive_input(usage))
    if usage.input is None:
        output = None if usage.output is None else usage.list_outputs()[0]
        return TokenCounts(None, output, usage.cached, usage.cache_write, usage.reasoning)

    reading = _choose_reading(usage)
    hidden = max(0, (usage.total or 0) - reading.input - reading.output)  # output that stands in the total alone
    if usage.output is None:
        is_known = hidden > 0 or (reading.output > 0 and reading.input + reading.output == usage.total)
        hidden_reasoning = 0
    else:
        is_known = True
        hidden_reasoning = hidden if usage.output else 0

    return TokenCounts(
        input=reading.input,
        output=reading.output + hidden if is_known else None,
        cached=usage.cached,
        cache_write=usage.cache_write,
        reasoning=usage.reasoning + hidden_reasoning,
    )


def write_token_counts(counts: TokenCounts) -> dict[str, Any]:
    """Return counts as a usage in OpenAI's form, which is read as the same counts; without those that are unknown."""
    usage: dict[str, Any] = {}
    if counts.input is not None:
        usage["prompt_tokens"] = counts.input
    if counts.output is not None:
        usage["completion_tokens"] = counts.output
    if counts.input is not None and counts.output is not None:
        usage["total_tokens"] = counts.input + counts.output

    usage["prompt_tokens_details"] = None
    if counts.cached or counts.cache_write:
        usage["prompt_tokens_details"] = {
            "cached_tokens": counts.cached,
            "cache_creation_tokens": counts.cache_write,
        }
    usage["completion_tokens_details"] = None
    if counts.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
    return usage


class _Reading(NamedTuple):
    """What the counts of a usage may mean: all of the input, all of the output."""

    input: int
    output: int


def _choose_reading(usage: "ReportedUsage") -> _Reading:
    """Return the first reading whose sum is the total, else the one that holds without a total."""
    readings = []
    for whole_input in usage.list_inputs():
        for whole_output in usage.list_outputs():
            readings.append(_Reading(whole_input, whole_output))

    for reading in readings:
        if reading.input + reading.output == usage.total:
            return reading
    return readings[0]


def _derive_input(usage: "ReportedUsage") -> int | None:
    """Return an input that is missing, or 0, or what missed the cache alone: what hit and missed it, else the rest of
    the total. It may be 0 where all that was sent stands beside it, as cached."""
    if usage.cache_miss:
        return usage.cached + usage.cache_miss

    rest = (usage.total or 0) - usage.list_outputs()[0]
    if rest > 0:
        return rest
    is_all_cached = usage.is_cache_beside and usage.cached + usage.cache_write > 0
    return usage.input if is_all_cached else None


# What a usage tells.

INPUT_NAMES = ({"prompt"}, {"input"}, {"prompt", "eval"}, {"native", "prompt"})
OUTPUT_NAMES = (
    {"completion"},
    {"output"},
    {"candidates"},
    {"response"},
    {"generated"},
    {"eval"},
    {"native", "completion"},
)
TOTAL_NAMES = ({"total"},)
"""The words of a count's name, without `UNITS`. Of several that are there, the first is read."""

UNITS = {"token", "tokens", "count", "counts", "num"}
"""Words that say that a number is one of tokens: not of seconds, of dollars, of searches."""

CACHE_WORDS = {"cache", "cached", "caching"}
WRITE_WORDS = {"creation", "created", "write", "writes", "written"}
MISS_WORDS = {"miss", "missed", "misses", "uncached"}
REASONING_WORDS = {"reasoning", "thinking", "thought", "thoughts"}
DETAIL_WORDS = {"detail", "details"}

NESTED = ("billed_units", "tokens")
"""Where the counts of a usage may stand one level down; what is billed comes first."""

Words = frozenset[str]


class _Count(NamedTuple):
    """One number of a usage."""

    words: Words  # of its name, without `UNITS`
    number: int
    is_detail: bool  # whether it stands in the details of another count

    @property
    def is_cache_write(self) -> bool:
        return bool(self.words & CACHE_WORDS and self.words & WRITE_WORDS)

    @property
    def is_cache_miss(self) -> bool:
        return bool(self.words & CACHE_WORDS and self.words & MISS_WORDS)

    @property
    def is_cache_read(self) -> bool:
        return bool(self.words & CACHE_WORDS) and not self.is_cache_write and not self.is_cache_miss

    @property
    def is_reasoning(self) -> bool:
        return bool(self.words & REASONING_WORDS)


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """The counts of a usage as its server means them. None: missing."""

    input: int | None
    output: int | None
    total: int | None
    cached: int
    cache_write: int
    cache_miss: int
    reasoning: int
    is_cache_beside: bool  # whether the form counts cached tokens beside the input, as Anthropic's does
    is_reasoning_beside: bool  # whether the form counts reasoning beside the output, as Gemini's does

    @classmethod
    def collect(cls, reported: Any) -> "ReportedUsage":
        usage = _find_counted_part(reported)
        counts = list(_list_counts(usage))
        names = {count.words for count in counts if not count.is_detail}

        total = _find_count(counts, TOTAL_NAMES)
        if _has_unreadable_output(usage):
            total = None  # nothing may be derived from it

        is_cache_beside = False
        for count in counts:
            is_of_cache = count.is_cache_read or count.is_cache_write
            if is_of_cache and not count.is_detail and "input" in count.words:
                is_cache_beside = {"input"} in names

        return cls(
            input=_find_count(counts, INPUT_NAMES),
            output=_find_count(counts, OUTPUT_NAMES),
            total=total,
            cached=_find_largest(count.number for count in counts if count.is_cache_read),
            cache_write=_find_largest(count.number for count in counts if count.is_cache_write),
            cache_miss=_find_largest(count.number for count in counts if count.is_cache_miss),
            reasoning=_find_largest(count.number for count in counts if count.is_reasoning),
            is_cache_beside=is_cache_beside,
            is_reasoning_beside={"candidates"} in names,
        )

    def list_inputs(self) -> list[int]:
        """Return what all of the input may be, first what it is unless the total says otherwise: no less than what the
        cache had of it."""
        plain = self.input or 0
        cache = self.cached + self.cache_write

        inputs = [
            plain,  # has all that the cache read and wrote
            plain + cache,  # has nothing of it
            plain + self.cached,  # has what was written alone
            plain + self.cache_write,  # has what was read alone
        ]
        if self.is_cache_beside:
            inputs.insert(0, plain + cache)
        return [number for number in inputs if number >= cache]

    def list_outputs(self) -> list[int]:
        """Return what all of the output may be, likewise: no less than the reasoning."""
        plain = self.output or 0

        outputs = [
            plain,  # has the reasoning
            plain + self.reasoning,  # has it not
            plain - self.reasoning,  # has it twice: a client added it to an output that had it
        ]
        if self.is_reasoning_beside:
            outputs.insert(0, plain + self.reasoning)
        return [number for number in outputs if number >= self.reasoning]


def _find_counted_part(reported: Any) -> Mapping[str, Any]:
    """Return the usage, or the part of it with the counts that are billed."""
    usage = _dump_model(reported)
    if not isinstance(usage, Mapping):
        return {}

    for name in NESTED:
        part = usage.get(name)
        if isinstance(part, Mapping) and part:
            rest = {key: value for key, value in usage.items() if key not in NESTED}
            return {**rest, **part}
    return usage


def _dump_model(value: Any) -> Any:
    """Return the data of a client's object; data as they are."""
    return value.model_dump() if hasattr(value, "model_dump") else value


def _list_counts(usage: Mapping[str, Any], is_detail: bool = False) -> Iterator[_Count]:
    """List the counts of a usage, and those in the details of its counts."""
    for name, reported in usage.items():
        words = _split_name(name)
        value = _dump_model(reported)

        if isinstance(value, Mapping) and words & CACHE_WORDS:
            yield _Count(words, _sum_counts(value), is_detail)  # in parts, by how long the provider keeps them
        elif isinstance(value, Mapping) and words & DETAIL_WORDS:
            yield from _list_counts(value, is_detail=True)
        elif is_count(value) and words & UNITS:
            yield _Count(words - UNITS, int(value), is_detail)


def _sum_counts(parts: Mapping[str, Any]) -> int:
    return int(sum(number for number in parts.values() if is_count(number)))


def _has_unreadable_output(usage: Mapping[str, Any]) -> bool:
    outputs = [value for name, value in usage.items() if is_output_name(name)]
    return any(value is not None and not is_count(value) for value in outputs)


def is_output_name(name: object) -> bool:
    return _split_name(name) - UNITS in OUTPUT_NAMES


def is_total_name(name: object) -> bool:
    return _split_name(name) - UNITS in TOTAL_NAMES


def _find_count(counts: list[_Count], names: tuple[set[str], ...]) -> int | None:
    """Return the first count with one of these names that is not 0; 0 if there are only such; None if there is none."""
    number = None
    for name in names:
        for count in counts:
            if count.words == name and not count.is_detail:
                number = number or count.number
    return number


def _find_largest(numbers: Iterable[int]) -> int:
    """Return the largest of numbers that tell the same under several names, or a whole beside its parts."""
    return max(numbers, default=0)


def _split_name(name: object) -> Words:
    """Return the words of a name, ``promptTokenCount`` or ``prompt_tokens``: ``{"prompt", "tokens"}``."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|_|-", " ", str(name))  # at a capital letter, an underscore, a hyphen
    return frozenset(spaced.lower().split())


def is_count(value: Any) -> bool:
    """Whether a value can be a number of tokens."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MOST_TOKENS and value == int(value)
