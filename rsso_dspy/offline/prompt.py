"""Reads a request: instruction, regions, turns, demonstrations and the form of the answer, by the text of its messages
alone. Understands the prompts of `adapter.py`, and those of DSPy's adapters that `marked.py` reads."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

import dspy
from dspy.lm15 import Request

from rsso_dspy.offline.marked import MarkedForm, find_form, format_marked, split_marked
from rsso_dspy.regions import REGIONS, list_items
from rsso_dspy.signatures import actor, constitution, memory_writers

PROPOSING = (  # fields of DSPy's proposers of instructions
    "current_instruction",
    "examples_with_feedback",
    "basic_instruction",
    "dataset_description",
    "program_code",
    "program_description",
    "module",
    "module_description",
    "task_demos",
    "tip",
)


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _read_label(label: str) -> str:
    return label.lower().replace(" ", "_")


def _list_signature_fields() -> list[str]:
    names: list[str] = []
    for module in (actor, constitution, memory_writers):
        for value in vars(module).values():
            if isinstance(value, type(dspy.Signature)):
                names += value.fields
    return names


_NAMES = {*REGIONS, *PROPOSING, "loops", *_list_signature_fields()}
_ANY = "|".join(sorted(map(_label, _NAMES), key=len, reverse=True))
_LABELS = re.compile(rf"^({_ANY})(?: \([^()\n]*\))?:(?:[ \n]|\Z)", re.M)
"""The labels of all fields of the package's signatures, and of DSPy's proposers."""
_FORM = re.compile(
    r"^(?:The [a-z_ ]+ (?:is|are) [^\n]*\n)*"
    r"Answer (?:with the (?P<alone>[a-z ]+) alone(?P<kind>, one a line)?[^\n]*"
    r"|with one (?P<json>JSON) object in this form:\n(?P<keys>\{[^\n]*\})"
    r"|in this form:(?P<rows>(?:\n[^\n]+)*))",
    re.M,
)
_ROW = re.compile(r"^([A-Z][a-z ]*):([^\n]*)", re.M)
_NUMBER = re.compile(r"^\s*(?:[-*•]|\[?\d+\]?[.):»]?)\s*")
_EXAMPLES = re.compile(r"^Examples:\n", re.M)
_EXAMPLE = re.compile(r"^Example \d+\n", re.M)
_STEP = re.compile(r"^(?=Observation:)", re.M)


class SeededNoise(NamedTuple):
    seed: int
    temperature: float

    def draw_noise(self, candidate: str, context: str) -> float:
        """A number between -1 and 1, the same for equal seed, candidate and context in every process and thread."""
        key = f"{self.seed}\x00{candidate}\x00{context}"
        digest = blake2b(key.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big")
        return number / 2**63 - 1


class Turn(NamedTuple):
    seen: str
    thought: str = ""  # and the action that followed; those of the present step are empty
    action: str = ""


class ParsedPrompt(NamedTuple):
    instruction: str
    wanted: Mapping[str, bool]  # output field to whether it is a list
    is_json: bool
    regions: Mapping[str, str]  # input field to its text: of the first message and of the last
    turns: tuple[Turn, ...] = ()  # the steps so far, the present one last
    demos: tuple[Mapping[str, str], ...] = ()  # demonstrations: input and output fields of each together
    text: str = ""  # the text of all messages, in order
    is_marked: bool = False  # whether the fields of messages, and of an answer that is no JSON, stand below marks
    blanks: Mapping[str, Any] = {}  # values of output fields that are neither texts nor lists, and say least

    def get_region(self, name: str) -> str:
        return self.regions.get(name, "")


class _SystemPrompt(NamedTuple):
    instruction: str
    wanted: Mapping[str, bool]  # output field to whether it is a list
    is_json: bool
    regions: Mapping[str, str]  # those that a layout puts below the instruction
    demos: tuple[Mapping[str, str], ...]


def parse_request(request: Request) -> ParsedPrompt:
    system = _read_system(request)
    form = find_form(system)
    if form is not None:
        return _parse_marked(request, system, form)
    return _parse_labelled(request, system)


def _read_system(request: Request) -> str:
    system = request.system
    if isinstance(system, str):
        return system
    texts = [getattr(part, "text", "") or "" for part in system or ()]
    return "".join(texts)


def _parse_labelled(request: Request, system: str) -> ParsedPrompt:
    """Read a request whose fields stand behind labels."""
    system_prompt = _parse_system(system)
    wants_action_alone = list(system_prompt.wanted) == ["action"]

    texts = []
    user_texts = []
    for message in request.messages:
        text = message.text or ""
        if message.role == "assistant" and wants_action_alone and not split_fields(text):
            text = f"Action: {text}"
        if message.role == "user":
            user_texts.append(text)
        texts.append(text)

    first, *_, last = user_texts * 2
    regions = {**system_prompt.regions, **split_fields(first)}
    for name, text in split_fields(last).items():
        if text:
            regions[name] = text

    steps = _STEP.split("\n\n".join(texts))[1:]
    turns = [_make_turn(split_fields(step)) for step in steps]
    if not turns:
        turns = [Turn("")]

    return ParsedPrompt(
        instruction=system_prompt.instruction,
        wanted=system_prompt.wanted,
        is_json=system_prompt.is_json,
        regions=regions,
        turns=tuple(turns),
        demos=system_prompt.demos,
        text="\n\n".join([system, *texts]),
    )


def _parse_marked(request: Request, system: str, form: MarkedForm) -> ParsedPrompt:
    """Read a request whose fields stand below marks: pairs of messages with a task are demonstrations, those without
    one are turns, and all inputs but the turns' stand in the last message."""
    texts = [message.text or "" for message in request.messages]
    *previous, last = map(split_marked, texts)

    demos = []
    turns = []
    for inputs, outputs in zip(previous[::2], previous[1::2], strict=False):
        pair = {**inputs, **outputs}
        if "task" in inputs:
            demos.append(pair)
        else:
            turns.append(_make_turn(pair))
    turns.append(_make_turn(last))

    return ParsedPrompt(
        instruction=form.instruction,
        wanted=form.wanted,
        is_json=form.is_json,
        regions=last,
        turns=tuple(turns),
        demos=tuple(demos),
        text="\n\n".join([system, *texts]),
        is_marked=True,
        blanks=form.blanks,
    )


