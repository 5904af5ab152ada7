r"""What servers send, taken where it comes in: before the clients of DSPy and LiteLLM make something else of it.

    find_missing_answer({"detail": "upstream timed out"})       # MissingAnswer("upstream timed out")
    read_error_response(400, '{"detail": "no such role"}')      # ErrorResponse(400, "no such role")
    make_writable("half an emoji: \ud83d")                      # "half an emoji: ?"

Clients read an error that comes with status 200 as an empty answer, and take `true` for one token.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from pydantic import BaseModel

from rsso_dspy.records import drop_unreadable_counts, read_logged_usage, read_usage
from rsso_dspy.redact import redact
from rsso_dspy.usage_forms import read_token_counts, write_token_counts

TakeBody = Callable[[Any], Any]
"""Takes the body of a response, as data, and returns it as the client is to read it."""

# What no file can hold.


def make_writable(value: Any) -> Any:
    """Return data without what no UTF-8 file and no JSON can hold, at any depth and in names too: half characters (lone
    surrogates) become "?", numbers that are none (NaN) become None. What is sound is returned as it is."""
    return _convert(value, _make_part_writable)


def make_encodable(value: Any) -> Any:
    """Return data with its half characters replaced, as `make_writable`; numbers stay what they are."""
    return _convert(value, _make_part_encodable)


def _make_part_writable(part: Any) -> Any:
    is_no_number = isinstance(part, float) and math.isnan(part)
    return None if is_no_number else _make_part_encodable(part)


def _make_part_encodable(part: Any) -> Any:
    if not isinstance(part, str):
        return part
    try:
        part.encode("utf-8")
    except UnicodeEncodeError:
        return part.encode("utf-8", "replace").decode("utf-8")
    return part


Convert = Callable[[Any], Any]


def _convert(value: Any, convert: Convert) -> Any:
    """Apply a conversion to every text and number in data; data in which nothing changes is returned as it is."""
    if isinstance(value, BaseModel):
        fields = dict(value)
        converted = _convert_mapping(fields, convert)
        return value if converted is fields else value.model_copy(update=converted)
    if isinstance(value, dict):
        return _convert_mapping(value, convert)
    if isinstance(value, list | tuple):
        return _convert_sequence(value, convert)
    return convert(value)


def _convert_mapping(mapping: dict[Any, Any], convert: Convert) -> dict[Any, Any]:
    converted = {convert(name): _convert(value, convert) for name, value in mapping.items()}
    is_same = all(name in mapping and mapping[name] is value for name, value in converted.items())
    return mapping if is_same and len(converted) == len(mapping) else type(mapping)(converted)


def _convert_sequence(sequence: list[Any] | tuple[Any, ...], convert: Convert) -> list[Any] | tuple[Any, ...]:
    converted = [_convert(value, convert) for value in sequence]
    if all(new is old for new, old in zip(converted, sequence, strict=True)):
        return sequence
    return converted if isinstance(sequence, list) else tuple(converted)


# Responses without an answer.

LONGEST_WORDS = 500  # maximum characters that are kept of what a server says in place of an answer

WORDS = ("error", "detail", "message", "errors", "msg", "reason", "title", "error_message", "description")
"""Where servers say why there is no answer, in the order in which they are looked at."""

FILTER_RESULTS = "content_filter_results"  # where Azure says what its filter found

ANSWERS = (
    "choices", "content", "output", "output_text", "candidates",
    "message", "response", "text", "generations", "results", "outputs", "completion",
)  # fmt: skip
"""Where an answer stands in the formats of providers: first those that DSPy's own client reads, then others'."""

ENDINGS = ("stop_reason", "status", "promptFeedback")
"""What tells an answer without content, which is the model's, from a response without an answer."""

FILTERS = (
    "content_filter", "content_filtered", "guardrail_intervened",
    "safety", "image_safety", "recitation", "blocklist", "prohibited_content", "spii",
)  # fmt: skip
"""Reasons for which an answer ends where the provider's filter of contents withheld it. A refusal in words, whatever
its reason is called, is the model's answer."""


class MissingAnswer(NamedTuple):
    """Why a response whose status is a success holds no answer of the model."""

    words: str  # the server's, redacted
    is_filtered: bool = False  # whether the provider's filter withheld the answer, as it would again


