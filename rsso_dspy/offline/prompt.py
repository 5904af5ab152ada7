"""Reads a request: instruction, regions, demonstrations and the form of the answer, by the text of its messages alone.

Understands the prompts of DSPy's ChatAdapter, JSONAdapter and XMLAdapter.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from html import escape, unescape
from itertools import pairwise
from typing import Any, Literal

from dspy.lm15 import Request

Style = Literal["chat", "json", "xml", "plain"]

_FIELD = re.compile(r"^(?:\d+\. )?`(\w+)`(?: \(([^\n]*?)\))?:", re.M)
_CHAT_HEADER = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*", re.M)
_XML_REGION = re.compile(r"<(\w+)>\n?(.*?)\n?</\1>", re.S)
_NUMBER = re.compile(r"^\s*(?:[-*•]|\[?\d+\]?[.):»]?)\s*")
_STRUCTURE = re.compile(r"All interactions will be structured|^Your answer has this form:$", re.M)
_CLOSING = re.compile(r"\n+Respond with (?:the corresponding output fields|a JSON object|the XML tags|`)[^\n]*\Z")


@dataclass(frozen=True, slots=True)
class SeededNoise:
    """Seeded random numbers: the same seed, context and candidate give the same number in every process and thread."""

    seed: int
    temperature: float

    def draw_noise(self, candidate: str, context: str) -> float:
        """A number between -1 and 1."""
        digest = blake2b(f"{self.seed}\x00{candidate}\x00{context}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**63 - 1


@dataclass(frozen=True, slots=True)
class PromptLayout:
    """What the system message says about the conversation."""

    instruction: str
    wanted: Mapping[str, str]
    """Output field to the type it must have, as the adapter words it."""
    style: Style


@dataclass(frozen=True, slots=True)
class ParsedPrompt:
    """One request, read."""

    layout: PromptLayout
    regions: Mapping[str, str]
    """Input field to its text, from the last user message."""
    demos: tuple[Mapping[str, str], ...] = ()
    """Demonstrations, the earlier turns: input and output fields of each together."""
    text: str = ""
    """The text of all messages, in order."""

    @property
    def instruction(self) -> str:
        return self.layout.instruction

    def get_region(self, name: str) -> str:
        return self.regions.get(name, "")


def parse_request(request: Request) -> ParsedPrompt:
    """The request as a `ParsedPrompt`. A request without DSPy's field lists has style ``plain`` and no regions."""
    system = request.system
    if not isinstance(system, str):
        system = "".join(getattr(part, "text", "") or "" for part in system or ())
    turns = [(message.role, message.text or "") for message in request.messages]
    layout = _parse_layout(system)
    demos = tuple(
        _parse_demo(layout.style, question, answer)
        for (asker, question), (answerer, answer) in pairwise(turns)
        if asker == "user" and answerer == "assistant"
    )
    last = next((text for role, text in reversed(turns) if role == "user"), "")
    whole = "\n\n".join([system, *(text for _, text in turns)])
    return ParsedPrompt(layout, _split_regions(layout.style, last), demos, whole)


def format_response(layout: PromptLayout, answer: Mapping[str, Any]) -> str:
    """The answer in the form that the adapter asked for; for a plain prompt only the value."""
    if layout.style == "plain":
        return "\n".join(str(value) for value in answer.values())
    if layout.style == "json":
        return json.dumps(dict(answer), ensure_ascii=False)
    if layout.style == "xml":
        return "\n\n".join(f"<{name}>{_format_xml_value(value)}</{name}>" for name, value in answer.items())
    texts = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in answer.values())
    parts = (f"[[ ## {name} ## ]]\n{text}" for name, text in zip(answer, texts, strict=True))
    return "\n\n".join([*parts, "[[ ## completed ## ]]"])


def parse_region_list(text: str) -> list[Any]:
    """A list-valued region as a list: JSON (chat, JSON), ``<item>`` elements (XML), or one entry a line."""
    text = text.strip()
    if text.startswith("["):
        try:
            found = json.loads(text)
            return found if isinstance(found, list) else []
        except ValueError:
            pass
    if items := re.findall(r"<item>(.*?)</item>", text, re.S):
        parsed = [{name: unescape(value.strip()) for name, value in _XML_REGION.findall(item)} for item in items]
        return [parts or unescape(item.strip()) for parts, item in zip(parsed, items, strict=True)]
    rows = (_NUMBER.sub("", row) for row in text.splitlines())
    return [row for row in rows if row]


@lru_cache(maxsize=64)
def _parse_layout(system: str) -> PromptLayout:
    outputs, *rest = _STRUCTURE.split(system.partition("Your output fields are:")[2], maxsplit=1)
    structure = "".join(rest)
    wanted = {name: kind or "str" for name, kind in _FIELD.findall(outputs)}
    objective = system.partition("our objective is:")[2]
    instruction = "\n".join(line.strip() for line in objective.strip().splitlines())
    if not wanted:
        return PromptLayout(instruction or system, {}, "plain")
    if "Outputs will be a JSON object" in structure or structure.lstrip().startswith("{"):
        return PromptLayout(instruction, wanted, "json")
    return PromptLayout(instruction, wanted, "chat" if "[[ ## completed ## ]]" in structure else "xml")


@lru_cache(maxsize=256)
def _parse_demo(style: Style, question: str, answer: str) -> Mapping[str, str]:
    outputs = _parse_json_object(answer) if style == "json" else _split_regions(style, answer)
    return {**_split_regions(style, question), **outputs}


@lru_cache(maxsize=4096)
def _split_regions(style: Style, message: str) -> Mapping[str, str]:
    message = _CLOSING.sub("", message)
    if style == "xml":
        return {name: value.strip() for name, value in _XML_REGION.findall(message)}
    pieces = _CHAT_HEADER.split(message)
    return {name: value.strip() for name, value in zip(pieces[1::2], pieces[2::2], strict=True) if name != "completed"}


def _parse_json_object(text: str) -> dict[str, str]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}


def _format_xml_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return "".join(f"<{name}>{_format_xml_value(part)}</{name}>" for name, part in value.items())
    if isinstance(value, (list, tuple)):
        return "".join(f"<item>{_format_xml_value(part)}</item>" for part in value)
    return escape(str(value), quote=False)
