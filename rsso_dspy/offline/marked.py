"""Reads the prompts of DSPy's own adapters, whose fields stand below marks: `dspy.ChatAdapter`, and `dspy.JSONAdapter`,
whose answers are one object.

    find_form(system).wanted        # {"thought": False, "action": False}
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rsso_dspy.signatures.texts import show

_MARK = re.compile(r"^\[\[ ## (\w+) ## \]\][ \t]*", re.M)
_ENDING = "completed"
"""The mark behind the last field of an answer."""
_REQUEST = re.compile(
    r"\s*^Respond with (?:the corresponding output fields, starting with|a JSON object in the following order of)"
    r" (?:the )?fields?:? .*",
    re.M | re.S,
)
"""What stands behind the inputs of a message: which fields the answer has."""
_STRUCTURE = "All interactions will be structured in the following way, with the appropriate values filled in."
_OBJECTIVE = "In adhering to this structure, your objective is:"
_AS_JSON = "Outputs will be a JSON object with the following fields."
_INPUTS = re.compile(r"^Your input fields are:\n(.*?)^Your output fields are:\n(.*?)^" + _STRUCTURE[:16], re.M | re.S)
_FIELD = re.compile(r"^\d+\. `(\w+)` \((.*?)\):", re.M)
_NOTE = re.compile(r"\{(\w+)\} +# note: the value you produce must (?:exactly match[^:]*|be) one of: ([^\n\"]*)")
_EMPTY: Mapping[str, Any] = {"dict": {}, "int": 0, "float": 0.0, "bool": False}
"""Name of a type to the value that says least."""
_FINISH = "finish"
"""The tool of `dspy.ReAct` that ends its search."""


@dataclass(frozen=True, slots=True)
class MarkedForm:
    """What the system message of one of DSPy's adapters says."""

    instruction: str
    wanted: Mapping[str, bool]  # output field to whether it is a list
    blanks: Mapping[str, Any]  # values of output fields that are neither texts nor lists, and say least
    is_json: bool


@lru_cache(maxsize=64)
def find_form(system: str) -> MarkedForm | None:
    """Return the form of a system message; None if it is of no adapter of DSPy's that is known here."""
    fields = _INPUTS.search(system)
    is_json = _AS_JSON in system
    if fields is None or _OBJECTIVE not in system or not (is_json or f"[[ ## {_ENDING} ## ]]" in system):
        return None
    choices = {}
    for name, options in _NOTE.findall(system):
        choices[name] = options.split("; ")

    outputs = {}
    blanks = {}
    for name, kind in _FIELD.findall(fields[2]):
        outputs[name] = kind.startswith("list")
        blank = _choose_blank(kind, choices.get(name, []))
        if blank is not None:
            blanks[name] = blank

    _, _, objective = system.partition(_OBJECTIVE)
    lines = [line.strip() for line in objective.strip().splitlines()]
    return MarkedForm("\n".join(lines), outputs, blanks, is_json)


def _choose_blank(kind: str, choices: list[str]) -> Any:
    """Return a value of a type, by its name, that says least; None for a text and a list."""
    if choices:
        return _FINISH if _FINISH in choices else choices[0]
    for name, value in _EMPTY.items():
        if re.search(rf"\b{name}\b", kind):
            return value
    return None


def split_marked(text: str) -> dict[str, str]:
    """Return the fields of one message: mark to what stands below it, as this package's adapters show it. An answer may
    be an object; what is empty is left out."""
    content = _load(text)
    if not isinstance(content, dict):
        _, *pieces = _MARK.split(_REQUEST.sub("", text))
        content = {}
        for name, below in zip(pieces[::2], pieces[1::2], strict=True):
            content[name] = _load(below)

    fields = {}
    for name, value in content.items():
        displayed = show(value).strip()
        if displayed and name != _ENDING:
            fields[name] = displayed
    return fields


def _load(text: str) -> Any:
    """Return the list or object that a text is, or the text."""
    if text.strip()[:1] in ("[", "{"):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
    return text


def format_marked(values: Mapping[str, str]) -> str:
    """Return an answer whose fields stand below marks."""
    parts = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    parts.append(f"[[ ## {_ENDING} ## ]]")
    return "\n\n".join(parts)


def finish_at_once(*_: Any) -> Mapping[str, Any]:
    """What modules of DSPy that run code are answered: code that does nothing, and that no more is needed."""
    return {"generated_code": "```python\nNone\n```", "finished": True}