def find_missing_answer(body: Any, is_empty: bool = True) -> MissingAnswer | None:
    """Return why a response holds no answer, from its body; None if it holds one of the model, an empty one too.
    `is_empty` says whether the client found no text in it: formats that are not known here are left to their client."""
    if not isinstance(body, Mapping):
        return MissingAnswer(f"the response is no object: {_shorten_words(body)}")
    if body.get("error") or body.get("type") == "error":
        return MissingAnswer(_quote_server(body))
    reason = _find_filter(body)
    if reason:
        return MissingAnswer(_shorten_words(_tell_filter(reason, _find_filter_words(body))), is_filtered=True)
    if "choices" in body:
        words = _find_missing_choice(body)
        return None if words is None else MissingAnswer(words)
    if is_empty and not _holds_answer(body):
        return MissingAnswer(_quote_server(body))
    return None


def _find_missing_choice(body: Mapping[str, Any]) -> str | None:
    choices = body["choices"]
    if not isinstance(choices, list) or not choices:
        return _quote_server(body)
    for choice in choices:
        if not isinstance(choice, Mapping):
            return _quote_server(body)
        if choice.get("error") or choice.get("finish_reason") == "error":
            return _quote_server(choice)
        message = choice.get("message")
        if isinstance(message, Mapping) and message:
            if not _says_something(message) and not _counts_tokens(body.get("usage")):
                return "an empty message, for which no token was counted"
        elif not isinstance(choice.get("text"), str):
            return _quote_server(body)
    return None


def _says_something(message: Mapping[str, Any]) -> bool:
    """Whether a message of a model holds anything, be it an empty text; null, or no part, is nothing."""
    return any(value not in (None, []) for name, value in message.items() if name != "role")


def _counts_tokens(usage: Any) -> bool:
    if not isinstance(usage, Mapping):
        return False
    return any(value for name, value in usage.items() if str(name).endswith("tokens"))


def _holds_answer(body: Mapping[str, Any]) -> bool:
    """Whether one of the places for answers is there, and filled, or empty because the model ended so."""
    has_ended = any(body.get(name) for name in ENDINGS)
    for name in ANSWERS:
        if name not in body:
            continue
        if name == "message" and not isinstance(body[name], Mapping):
            continue  # the server's words
        if body[name] or has_ended:
            return True
    return bool(body.get("promptFeedback"))


# Why an answer ended.


def list_endings(body: Any) -> list[str]:
    """Return why the answers in a body ended, in the provider's words, one for each: ``stop``, ``length``,
    ``end_turn``."""
    if not isinstance(body, Mapping):
        return []
    incomplete = body.get("incomplete_details")
    endings = [
        *(choice.get("finish_reason") for choice in _list_mappings(body.get("choices"))),
        *(candidate.get("finishReason") for candidate in _list_mappings(body.get("candidates"))),
        body.get("stop_reason"),
        body.get("stopReason"),
        body.get("done_reason"),
        incomplete.get("reason") if isinstance(incomplete, Mapping) else None,
    ]
    return [ending for ending in endings if isinstance(ending, str) and ending]


