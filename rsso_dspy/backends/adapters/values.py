"""One field's value from whatever a model gave for it."""

import ast
import json
import re
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

import json_repair
from dspy.adapters.utils import annotation_allows_none, parse_value
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

TEXT_KEYS = ("text", "value", "content", "rule", "step", "action", "instruction")
"""Where the text stands when an object was given for a text."""
MISTAKE = {"error": "mistake", "problem": "mistake", "wrong": "mistake"}
SOLUTION = {"fix": "solution", "correction": "solution", "instead": "solution", "correct": "solution"}
MOST_SIGNS, MOST_BRACKETS = 20_000, 60
"""Longer, or deeper, is not given to json_repair: its time grows with the cube of brackets that nothing closes."""
BULLET = re.compile(r"^\s*(?:[-*•–+]|\(?\d+[.):]|step\s*\d+[.:)])\s+", re.I)
NOTHING = re.compile(r"(?:none|null|nil|n/?a|nothing|empty|no rules?|no errors?|\[\s*\]|-)[.!]?", re.I)
CONDITION = re.compile(r"(?:if|when|while|once|after|before|in|to|for|since|as|because|unless|until|with)\b", re.I)
NUMBERS = re.compile(r"(?:\s|,|;|&|#|\[|\]|\(|\)|\.|\band\b|\bskills?\b|\bnumbers?\b|\bno\.|\d+)*", re.I)


def is_text(info: FieldInfo) -> bool:
    return _core(info) is str


def is_list(info: FieldInfo) -> bool:
    return get_origin(_core(info)) is list


def optional(info: FieldInfo) -> bool:
    return not info.is_required() or annotation_allows_none(info.annotation)


def single(info: FieldInfo) -> bool:
    """Whether the field's description asks for one thing, so that several contradict one another."""
    return re.match(r"(?:one|a|an)\b", _description(info), re.I) is not None


def cast(said: Any, info: FieldInfo) -> Any:
    """The value in the field's type; None when it is not there or cannot be told."""
    core = _core(info)
    if core is str:
        return _text(said, info)
    if get_origin(core) is list:
        said = _items(said, (get_args(core) or (str,))[0])
    if said is None or said == "":
        return None
    try:
        return parse_value(said, info.annotation)
    except Exception:  # json_repair and pydantic, on anything a model may say
        return None


def _core(info: FieldInfo) -> Any:
    """The annotation less None."""
    kinds = [kind for kind in get_args(info.annotation) if kind is not type(None)]
    alternatives = get_origin(info.annotation) in (Union, types.UnionType)
    return kinds[0] if alternatives and len(kinds) == 1 else info.annotation