def _make_turn(fields: Mapping[str, str]) -> Turn:
    return Turn(
        seen=fields.get("observation", ""),
        thought=fields.get("thought", ""),
        action=fields.get("action", ""),
    )


def format_response(prompt: ParsedPrompt, answer: Mapping[str, Any]) -> str:
    """The answer in the form that is asked for; where one field is, its value alone."""
    if prompt.is_json:
        return json.dumps(dict(answer), ensure_ascii=False)
    if prompt.is_marked:
        return _format_marked_answer(answer)
    if len(answer) == 1:
        (value,) = answer.values()
        return _format_value(value).strip()

    rows = []
    for name, value in answer.items():
        row = f"{_label(name)}: {_format_value(value)}"
        rows.append(row.rstrip(" "))
    return "\n".join(rows)


def _format_marked_answer(answer: Mapping[str, Any]) -> str:
    texts = {}
    for name, value in answer.items():
        texts[name] = value if isinstance(value, str) else json.dumps(value)
    return format_marked(texts)


def parse_region_list(text: str) -> list[str]:
    """A list-valued region as a list: one item a line, each after a dash, or in one line between semicolons."""
    if text.lstrip().startswith("- "):
        rows = text.strip().split("\n- ")
    else:
        rows = text.splitlines()
        if len(rows) == 1:
            rows = text.split("; ")

    items = []
    for row in rows:
        item = _NUMBER.sub("", row).replace("\n  ", "\n").strip()
        if item:
            items.append(item)
    return items


@lru_cache(maxsize=4096)
def split_fields(message: str) -> Mapping[str, str]:
    """Label of a field, as its name, to its text. Of a label that stands there twice the last counts."""
    pieces = _LABELS.split(message)
    fields: dict[str, str] = {}
    for label, text in zip(pieces[1::2], pieces[2::2], strict=True):
        fields[_read_label(label)] = text.strip()
    return fields


@lru_cache(maxsize=64)
def _parse_system(system: str) -> _SystemPrompt:
    head, *examples = _EXAMPLES.split(system, maxsplit=1)
    form = _FORM.search(head)
    if form is None:
        return _SystemPrompt(instruction=system, wanted={}, is_json=False, regions={}, demos=())

    demos = []
    for example in _EXAMPLE.split("".join(examples)):
        if example.strip():
            demos.append(split_fields(example))

    above_form = head[: form.start()]
    instruction, *_ = _LABELS.split(above_form, maxsplit=1)
    return _SystemPrompt(
        instruction=instruction.strip(),
        wanted=_list_wanted(form),
        is_json=bool(form["json"]),
        regions=split_fields(above_form),
        demos=tuple(demos),
    )


def _list_wanted(form: re.Match[str]) -> Mapping[str, bool]:
    """Output field to whether it is a list."""
    if form["alone"]:
        name = form["alone"].replace(" ", "_")
        return {name: bool(form["kind"])}
    if form["json"]:
        keys = json.loads(form["keys"])
        return {name: isinstance(value, list) for name, value in keys.items()}

    wanted = {}
    for label, kind in _ROW.findall(form["rows"]):
        wanted[_read_label(label)] = not kind.strip()
    return wanted


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return value
    is_text_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
    if not is_text_list:
        return json.dumps(value, ensure_ascii=False)
    return f"\n{list_items(value)}" if value else "none"
