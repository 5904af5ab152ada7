r"""What servers send, taken where it comes in: before the clients of DSPy and LiteLLM make something else of it.

    find_missing_answer({"detail": "upstream timed out"})       # "upstream timed out"
    make_writable("half an emoji: \ud83d")                      # "half an emoji: ?"

Clients read an error that comes with status 200 as an empty answer, and take `true` for one token.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from pydantic import BaseModel

from rsso_dspy.records import drop_unreadable_counts, read_usage
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

WORDS = ("error", "detail", "message", "errors", "msg", "reason", "title")
"""Where servers say why there is no answer, in the order in which they are looked at."""

ANSWERS = (
    "choices", "content", "output", "output_text", "candidates",
    "message", "response", "text", "generations", "results", "outputs", "completion",
)  # fmt: skip
"""Where an answer stands in the formats of providers: first those that DSPy's own client reads, then others'."""

ENDINGS = ("stop_reason", "status", "promptFeedback")
"""What tells an answer without content, which is the model's, from a response without an answer."""


def find_missing_answer(body: Any, is_empty: bool = True) -> str | None:
    """Return what a server says in place of an answer, redacted, from the body of a response whose status is a success;
    None if it holds an answer of the model, an empty one too. `is_empty` says whether the client found no text in it:
    formats that are not known here are left to their client."""
    if not isinstance(body, Mapping):
        return f"the response is no object: {_write_words(body)}"
    if body.get("error") or body.get("type") == "error":
        return _quote_server(body)
    if "choices" in body:
        return _find_missing_choice(body)
    if is_empty and not _holds_answer(body):
        return _quote_server(body)
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
        has_message = isinstance(choice.get("message"), Mapping) and bool(choice["message"])
        if not has_message and not isinstance(choice.get("text"), str):
            return _quote_server(body)
    return None


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


def _quote_server(body: Mapping[str, Any]) -> str:
    """Return what a server says in place of an answer: its words, else the names in its response."""
    for name in WORDS:
        value = body.get(name)
        if name == "message" and isinstance(value, Mapping):
            continue  # of the model
        if isinstance(value, Mapping):
            value = value.get("message") or value.get("detail") or value
        if value:
            return _write_words(value)
    names = ", ".join(map(str, body)) or "nothing"
    return _write_words(f"no choice in the response, which holds {names}")


def _write_words(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return redact(" ".join(make_encodable(text).split()))[:LONGEST_WORDS]


# Clients.

ENDPOINTS = ("completions", "messages", "responses")
"""How addresses end at which models answer, in the formats that are known here; LiteLLM fetches tokens at others."""
CHAT_COUNTS = {"prompt_tokens", "completion_tokens", "total_tokens"}
"""Counts of a usage in OpenAI's format."""


def tell_native_bodies(take_body: TakeBody) -> None:
    """Have DSPy's own client hand over the body of every response before it reads it."""
    http_response: Any = import_module("dspy._vendor.lm15.providers.base").HttpResponse
    parse_body = http_response.json

    def parse_and_tell(response: Any) -> Any:
        return take_body(parse_body(response))

    http_response.json = parse_and_tell


def tell_http_bodies(client: Any, take_body: TakeBody) -> None:
    """Have an HTTP client of LiteLLM (httpx) hand over the body of every answer before LiteLLM reads it."""

    def read_and_tell(response: Any) -> None:
        is_answer = response.request.url.path.rstrip("/").endswith(ENDPOINTS) and response.status_code < 400
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        if is_stream or not is_answer:
            return

        try:
            body = json.loads(response.read())
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

    is_plain = (usage.get("prompt_tokens"), usage.get("completion_tokens")) == (best.input, best.output)
    if best == counts and (is_plain or not best.are_metered):
        return usage
    return write_token_counts(best)
