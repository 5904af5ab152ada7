"""The lines of a log, typed: what a line of each kind holds. `calls.py` and `store/unit_log.py` say how it follows from
those before it.

    entry = parse_line(b'{"read": 7, "malformed": true}')
    name_kind(entry)            # "read", the first key

A line of another form raises `WrongLine`, whose message ends a sentence: "line 7 ...".
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, InstanceOf, TypeAdapter, ValidationError
from pydantic_core import from_json
from typing_extensions import TypedDict

from rsso_dspy.bounds import MOST_COUNT, MOST_DIGITS, MOST_SECONDS, MOST_TOKENS
from rsso_dspy.files import parse_entry

EMBEDDER = "embedder"  # in the place of a role: the call is a text and its vector, float32 in hexadecimal

Entry = dict[str, Any]  # a line as data


_LOG_FILE = re.compile(r"(\d+-)?s\d+\.jsonl")


def find_logs(folder: Path) -> list[Path]:
    """The files named like a unit or training below a folder of arms; of packed ones their names unpacked."""
    names = {path.with_name(path.name.removesuffix(".gz")) for path in folder.glob("*/*/*.jsonl*")}
    return [path for path in sorted(names) if _LOG_FILE.fullmatch(path.name)]


class WrongLine(ValueError):
    """A line is none of a log, or does not follow from those before it."""


# The parts of lines.


def _check_usage(entry: Entry) -> Entry:
    """Check the counts that make the bill; whatever else a provider reports stays as it is."""
    if plain_usage(entry) != entry:
        raise ValueError("counts of tokens are whole numbers")
    return entry


def _check_answer(answer: list[Any]) -> list[Any]:
    for completion in answer:
        text = completion.get("text") if isinstance(completion, dict) else completion
        if not isinstance(text, str | None):
            raise ValueError("an answer is a list of texts")
    return answer


def _check_time(time: str) -> str:
    datetime.fromisoformat(time)
    return time


ERROR_FIELDS = ("model", "provider", "provider_code", "status", "request_id", "retry_after")
"""What is kept of a provider's error besides its kind and its message."""


def _check_error(error: Entry) -> Entry:
    if unknown := error.keys() - {"kind", "message", *ERROR_FIELDS}:
        raise ValueError(f"an error has no {', '.join(sorted(unknown))}")
    if not isinstance(error.get("kind"), str) or not isinstance(error.get("message"), str):
        raise ValueError("an error has a kind and a message")
    if any(isinstance(value, list | dict) for value in error.values()):
        raise ValueError("the fields of an error are texts and numbers")
    return error


Text = InstanceOf[str]  # a model may send half a character, which pydantic's own texts refuse
Number = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)]
UsageEntry = Annotated[dict[str, Any], AfterValidator(_check_usage)]

COUNTS = ("prompt_tokens", "completion_tokens")
DETAILS = {
    "prompt_tokens_details": ("cached_tokens", "cache_creation_tokens"),
    "completion_tokens_details": ("reasoning_tokens",),
}
"""The counts of a provider's usage entry that the bill is made of, and those inside its details."""


def plain_usage(entry: Mapping[str, Any]) -> Entry:
    """Return a provider's usage entry with nothing in place of counts that are no counts."""
    plain = dict(entry)
    for name in COUNTS:
        if name in plain:
            plain[name] = _plain_count(plain[name])
    for name, counts in DETAILS.items():
        if not plain.get(name):
            continue
        details = plain[name]
        if not isinstance(details, Mapping):
            plain[name] = None
            continue
        plain[name] = {key: _plain_count(value) if key in counts else value for key, value in details.items()}
    return plain


def _plain_count(value: Any) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_TOKENS
    return value if is_count else None


# The lines.

_STRICT = ConfigDict(strict=True, extra="forbid")

TextLine = TypedDict("TextLine", {"text": Number, "is": list[Text]})
TextLine.__pydantic_config__ = _STRICT  # type: ignore[attr-defined]


class _Request(TypedDict):
    """The first line of a call begins with its request."""

    __pydantic_config__ = _STRICT  # type: ignore[misc]
    call: Number
    trial: Annotated[int, Field(ge=0, le=MOST_COUNT)]
    attempt: Annotated[int, Field(ge=0, le=1)]
    step: Annotated[int, Field(ge=0, le=MOST_COUNT)]
    role: Text
    model: Text
    parameters: InstanceOf[dict[str, Any]]
    messages: InstanceOf[list[Any]]  # checked by `MessageChecker`


class _FailedLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    call: Number
    failed: Text  # kind of the error; empty for a shortage of this machine
    usage: list[UsageEntry]


class _ErrorLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    call: Number
    error: Annotated[dict[str, Any], AfterValidator(_check_error)]


class _AnswerLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    call: Number
    answer: Annotated[list[Any], AfterValidator(_check_answer)]
    usage: list[UsageEntry]
    served: NotRequired[Text]
    finish: NotRequired[Text]
    forms: NotRequired[list[Text]]
    undercounted: NotRequired[Literal[True]]
    cut: NotRequired[Literal[True]]
    seconds: NotRequired[Seconds]


