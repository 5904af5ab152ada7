"""Reads a request: instruction, regions, turns, demonstrations and the form of the answer, by the text of its messages
alone. Understands the prompts of `adapter.py`, and any text as a plain prompt."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import dspy
from dspy.lm15 import Request

from rsso_dspy.regions import REGIONS, SYSTEM_REGIONS, list_items
from rsso_dspy.signatures import actor, constitution, memory_writers, reflection, skills

PROPOSING = (
    *("current_instruction", "examples_with_feedback", "basic_instruction", "dataset_description", "program_code"),
    *("program_description", "module", "module_description", "task_demos", "tip"),
)
"""Fields of DSPy's proposers of instructions."""


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


_MODULES = (actor, constitution, memory_writers, reflection, skills)
_ASKED = [each for module in _MODULES for each in vars(module).values() if isinstance(each, type(dspy.Signature))]
_NAMES = {*REGIONS, *PROPOSING, *reflection.ADDED_INPUTS, *(name for each in _ASKED for name in each.fields)}
_ANY = "|".join(sorted(map(_label, _NAMES), key=len, reverse=True))
_LABELS = re.compile(rf"^({_ANY})(?: \([^()\n]*\))?:(?:[ \n]|\Z)", re.M)
"""The labels of all fields of the package's signatures, and of DSPy's proposers."""
_LABEL = r"([A-Z][a-z]+(?: [a-z]+){0,3})"
_ALONE = re.compile(r"^Answer with the ([a-z]+(?: [a-z]+)*) alone(, one a line)?\b", re.M)
_FORM = re.compile(r"^Answer (?:in this form|with one (JSON) object)[^\n]*:\n", re.M)
_KEYS = re.compile(r'^"(\w+)": (.*)', re.M)
_WANTED = re.compile(rf"^{_LABEL}:([^\n]*)", re.M)
_NUMBER = re.compile(r"^\s*(?:[-*•]|\[?\d+\]?[.):»]?)\s*")
_WINDOW = re.compile(r"^History:\n", re.M)
_PLACED = "|".join(name.replace("_", " ").capitalize() for name in SYSTEM_REGIONS)
_IN_SYSTEM = re.compile(rf"\n\n(?=(?:{_PLACED})(?:: ?| \())")
_EXAMPLES = re.compile(r"^Examples:\n", re.M)
_EXAMPLE = re.compile(r"^Example \d+\n", re.M)