def _list_mappings(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _find_filter(body: Mapping[str, Any]) -> str:
    """Return the reason for which a filter withheld an answer; an empty text if none did."""
    feedback = body.get("promptFeedback")
    blocked = feedback.get("blockReason") if isinstance(feedback, Mapping) else None
    if blocked:
        return _shorten_words(blocked)
    for ending in list_endings(body):
        reason, _, _ = ending.lower().partition(":")  # also "content_filter: RECITATION"
        if reason.strip() in FILTERS:
            return _shorten_words(ending)
    return ""


def _tell_filter(reason: str, words: str) -> str:
    """Say that a filter withheld an answer, in its own words where it has any."""
    sentence = f"the provider's filter of contents withheld it ({reason})"
    return f"{sentence}: {words}" if words else sentence


def _find_filter_words(body: Mapping[str, Any]) -> str:
    """Return what the filter says of the answers that it withheld, where it says more than its reason."""
    results = [choice.get(FILTER_RESULTS) for choice in _list_mappings(body.get("choices"))]
    return "; ".join(filter(None, map(_find_words, results)))


# The words of a server.


class ErrorResponse(NamedTuple):
    """A response whose status is an error."""

    status: int
    words: str  # the server's, redacted; empty where it said nothing


def read_error_response(status: int, text: str) -> ErrorResponse:
    """Return what a server says in the body of an error, in whatever form it says it."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        without_marks = re.sub(r"(?is)<(style|script)\b.*?</\1>|<[^<>]*>", " ", text)
        return ErrorResponse(status, _shorten_words(without_marks))
    words = _find_words(body)
    if isinstance(body, Mapping) and (reason := _find_filter(body)):
        words = _tell_filter(reason, words)
    return ErrorResponse(status, _shorten_words(words))


def _quote_server(body: Mapping[str, Any]) -> str:
    """Return what a server says in place of an answer: its words, else the names in its response."""
    names = ", ".join(map(str, body)) or "nothing"
    return _shorten_words(_find_words(body) or f"no choice in the response, which holds {names}")


def _find_words(value: Any) -> str:
    """Return what a server says in a part of its response; an empty text if it says nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(filter(None, map(_find_words, value)))
    if not isinstance(value, Mapping):
        return ""

    for name in WORDS:
        part = value.get(name)
        is_the_models = name == "message" and isinstance(part, Mapping)
        words = "" if is_the_models else _find_words(part)
        if words:
            return words + _locate(value)
        if name == "error" and part and not is_the_models:
            return json.dumps(part, default=str)
    return _find_words(value.get(FILTER_RESULTS)) or _find_words(_list_mappings(value.get("choices")))


def _locate(value: Mapping[str, Any]) -> str:
    """Return where in a request a validator found an error (``loc`` of FastAPI)."""
    place = value.get("loc")
    return f" ({'.'.join(map(str, place))})" if isinstance(place, list) and place else ""


def _shorten_words(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return redact(" ".join(make_encodable(text).split()))[:LONGEST_WORDS]


# Answers in parts.


def join_parts(body: Any) -> Any:
    """Return a body whose answers are one text each: the parts of a content are joined, those of a thought apart, and
    what the model said in its ``refusal`` is its text. A body in which nothing changes is returned as it is."""
    if not isinstance(body, Mapping) or not isinstance(body.get("choices"), list):
        return body
    choices = [_join_choice(choice) for choice in body["choices"]]
    is_same = all(new is old for new, old in zip(choices, body["choices"], strict=True))
    return body if is_same else {**body, "choices": choices}


def _join_choice(choice: Any) -> Any:
    message = choice.get("message") if isinstance(choice, Mapping) else None
    if not isinstance(message, Mapping):
        return choice
    content = message.get("content")
    refusal = message.get("refusal")
    changed: dict[str, Any] = {}
    if isinstance(content, list):
        content = "".join(_read_parts(content, is_thought=False))
        thought = "".join(_read_parts(message["content"], is_thought=True))
        changed["content"] = content or None
        if thought and not message.get("reasoning_content"):
            changed["reasoning_content"] = thought
    if not content and isinstance(refusal, str) and refusal.strip():
        changed["content"] = refusal
    return {**choice, "message": {**message, **changed}} if changed else choice


THOUGHTS = ("thinking", "reasoning")  # types of parts that hold a thought


def _read_parts(parts: list[Any], is_thought: bool) -> Iterator[str]:
    """Yield the texts of a content's parts that are, or are not, of a thought."""
    for part in parts:
        if isinstance(part, str):
            text = part
            of_a_thought = False
        elif isinstance(part, Mapping):
            of_a_thought = part.get("type") in THOUGHTS
            text = part.get("text") or next((part[name] for name in THOUGHTS if part.get(name)), "")
        else:
            continue
        if of_a_thought != is_thought:
            continue
        if isinstance(text, list):
            yield from _read_parts(text, is_thought=False)
        elif isinstance(text, str):
            yield text


# Clients.

TakeError = Callable[[ErrorResponse], None]

ENDPOINTS = ("completions", "messages", "responses", ":generateContent", "/converse", "/api/chat", "/api/generate")
"""How addresses end at which models answer, in the formats that are known here; LiteLLM fetches tokens at others."""
CHAT_COUNTS = {"prompt_tokens", "completion_tokens", "total_tokens"}
"""Counts of a usage in OpenAI's format."""


def tell_native_bodies(take_body: TakeBody, take_error: TakeError) -> None:
    """Have DSPy's own client hand over the body of every answer before it reads it, and what errors say."""
    http_response: Any = import_module("dspy._vendor.lm15.providers.base").HttpResponse
    parse_body, read_text = http_response.json, http_response.text

    def parse_and_tell(response: Any) -> Any:
        return take_body(parse_body(response))

    def read_and_tell(response: Any) -> str:
        text: str = read_text(response)
        if response.status >= 400:
            take_error(read_error_response(response.status, text))
        return text

    http_response.json = parse_and_tell
    http_response.text = read_and_tell


def tell_http_bodies(client: Any, take_body: TakeBody, take_error: TakeError) -> None:
    """Have an HTTP client of LiteLLM (httpx) hand over the body of every answer before LiteLLM reads it, and what
    errors say."""

    def read_and_tell(response: Any) -> None:
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if is_stream or not response.request.url.path.rstrip("/").endswith(ENDPOINTS):
            return

        content = response.read()
        if response.status_code >= 400:
            take_error(read_error_response(response.status_code, content.decode(errors="replace")))
            return
        try:
            body = json.loads(content)
        except (ValueError, RecursionError):
            return

        changed = _take_out_partial_usage(take_body(body))
        if changed is not body:
            response._content = json.dumps(changed).encode()

    client.event_hooks["response"].append(read_and_tell)


def _take_out_partial_usage(body: Any) -> Any:
    """Return the body without a usage in which a count is missing: LiteLLM would read it as 0."""
    usage = body.get("usage") if isinstance(body, Mapping) else None
    if isinstance(usage, Mapping) and CHAT_COUNTS & usage.keys() and read_usage(usage).unmetered:
        return {**body, "usage": {}}
    return body


def drop_unreadable_usage(body: Any) -> Any:
    """Return the body of a response with only such counts of its usage as can be read; the same where all can."""
    if not isinstance(body, Mapping) or body.get("usage") is None:
        return body
    usage = drop_unreadable_counts(body["usage"])
    return body if usage == body["usage"] else {**body, "usage": usage}


# What an answer took.

USAGES = ("usage", "usageMetadata", "usage_metadata", "meta")
"""Where the usage stands in the body of a response: OpenAI's and Anthropic's format, Gemini's, Cohere's first one."""


OLLAMA_COUNTS = ("prompt_eval_count", "eval_count")
"""Counts at the top of a body, in Ollama's own format."""


def read_body_usage(body: Any) -> dict[str, Any]:
    """Return what the body of a response says of its tokens, in whatever form, under OpenAI's names. Empty where it
    says nothing."""
    if not isinstance(body, Mapping):
        return {}
    reported = next((body[name] for name in USAGES if isinstance(body.get(name), Mapping) and body[name]), None)
    if reported is None and isinstance(body.get("x_groq"), Mapping):
        reported = body["x_groq"].get("usage")
    if not isinstance(reported, Mapping):
        reported = {name: value for name, value in body.items() if name in OLLAMA_COUNTS}

    counts = read_token_counts({**_read_timings(body.get("timings")), **reported})
    return write_token_counts(counts) if counts.input or counts.output else {}


def _read_timings(timings: Any) -> dict[str, Any]:
    """Return what llama.cpp tells beside the usage: how many tokens its cache had, how many it lacked."""
    if not isinstance(timings, Mapping) or timings.get("cache_n") is None:
        return {}
    return {
        "cache_hit_tokens": timings["cache_n"],
        "cache_miss_tokens": timings.get("prompt_n"),
        "completion_tokens": timings.get("predicted_n"),
    }


def choose_usage(reported: Any, bodies: Sequence[Any]) -> dict[str, Any]:
    """Return the usage of a request: what its client reported, or the body of its one response where that tells another
    bill. Clients lose counts that stand in other places than they expect, and some add reasoning a second time."""
    usage = drop_unreadable_counts(reported)
    counts = read_token_counts(usage)

    best = counts
    body_usage = read_body_usage(bodies[0]) if len(bodies) == 1 else {}
    if body_usage:
        body_counts = read_token_counts(body_usage)
        if body_counts.are_metered or not counts.are_metered:
            best = body_counts

    is_logged_alike = read_logged_usage(usage) == read_usage(usage)
    return usage if best == counts and is_logged_alike else write_token_counts(best)