class _VectorLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    call: Number
    answer: Annotated[list[Annotated[str, Field(pattern=r"^(?:[0-9a-f]{8})+$")]], Field(min_length=1, max_length=1)]


class _ReadLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    read: Annotated[int, Field(ge=0)]  # 0 where no model had been asked
    malformed: NotRequired[Literal[True]]
    repaired: NotRequired[Literal[True]]


class _HeadLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    unit: dict[str, Any]


class _TrialLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    trial: Number
    time: Annotated[str, AfterValidator(_check_time)]
    seconds: Seconds
    memories: dict[str, dict[str, Any]]
    unlogged: NotRequired[dict[str, dict[str, int]]]
    result: dict[str, Any]


class _VoidLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    void: Annotated[int, Field(ge=0)]
    why: Text


class _RolloutLine(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc]
    rollout: dict[str, Any]


LINES: dict[str, TypeAdapter[Any]] = {
    "text": TypeAdapter(TextLine),
    "read": TypeAdapter(_ReadLine),
    "unit": TypeAdapter(_HeadLine),
    "trial": TypeAdapter(_TrialLine),
    "void": TypeAdapter(_VoidLine),
    "rollout": TypeAdapter(_RolloutLine),
}
OUTCOMES: dict[str, TypeAdapter[Any]] = {
    "failed": TypeAdapter(_FailedLine),
    "error": TypeAdapter(_ErrorLine),
    "answer": TypeAdapter(_AnswerLine),
}
_REQUEST, _VECTOR = TypeAdapter(_Request), TypeAdapter(_VectorLine)
REQUEST = tuple(name for name in _Request.__annotations__ if name != "call")  # what only the first line of a call has


def name_kind(entry: Entry) -> str:
    return next(iter(entry), "")


def parse_line(line: bytes) -> Entry:
    """Return a line as data of its kind. Raises `WrongLine`."""
    entry = _parse_json(line)
    if not isinstance(entry, dict):
        raise WrongLine("is no JSON object")
    kind = name_kind(entry)
    try:
        if kind == "call":
            _check_call(entry)
        elif kind in LINES:
            LINES[kind].validate_python(entry)
        else:
            raise WrongLine("is of no known kind")
    except ValidationError as error:
        raise WrongLine(f"is no line of a {kind} ({describe_flaw(error)})") from None
    return entry


def _parse_json(line: bytes) -> Any:
    try:
        return from_json(line, allow_inf_nan=False)  # twice as fast as Python's own
    except ValueError:
        return parse_entry(line)  # it may hold infinity or half a character, which is no JSON to the other


def _check_call(entry: Entry) -> None:
    request = {name: value for name, value in entry.items() if name in REQUEST}
    outcome = {name: value for name, value in entry.items() if name not in REQUEST}
    if request:
        _REQUEST.validate_python({"call": entry["call"], **request})
    if request.get("role") == EMBEDDER:
        _VECTOR.validate_python(outcome)
        return
    kinds = [kind for kind in OUTCOMES if kind in outcome]
    if len(kinds) != 1:
        raise WrongLine("says neither what was answered nor how it failed, or both")
    OUTCOMES[kinds[0]].validate_python(outcome)


def describe_flaw(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


class MessageChecker:
    """Checks the messages of one log, whose later prompts repeat most of the earlier ones."""

    def __init__(self) -> None:
        self._known: set[str] = set()  # ranges that were checked: what is there once stays there

    def check(self, messages: Iterable[Any], count: int) -> None:
        """Raise `WrongLine` for what is no message, or names other lines of text than those from 1 to `count`."""
        for message in messages:
            if not isinstance(message, list) or not 2 <= len(message) <= 3:
                raise WrongLine("has a message without a role and a content")
            role, content, *extra = message
            if not isinstance(role, str) or not all(isinstance(fields, dict) for fields in extra):
                raise WrongLine("has a message whose role is no text, or whose further fields are no mapping")
            if isinstance(content, str):
                self._check_text(content, count)
            elif not (content is None and extra) and not is_list_of_parts(content):
                raise WrongLine("has a message whose content is no text")

    def _check_text(self, ranges: str, count: int) -> None:
        if ranges in self._known:
            return
        for first, last in split_ranges(ranges):
            if not 1 <= first <= last <= count:
                raise WrongLine(f"names the texts {first}-{last}, of {count} that are there")
        self._known.add(ranges)


def is_list_of_parts(content: Any) -> bool:
    """Whether this is the content of a message that holds more than text, such as a picture."""
    return isinstance(content, list) and bool(content) and all(isinstance(part, dict) for part in content)


def split_ranges(ranges: str) -> list[tuple[int, int]]:
    """Return the first and the last number of each range in ``1-9 3 12``. Raises `WrongLine`."""
    pairs = []
    for part in ranges.split(" "):
        first, dash, last = part.partition("-")
        if not (_is_number(first) and (_is_number(last) or not dash)):
            raise WrongLine("has a message that names its texts by no numbers")
        pairs.append((int(first), int(last or first)))
    return pairs


def _is_number(text: str) -> bool:
    return text.isdecimal() and text.isascii() and len(text) <= MOST_DIGITS
