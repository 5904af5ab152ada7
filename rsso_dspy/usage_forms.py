"""How many tokens a request took, read off the usage that its server reports in a form of its own.

    read_token_counts({"prompt_tokens": 100, "completion_tokens": 12, "total_tokens": 412})
    # TokenCounts(input=100, output=312, cached=0, cache_write=0, reasoning=300)

Forms differ in the names of their counts and in what a count includes: cached tokens stand in the input or beside it,
hidden reasoning in the output, beside it, or in the total alone. Words in its name say what a count is of. Which sum of
counts is the total says what they include.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

MOST_TOKENS = 10**9  # maximum count of a usage that is believed; no model reads or writes as much in one request


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one request. What a server does not tell of its cache or of reasoning counts as none."""

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
    output, and the other way round. What is no count is taken for untold."""
    told = ToldCounts.collect(reported)
    if not told.input or (told.cache_miss and told.input < told.cached + told.cache_miss):
        told = replace(told, input=_derive_input(told))
    if told.input is None:
        output = None if told.output is None else told.list_outputs()[0]
        return TokenCounts(None, output, told.cached, told.cache_write, told.reasoning)

    sums = [_Sum(sent, written) for sent in told.list_inputs() for written in told.list_outputs()]
    fitting = [counts for counts in sums if counts.input + counts.output == told.total]
    best = fitting[0] if fitting else sums[0]

    hidden = max(0, (told.total or 0) - best.input - best.output)  # output that stands in the total alone
    is_output_known = told.output is not None or hidden or (fitting and best.output)
    if not is_output_known:
        return TokenCounts(best.input, None, told.cached, told.cache_write, told.reasoning)
    return TokenCounts(
        input=best.input,
        output=best.output + hidden,
        cached=told.cached,
        cache_write=told.cache_write,
        reasoning=told.reasoning + (hidden if told.output else 0),
    )


def write_token_counts(counts: TokenCounts) -> dict[str, Any]:
    """Return counts as a usage in OpenAI's form, which is read as the same counts; without those that are unknown."""
    input_details = {"cached_tokens": counts.cached, "cache_creation_tokens": counts.cache_write}
    output_details = {"reasoning_tokens": counts.reasoning}
    usage: dict[str, Any] = {"prompt_tokens": counts.input, "completion_tokens": counts.output}
    if counts.input is not None and counts.output is not None:
        usage["total_tokens"] = counts.input + counts.output

    known = {name: number for name, number in usage.items() if number is not None}
    return {
        **known,
        "prompt_tokens_details": input_details if any(input_details.values()) else None,
        "completion_tokens_details": output_details if counts.reasoning else None,
    }


def _derive_input(told: "ToldCounts") -> int | None:
    """Return an input that was not told, or told as 0, or as what missed the cache alone: what hit and missed it, else
    the rest of the total. It may be 0 where all that was sent stands beside it, as cached."""
    if told.cache_miss:
        return told.cached + told.cache_miss
    rest = (told.total or 0) - told.list_outputs()[0]
    if rest > 0:
        return rest
    return told.input if told.is_cache_beside and told.cached + told.cache_write else None


class _Sum(NamedTuple):
    """A reading of a usage: what it may mean by its counts."""

    input: int
    output: int


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
"""The words of a count's name, without `UNITS`. Of two that are told, the first one is read."""

UNITS = {"token", "tokens", "count", "counts", "num"}
"""Words that say that a number is one of tokens."""

CACHE_WORDS = {"cache", "cached", "caching"}
WRITE_WORDS = {"creation", "created", "write", "writes", "written"}
MISS_WORDS = {"miss", "missed", "misses", "uncached"}
REASONING_WORDS = {"reasoning", "thinking", "thought", "thoughts"}

PARTS = ("billed_units", "tokens")
"""Where the counts of a usage stand one level down; what is billed comes first."""


class _Count(NamedTuple):
    """One number of a usage."""

    words: frozenset[str]  # of its name, without `UNITS`
    number: int
    is_detail: bool  # whether it stands in the details of another count, which includes it