def _description(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    return str(extra.get("desc", "")) if isinstance(extra, dict) else ""


def _text(said: Any, info: FieldInfo) -> str | None:
    if isinstance(said, Mapping):
        said = _text_in(said)
    if isinstance(said, list):
        texts = [text for item in said if (text := _text(item, info))]
        if len(texts) < len(said) or (single(info) and len(set(texts)) > 1):
            return None
        said = texts[0] if single(info) and texts else "\n".join(texts)
    if said is None or (isinstance(said, str) and not said.strip()):
        offers_none = re.search(r"\bnone\b", _description(info), re.I) and not optional(info)
        return "none" if offers_none else None
    if isinstance(said, str) and single(info) and NOTHING.fullmatch(said.strip()):
        return said.strip() if re.search(r"\bnone\b", _description(info), re.I) else None
    return said.strip() if isinstance(said, str) else str(said)


def _text_in(said: Mapping[str, Any]) -> Any:
    """The text of an object with a text key, or of one that holds nothing else; None otherwise."""
    for key in TEXT_KEYS:
        if isinstance(said.get(key), str):
            return said[key]
    texts = list(said.values())
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else None


def _items(said: Any, kind: Any) -> list[Any] | None:
    """The items of a list in whatever form, each an object, text or number as `kind` wants it; None when unclear."""
    if said is None:
        return []
    if isinstance(said, str):
        said = _split(said.strip(), kind)
    if isinstance(said, Mapping):
        whole = isinstance(kind, type) and issubclass(kind, BaseModel) and set(kind.model_fields) & set(said)
        said = [said] if whole or _text_in(said) is not None else list(said.values())
    if isinstance(said, int) and not isinstance(said, bool):
        said = [said]
    if not isinstance(said, list):
        return None
    items = [_item(item, kind) for item in said if item not in (None, "")]
    return None if any(item is None for item in items) else items


def _item(said: Any, kind: Any) -> Any:
    if kind is str:
        said = _text_in(said) if isinstance(said, Mapping) else said
        return str(said).strip() if isinstance(said, str | int | float) else None
    if kind is int:
        said = _number_in(said) if isinstance(said, Mapping) else said
        found = re.findall(r"\d+", said) if isinstance(said, str) and NUMBERS.fullmatch(said) else [said]
        return int(found[0]) if len(found) == 1 and isinstance(found[0], str | int) else None
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(said, kind)
    return said


def _number_in(said: Mapping[str, Any]) -> Any:
    return next((value for value in said.values() if isinstance(value, int)), None) if len(said) == 1 else None


def _model(said: Any, kind: type[BaseModel]) -> BaseModel | None:
    """An object, or a line such as ``Mistake: ... Solution: ...``, or ``... -> ...``, as the model class."""
    if isinstance(said, str):
        said = _labelled(said, list(kind.model_fields))
    if not isinstance(said, Mapping):
        return None
    renamed = {(MISTAKE | SOLUTION).get(str(key).lower(), str(key).lower()): value for key, value in said.items()}
    try:
        return kind.model_validate(renamed)
    except ValidationError:
        return None


def _labelled(line: str, names: list[str]) -> dict[str, str] | None:
    labels = {name: name for name in names} | {k: v for k, v in (MISTAKE | SOLUTION).items() if v in names}
    marks = list(re.finditer(rf"\W*\b({'|'.join(labels)})\W*:\W*?\s*(?=\w)", line, re.I))
    if marks and not line[: marks[0].start()].strip() and len(marks) == len(names):
        ends = [mark.start() for mark in marks[1:]] + [len(line)]
        return {
            labels[mark.group(1).lower()]: line[mark.end() : end].strip() + _full_stop(line, end)
            for mark, end in zip(marks, ends, strict=True)
        }
    parts = re.split(r"\s*(?:->|→|=>)\s*", line)
    return dict(zip(names, parts, strict=True)) if len(parts) == len(names) and all(parts) else None


def _full_stop(line: str, end: int) -> str:
    """The full stop that the next label's pattern took with it."""
    return "." if line[end : end + 1] == "." else ""


def _split(text: str, kind: Any) -> Any:
    """The items in a text: JSON or Python, nothing at all, tags, lines, or a row with separators."""
    text = re.sub(r"^```\w*\s*|\s*```$", "", text).strip()
    if not text or NOTHING.fullmatch(text):
        return []
    if text.startswith(("[", "{")) and (read := literal(text)) is not None:
        return read
    if kind is int:
        text = re.sub(r"^\s*[-*•]\s+", " ", text, flags=re.M)
        return [int(found) for found in re.findall(r"\d+", text)] if NUMBERS.fullmatch(text) else None
    if text.startswith("<"):
        inner = re.findall(r"<([\w-]+)>(.*?)</\1>", text, re.S)
        return [
            dict(re.findall(r"<([\w-]+)>\s*(.*?)\s*</\1>", item, re.S)) or item.strip() for _, item in inner
        ] or None
    lines = [line for line in text.splitlines() if line.strip()]
    if any(BULLET.match(line) for line in lines):
        return bullets(text)
    if len(lines) > 1:
        return lines
    for separator in (";", "；"):
        if separator in text:
            return [part.strip() for part in text.split(separator) if part.strip()]
    parts = [part.strip() for part in text.split(",")]
    row = kind is str and not text.endswith(".") and not CONDITION.match(text)
    return parts if row and all(2 <= len(part.split()) <= 6 for part in parts) else [text]


def bullets(text: str) -> list[str]:
    """One item a bullet. A line without one goes on with the item above, unless there is a blank line between: then
    the list is over. What stands before the first is a lead-in."""
    items: list[str] = []
    above = ""
    for line in text.splitlines():
        if BULLET.match(line):
            items.append(BULLET.sub("", line).strip())
        elif items and line.strip():
            if not above.strip():
                break
            items[-1] += "\n" + line.strip()
        above = line
    return items


def literal(text: str) -> Any:
    """JSON or Python in a text that begins with its bracket, broken as it may be; None when it is neither."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        pass
    if "\\" not in text:  # Python warns of escapes that it does not know
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            pass
    if len(text) > MOST_SIGNS or text.count("{") + text.count("[") > MOST_BRACKETS:
        return None
    try:
        return json_repair.loads(text, skip_json_loads=True) or None
    except Exception:  # a repairer of anything may fail on anything
        return None