class SeededNoise(NamedTuple):
    """Seeded random numbers: the same seed, context and candidate give the same number in every process and thread."""

    seed: int
    temperature: float

    def draw_noise(self, candidate: str, context: str) -> float:
        """A number between -1 and 1."""
        digest = blake2b(f"{self.seed}\x00{candidate}\x00{context}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**63 - 1


class Turn(NamedTuple):
    """One step: what was seen, and the thought and action that followed; those of the present step are empty."""

    seen: str
    thought: str = ""
    action: str = ""


class ParsedPrompt(NamedTuple):
    """One request, read."""

    instruction: str
    wanted: Mapping[str, bool]
    """Output field to whether it is a list; empty for a plain prompt."""
    is_json: bool
    regions: Mapping[str, str]
    """Input field to its text: of the first message and of the last."""
    turns: tuple[Turn, ...] = ()
    """The steps so far, the present one last."""
    demos: tuple[Mapping[str, str], ...] = ()
    """Demonstrations: input and output fields of each together."""
    text: str = ""
    """The text of all messages, in order."""

    def get_region(self, name: str) -> str:
        return self.regions.get(name, "")


def parse_request(request: Request) -> ParsedPrompt:
    """The request as a `ParsedPrompt`."""
    system = request.system
    if not isinstance(system, str):
        system = "".join(getattr(part, "text", "") or "" for part in system or ())
    messages = [(message.role, message.text or "") for message in request.messages]
    whole = "\n\n".join([system, *(text for _, text in messages)])
    instruction, wanted, is_json, placed, demos = _parse_system(system)
    window = ""
    if messages and (begin := _WINDOW.search(messages[-1][1])):
        text = messages[-1][1]
        window, _, present = text[begin.end() :].rpartition("\nObservation:")
        messages[-1] = ("user", f"{text[: begin.start()]}\nObservation:{present}")
    asked = [split_fields(text) for role, text in messages if role == "user"]
    regions = {**placed, **asked[0], **{name: text for name, text in asked[-1].items() if text}} if asked else {}
    return ParsedPrompt(
        instruction, wanted, is_json, regions, _parse_turns([*_split_window(window), *messages]), demos, whole
    )


def format_response(prompt: ParsedPrompt, answer: Mapping[str, Any]) -> str:
    """The answer in the form that is asked for; for a plain prompt only the value."""
    if prompt.is_json:
        return json.dumps(dict(answer), ensure_ascii=False)
    if len(answer) == 1:
        return _format_value(next(iter(answer.values()))).strip()
    return "\n".join(f"{_label(name)}: {_format_value(value)}".rstrip(" ") for name, value in answer.items())


def parse_region_list(text: str) -> list[str]:
    """A list-valued region as a list: one item a line, each after a dash, or in one line between semicolons."""
    rows = text.strip().split("\n- ") if text.lstrip().startswith("- ") else text.splitlines()
    if len(rows) == 1 and not text.lstrip().startswith("- "):
        rows = text.split("; ")
    return [row for row in (_NUMBER.sub("", row).replace("\n  ", "\n").strip() for row in rows) if row]


@lru_cache(maxsize=4096)
def split_fields(message: str) -> Mapping[str, str]:
    """Label of a field, as its name, to its text. Of a label that stands there twice the last counts."""
    pieces = _LABELS.split(message)
    return {
        label.lower().replace(" ", "_"): text.strip() for label, text in zip(pieces[1::2], pieces[2::2], strict=True)
    }


@lru_cache(maxsize=64)
def _parse_system(system: str) -> tuple[str, Mapping[str, bool], bool, Mapping[str, str], tuple[Any, ...]]:
    told, *shown = _EXAMPLES.split(system, maxsplit=1)
    told, *placed = _IN_SYSTEM.split(told, maxsplit=1)
    regions = split_fields("".join(placed))
    demos = tuple(split_fields(each) for each in _EXAMPLE.split("".join(shown)) if each.strip())
    if alone := _ALONE.search(told):
        return told[: alone.start()].strip(), {alone[1].replace(" ", "_"): bool(alone[2])}, False, regions, demos
    if form := _FORM.search(told):
        rows = (_KEYS if form[1] else _WANTED).findall(told[form.end() :])
        wanted = {
            label.lower().replace(" ", "_"): said.strip().startswith(("a list", "one a line")) for label, said in rows
        }
        return told[: form.start()].strip(), wanted, bool(form[1]), regions, demos
    return system, {}, False, {}, ()


def _parse_turns(messages: Sequence[tuple[str, str]]) -> tuple[Turn, ...]:
    turns, seen = [], ""
    for role, text in messages:
        if role == "user":
            seen = split_fields(text).get("observation", "")
        else:
            said = split_fields(text)
            action = said.get("action", "" if said else text).strip()
            turns.append(Turn(seen, said.get("thought", ""), action))
            seen = ""
    return (*turns, Turn(seen))


def _split_window(window: str) -> list[tuple[str, str]]:
    """The messages that a window of the last steps holds as one text."""
    messages = []
    for part in filter(str.strip, re.split(r"^(?=Observation:)", window, flags=re.M)):
        seen, *answer = re.split(r"^(?=(?:Thought|Subgoal|Action):)", part, maxsplit=1, flags=re.M)
        messages += [("user", seen), ("assistant", "".join(answer))]
    return messages


def _format_value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f"\n{list_items(value)}" if value else "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
