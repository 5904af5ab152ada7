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
    *("current_instruction", "examples_with_feedback", "basic_instruction", "dataset_description", "program_code"),
    *("program_description", "module", "module_description", "task_demos", "tip"),
)


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


_DEFINED = [*vars(actor).values(), *vars(constitution).values(), *vars(memory_writers).values()]
_SIGNATURES = [value for value in _DEFINED if isinstance(value, type(dspy.Signature))]
_NAMES = {*REGIONS, *PROPOSING, "loops", *(name for signature in _SIGNATURES for name in signature.fields)}
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


class SeededNoise(NamedTuple):
    seed: int
    temperature: float

    def draw_noise(self, candidate: str, context: str) -> float:
        """A number between -1 and 1, the same for equal seed, candidate and context in every process and thread."""
        digest = blake2b(f"{self.seed}\x00{candidate}\x00{context}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**63 - 1


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


def parse_request(request: Request) -> ParsedPrompt:
    system = request.system
    if not isinstance(system, str):
        system = "".join(getattr(part, "text", "") or "" for part in system or ())
    if (form := find_form(system)) is not None:
        return _parse_marked(request, system, form)
    instruction, outputs, is_json, placed, demos = _parse_system(system)
    texts = []
    for message in request.messages:
        text = message.text or ""
        is_bare_action = message.role == "assistant" and list(outputs) == ["action"] and not split_fields(text)
        texts.append(f"Action: {text}" if is_bare_action else text)

    user_texts = [text for text, message in zip(texts, request.messages, strict=True) if message.role == "user"]
    first, *_, last = user_texts * 2
    regions = {**placed, **split_fields(first), **{name: text for name, text in split_fields(last).items() if text}}
    steps = map(split_fields, re.split(r"^(?=Observation:)", "\n\n".join(texts), flags=re.M)[1:])
    turns = tuple(map(_make_turn, steps))
    full_text = "\n\n".join([system, *texts])
    return ParsedPrompt(instruction, outputs, is_json, regions, turns or (Turn(""),), demos, full_text)


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
    full_text = "\n\n".join([system, *texts])
    return ParsedPrompt(
        form.instruction, form.wanted, form.is_json, last, tuple(turns), tuple(demos), full_text, True, form.blanks
    )


def _make_turn(fields: Mapping[str, str]) -> Turn:
    return Turn(*(fields.get(name, "") for name in ("observation", "thought", "action")))


def format_response(prompt: ParsedPrompt, answer: Mapping[str, Any]) -> str:
    """The answer in the form that is asked for; where one field is, its value alone."""
    if prompt.is_json:
        return json.dumps(dict(answer), ensure_ascii=False)
    if prompt.is_marked:
        texts = {}
        for name, value in answer.items():
            texts[name] = value if isinstance(value, str) else json.dumps(value)
        return format_marked(texts)
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
    """Instruction, output fields, whether they are asked for as JSON, regions behind them, and demonstrations."""
    head, *examples = _EXAMPLES.split(system, maxsplit=1)
    if (form := _FORM.search(head)) is None:
        return system, {}, False, {}, ()
    demos = tuple(split_fields(example) for example in _EXAMPLE.split("".join(examples)) if example.strip())
    instruction, *_ = _LABELS.split(head[: form.start()], maxsplit=1)
    placed = split_fields(head[: form.start()])  # regions that a layout puts below the instruction
    return instruction.strip(), _list_wanted(form), bool(form["json"]), placed, demos


def _list_wanted(form: re.Match[str]) -> Mapping[str, bool]:
    """Output field to whether it is a list."""
    if form["alone"]:
        return {form["alone"].replace(" ", "_"): bool(form["kind"])}
    if form["json"]:
        return {name: isinstance(value, list) for name, value in json.loads(form["keys"]).items()}
    return {name.lower().replace(" ", "_"): not kind.strip() for name, kind in _ROW.findall(form["rows"])}


def _format_value(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return f"\n{list_items(value)}" if value else "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
