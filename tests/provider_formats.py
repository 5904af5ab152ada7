"""The wire formats that providers speak: what a request must look like, and what an answer and an error look like.

    FORMATS["/v1/messages"].flaw(headers, body)     # what is wrong with a request, or None

`WIRES` lists the providers that tests go through: a model name, the format behind it, and which engine takes it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

Body = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """An answer in no format. `input` counts all tokens sent, those read from and written to a cache among them."""

    text: str
    input: int = 11
    output: int = 7
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    ending: str = "stop"
    """``stop``, ``length`` (cut off), ``refused`` (by the model) or ``filtered`` (by the provider)."""


@dataclass(frozen=True)
class Format:
    """One wire format."""

    name: str
    system: str
    """Where the system text stands: a ``message`` or a ``field`` of the body."""
    limits: tuple[str, ...]
    """Names under which the format takes the longest answer."""
    key: Callable[[Mapping[str, str]], str]
    """The key in the headers, which are in lower case."""
    answer: Callable[[Said], Body]

    def flaw(self, headers: Mapping[str, str], body: Any) -> str | None:
        """What a strict server would refuse, in words; None for a sound request."""
        if not isinstance(body, dict):
            return "the body is not an object"
        checks = [
            (headers.get("content-type", "").startswith("application/json"), "content-type: application/json expected"),
            (bool(self.key(headers)), "no key in the headers"),
            (self.system == "message" or "anthropic-version" in headers, "anthropic-version: header is required"),
            (isinstance(body.get("model"), str) and body["model"], "model: a name is required"),
            (not body.get("stream"), "stream: nobody asked for it"),
            (_number(body.get("temperature", 0.0), float), "temperature: a number is required"),
            (self.has_sound_limit(body), f"{' or '.join(self.limits)}: exactly one positive integer is required"),
        ]
        return next((words for holds, words in checks if not holds), None) or self._flaw_of_messages(body)

    def _flaw_of_messages(self, body: Body) -> str | None:
        messages = body.get("messages")
        if not isinstance(messages, list) or not all(isinstance(each, dict) for each in messages):
            return "messages: a list of messages is required"
        roles = [each.get("role") for each in messages]
        if self.system == "field":
            if not isinstance(body.get("system", ""), str | list):
                return "system: text is required"
            roles = [role for role, _ in groupby(roles)]  # turns of one side that follow each other are one
        elif roles[:1] == ["system"]:
            roles = roles[1:]
        if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
            return f"messages: roles must alternate, from user to user, and are {roles}"
        if not all(text_of(each.get("content")).strip() for each in messages):
            return "messages: text is required in each"
        return None

    def has_sound_limit(self, body: Body) -> bool:
        """Whether the longest answer is said once, or left to a server that can do without."""
        is_said = any(name in body for name in self.limits)
        return self.longest(body) is not None if is_said or self.system == "field" else True

    def longest(self, body: Body) -> int | None:
        """The longest answer asked for, in tokens."""
        given = [body[name] for name in self.limits if name in body]
        return given[0] if len(given) == 1 and _number(given[0], int) and given[0] > 0 else None

    def split(self, body: Body) -> tuple[str, str]:
        """System and user text."""
        texts = [text_of(each["content"]) for each in body["messages"] if each["role"] != "system"]
        if self.system == "field":
            return text_of(body.get("system")), "\n".join(texts)
        return "\n".join(text_of(each["content"]) for each in body["messages"] if each["role"] == "system"), texts[0]


def _number(value: Any, kind: type) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, kind))


def text_of(content: Any) -> str:
    """The text of a message's content, which is a text or a list of typed parts; empty when it is neither."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part.get("text", "") for part in parts if isinstance(part, dict) and part.get("type") == "text")


def _anthropic(said: Said) -> Body:
    usage = {
        "input_tokens": said.input - said.cached - said.cache_write,  # the format counts cached tokens apart
        "output_tokens": said.output,
        "cache_read_input_tokens": said.cached,
        "cache_creation_input_tokens": said.cache_write,
    }
    if said.reasoning:
        usage["output_tokens_details"] = {"thinking_tokens": said.reasoning}
    ending = {"stop": "end_turn", "length": "max_tokens"}.get(said.ending, "refusal")
    content = [{"type": "text", "text": said.text}] if ending != "refusal" else []
    about = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    return {**about, "content": content, "stop_reason": ending, "usage": usage}


def _chat(said: Said) -> Body:
    usage: Body = {"prompt_tokens": said.input, "completion_tokens": said.output}
    usage["total_tokens"] = said.input + said.output
    if said.cached:
        usage["prompt_tokens_details"] = {"cached_tokens": said.cached}
    if said.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": said.reasoning}
    ending = {"refused": "stop", "filtered": "content_filter"}.get(said.ending, said.ending)
    message = {"role": "assistant", "content": said.text, "refusal": None}
    if said.ending == "refused":
        message |= {"content": None, "refusal": "I'm sorry, I can't help with that."}
    elif said.ending == "filtered":
        message["content"] = None
    choice = {"index": 0, "finish_reason": ending, "message": message}
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}


def _bearer(headers: Mapping[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key if scheme == "Bearer" else ""


MESSAGES = Format("messages", "field", ("max_tokens",), lambda headers: headers.get("x-api-key", ""), _anthropic)
CHAT = Format("chat", "message", ("max_tokens", "max_completion_tokens"), _bearer, _chat)

FORMATS = {"/v1/messages": MESSAGES, "/v1/chat/completions": CHAT}
"""Path to format. A request to any other path finds nothing, as at the providers."""


@dataclass(frozen=True)
class Wire:
    """A provider as a configuration names it."""

    model: str
    other: str
    """Another model of it."""
    format: Format
    base: str = "/v1"
    """What follows host and port in its `base_url`."""
    limit: str = "max_tokens"
    """The name that the longest answer has on this wire."""


WIRES = {
    "anthropic": Wire("anthropic/claude-sonnet-4-6", "anthropic/claude-haiku-4-5", MESSAGES),
    "openai": Wire("openai/gpt-4.1-mini", "openai/gpt-4.1", CHAT, limit="max_completion_tokens"),
    "vllm": Wire("hosted_vllm/served", "hosted_vllm/other", CHAT),
    "ollama": Wire("ollama_chat/llama3.1", "ollama_chat/llama3.2", CHAT, base=""),
    "litellm": Wire("lm_studio/local", "lm_studio/other", CHAT),
}
"""The first four go through DSPy's own engine, the last through LiteLLM, which every provider does that DSPy's engine
does not know."""