@dataclass(frozen=True, slots=True)
class ToldCounts:
    """The counts of a usage as its server means them. None: untold."""

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
    def collect(cls, reported: Any) -> "ToldCounts":
        usage = _find_counted_part(reported)
        counts = list(_list_counts(usage))
        unreadable = [
            _split_name(str(name)) for name, value in usage.items() if value is not None and not is_count(value)
        ]

        cache_counts = [count for count in counts if count.words & CACHE_WORDS]
        writes = [count for count in cache_counts if count.words & WRITE_WORDS]
        misses = [count for count in cache_counts if count.words & MISS_WORDS]
        reads = [count for count in cache_counts if not count.words & (WRITE_WORDS | MISS_WORDS)]
        thoughts = [count for count in counts if count.words & REASONING_WORDS]

        names = {count.words for count in counts if not count.is_detail}
        cache_names = {count.words for count in (*reads, *writes)} & names
        return cls(
            input=_find_count(counts, INPUT_NAMES),
            output=_find_count(counts, OUTPUT_NAMES),
            total=None if any(words in OUTPUT_NAMES for words in unreadable) else _find_count(counts, TOTAL_NAMES),
            cached=_take_largest(reads),
            cache_write=_take_largest(writes),
            cache_miss=_take_largest(misses),
            reasoning=_take_largest(thoughts),
            is_cache_beside={"input"} in names and any("input" in words for words in cache_names),
            is_reasoning_beside={"candidates"} in names,
        )

    def list_inputs(self) -> list[int]:
        """Return what all of the input may be, first what it is unless the total says otherwise: no less than what the
        cache had of it."""
        told, cache = self.input or 0, self.cached + self.cache_write
        inputs = [told, told + cache, told + self.cached, told + self.cache_write]
        if self.is_cache_beside:
            inputs.insert(0, told + cache)
        return [number for number in inputs if number >= cache]

    def list_outputs(self) -> list[int]:
        """Return what all of the output may be, likewise: no less than the reasoning. The last one is for clients that
        add reasoning to an output that has it."""
        told = self.output or 0
        outputs = [told, told + self.reasoning, told - self.reasoning]
        if self.is_reasoning_beside:
            outputs.insert(0, told + self.reasoning)
        return [number for number in outputs if number >= self.reasoning]


def _find_counted_part(reported: Any) -> Mapping[str, Any]:
    """Return the usage, or the part of it with the counts that are billed."""
    if hasattr(reported, "model_dump"):
        reported = reported.model_dump()
    if not isinstance(reported, Mapping):
        return {}
    for name in PARTS:
        part = reported.get(name)
        if isinstance(part, Mapping) and part:
            others = {key: value for key, value in reported.items() if key not in PARTS}
            return {**others, **part}
    return reported


def _list_counts(usage: Mapping[str, Any], is_detail: bool = False) -> Iterator[_Count]:
    for name, value in usage.items():
        words = _split_name(str(name))
        readable = value.model_dump() if hasattr(value, "model_dump") else value

        if isinstance(readable, Mapping):
            if words & {"detail", "details"} and not words & CACHE_WORDS:
                yield from _list_counts(readable, is_detail=True)
            elif words & CACHE_WORDS:  # by how long the provider keeps them
                parts = [count for count in readable.values() if is_count(count)]
                yield _Count(words, int(sum(parts)), is_detail)
        elif is_count(readable) and _is_of_tokens(str(name)):
            yield _Count(words, int(readable), is_detail)


def _find_count(counts: list[_Count], names: tuple[set[str], ...]) -> int | None:
    """Return the first count with one of these names that is not 0, else 0 if that is told."""
    told = [count.number for name in names for count in counts if count.words == name and not count.is_detail]
    return next(filter(None, told), 0) if told else None


def _take_largest(counts: list[_Count]) -> int:
    """Return the largest of counts that tell the same under several names, or a whole beside its parts."""
    return max((count.number for count in counts), default=0)


def _split_name(name: str) -> frozenset[str]:
    """Return the words of a name, ``promptTokenCount`` or ``prompt_tokens``, without `UNITS`: ``{"prompt"}``."""
    return frozenset(_list_words(name)) - UNITS


def _list_words(name: str) -> list[str]:
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|_|-", " ", name)  # at a capital letter, an underscore, a hyphen
    return spaced.lower().split()


def _is_of_tokens(name: str) -> bool:
    """Whether a number is one of tokens by its name: not of seconds, of dollars, of searches."""
    return bool(UNITS & set(_list_words(name)))


def is_count(value: Any) -> bool:
    """Whether a value can be a number of tokens."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= MOST_TOKENS and value == int(value)
