"""Converts whatever a model wrote for a list to texts, numbers or objects of a class.

Models make most mistakes in lists of texts and of objects. This module handles the forms of lists;
`pydantic_objects.py` reads single objects. Objects with a missing field are left out, unless there are no others.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from rsso_dspy.lm.adapters.literals import parse_literal, parse_literal_sequence
from rsso_dspy.lm.adapters.pydantic_objects import (
    map_field_synonyms,
    parse_labelled_objects,
    parse_models,
    parse_table_rows,
    split_object_mapping,
)

TEXT_KEYS = ("text", "value", "content", "rule", "step", "action", "instruction")
"""Keys that may hold the text when a model wrote an object for a text."""
ITEM_KEYS = (*TEXT_KEYS, "description", "progress", "fact")
"""Keys that may hold the text of a list item."""
ABOUT = frozenset(
    {"id", "category", "type", "kind", "priority", "confidence", "importance", "status", "index", "number", "source"}
)
"""Keys of metadata about a text."""
BULLET = re.compile(r"^\s*(?:[-*•–+]|\(?\d+[.):]|\(?[a-z]\)|(?:step|rule)\s*\d+[.:)])\s+", re.I)
NOTHING = re.compile(r"(?:none|null|nil|n/?a|nothing|empty|no rules?|no errors?|\[\s*\]|-)[.!]?", re.I)
EXPLAINED = re.compile(r"(?:none|n/?a)\s*\([^()\n]*\)\W*", re.I)
NO_MISTAKES = re.compile(
    r"(?:none\b|no (?:real |clear |obvious )?(?:mistakes?|errors?|error rules?)\b)[^\n]{0,120}", re.I
)
CONDITION = re.compile(r"(?:if|when|while|once|after|before|in|to|for|since|as|because|unless|until|with)\b", re.I)
NUMBERS = re.compile(r"(?:\s|,|;|&|#|\[|\]|\(|\)|\.|\band\b|\bskills?\b|\bnumbers?\b|\bno\.|\d+)*", re.I)
DOTS = re.compile(r"[.…]+")
QUOTED = re.compile(r"([\"'`“])(.*)(?:\1|”),?", re.S)
FENCE = re.compile(r"\A```\w*[ \t]*\n?|```\Z")
ELEMENT = re.compile(r"<([\w-]+)(?:\s[^<>]*)?>\s*(.*?)\s*</\1>", re.S)
LEAD_IN = re.compile(r"\A(?:[^\[{\n\"']*:[ \t]*\n\s*)(?=[\[{])")


def parse_list_items(said: Any, kind: Any) -> list[Any] | None:
    """Parse the items of a list in any form, each an object, text or number as `kind` says; None if unclear."""
    if said is None:
        return []
    if isinstance(said, str):
        said = _split_items(said.strip(), kind)
    if isinstance(said, Mapping):
        said = _unwrap_mapping(said, kind)
    if isinstance(said, int) and not isinstance(said, bool):
        said = [said]
    if not isinstance(said, list):
        return None
    said = _flatten_nested_lists(said, kind)
    if said and all(map(_is_ellipsis, said)):
        return None
    said = [item for item in said if not _is_ellipsis(item)]
    if _is_model_class(kind):
        return parse_models([item for item in said if not _is_empty_item(item, kind)], kind)
    found = [_convert_item(item, kind) for item in said if not _is_empty_item(item, kind)]
    return None if any(item is None for item in found) else found


def extract_only_text(said: Mapping[str, Any]) -> Any:
    """Return the text of an object with a text key, or with a text as its only value; None otherwise."""
    for key in TEXT_KEYS:
        if isinstance(said.get(key), str):
            return said[key]
    texts = list(said.values())
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else None


def _extract_item_text(said: Mapping[str, Any]) -> Any:
    """Return the text of an item, without metadata."""
    lower = {str(key).lower(): value for key, value in said.items()}
    for key in ITEM_KEYS:
        if isinstance(lower.get(key), str):
            return lower[key]
    return extract_only_text({key: value for key, value in lower.items() if key not in ABOUT})


def split_bullets(text: str) -> list[str]:
    """Split a text into one item per bullet. A line without a bullet continues the item above; after a blank line it
    ends the list. Text before the first bullet is dropped."""
    found: list[str] = []
    above = ""
    for line in text.splitlines():
        if BULLET.match(line):
            found.append(BULLET.sub("", line).strip())
        elif found and line.strip():
            if not above.strip():
                break
            found[-1] += "\n" + line.strip()
        above = line
    return found


def _is_empty_item(item: Any, kind: Any) -> bool:
    if isinstance(item, str):
        nothing = kind is not int and NOTHING.fullmatch(item.strip()) is not None
        return (
            not item.strip() or nothing or (_is_model_class(kind) and NO_MISTAKES.fullmatch(item.strip()) is not None)
        )
    if isinstance(item, Mapping) and _is_model_class(kind) and item:
        return all(value is None or (isinstance(value, str) and _is_empty_item(value, str)) for value in item.values())
    return item is None or item == {}


def _is_ellipsis(item: Any) -> bool:
    return item is ... or (isinstance(item, str) and DOTS.fullmatch(item.strip()) is not None)


def _is_model_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _convert_item(said: Any, kind: Any) -> Any:
    if kind is str:
        said = _extract_item_text(said) if isinstance(said, Mapping) else said
        return _strip_item_quotes(str(said).strip()) if isinstance(said, str | int | float) else None
    if kind is int:
        if isinstance(said, Mapping):
            said = next((value for value in said.values() if isinstance(value, int)), None) if len(said) == 1 else None
        if isinstance(said, str):
            found = re.findall(r"\d+", said) if NUMBERS.fullmatch(said) else []
            return int(found[0]) if len(found) == 1 else None
        return said if isinstance(said, int) else None
    return said


def _strip_item_quotes(text: str) -> str:
    wrapped = QUOTED.fullmatch(text)
    return wrapped.group(2).strip() if wrapped and wrapped.group(1) not in wrapped.group(2) else text


def _unwrap_mapping(said: Mapping[str, Any], kind: Any) -> list[Any]:
    """Return the items in an object: those of the list it wraps, itself, or its values."""
    if len(said) == 1 and isinstance(only := next(iter(said.values())), list):
        return only
    if _is_model_class(kind):
        return split_object_mapping(said, kind)
    if kind is str and not any(isinstance(value, str) for key, value in said.items() if str(key) in TEXT_KEYS):
        return list(said.values())
    return [said] if extract_only_text(said) is not None else list(said.values())


def _flatten_nested_lists(said: list[Any], kind: Any) -> list[Any]:
    """Flatten a list of lists. For a class with two fields, a pair of texts is one object."""
    if not said or not all(isinstance(item, list) for item in said):
        return said
    if _is_model_class(kind):
        names = list(kind.model_fields)
        if all(len(item) == len(names) and all(isinstance(text, str) for text in item) for item in said):
            return [dict(zip(names, item, strict=True)) for item in said]
    return [item for inner in said for item in inner]


def _split_items(text: str, kind: Any) -> Any:
    """Split a text into items: JSON or Python, nothing at all, tags, a table, lines, or a row with separators."""
    text = FENCE.sub("", text.strip()).strip()
    if all(line.lstrip().startswith(">") for line in text.splitlines()):
        text = re.sub(r"^\s*>\s?", "", text, flags=re.M).strip()
    if not text or NOTHING.fullmatch(text) or EXPLAINED.fullmatch(text):
        return []
    objects = _is_model_class(kind)
    if objects and NO_MISTAKES.fullmatch(text):
        return []
    text = LEAD_IN.sub("", text)
    if text[0] in "[{\"'(" and (read := _parse_literals(text)) is not None:
        return read
    if kind is int:
        text = re.sub(r"^\s*[-*•]\s+", " ", text, flags=re.M)
        return [int(found) for found in re.findall(r"\d+", text)] if NUMBERS.fullmatch(text) else None
    if text.startswith("<"):
        return _parse_tagged_items(text, kind)
    lines = [line for line in text.splitlines() if line.strip()]
    if all(line.lstrip().startswith("|") for line in lines):
        return parse_table_rows(lines, kind)
    if objects and (found := parse_labelled_objects(text, kind)) is not None:
        return found
    if any(BULLET.match(line) for line in lines):
        return split_bullets(text)
    if len(lines) > 1:
        return lines
    for separator in (";", "；"):
        if separator in text and not objects:
            return [part.strip() for part in text.split(separator) if part.strip()]
    parts = [part.strip() for part in text.split(",")]
    row = kind is str and not text.endswith(".") and not CONDITION.match(text)
    return parts if row and all(2 <= len(part.split()) <= 6 for part in parts) else [text]


def _parse_literals(text: str) -> Any:
    """Parse a text of one literal or several in sequence; None if it holds anything else."""
    found = parse_literal_sequence(text)
    if found is None and text[0] in "[{(":
        return parse_literal(text)
    if not found:
        return None
    only = found[0] if len(found) == 1 else None
    if isinstance(only, str):
        return parse_literal(only.lstrip()) if only.lstrip()[:1] in ("[", "{") else [only]
    return found if only is None else only


def _parse_tagged_items(text: str, kind: Any) -> list[Any] | None:
    """Parse items in tags: texts, or objects whose fields are inner tags."""
    first = re.match(r"<([\w-]+)[^<>]*>[^<]+</", text)
    if _is_model_class(kind) and first and first.group(1).lower() in map_field_synonyms(kind):
        pairs = re.findall(r"<([\w-]+)[^<>]*>\s*(.*?)\s*</\1>", text, re.S)
        return parse_labelled_objects("\n".join(f"{name}: {value}" for name, value in pairs), kind)
    if "</" not in text:
        return None
    found = ELEMENT.findall(text)
    if len(found) == 1 and kind is str and (inner := found[0][1].strip()).startswith("<"):
        return _parse_tagged_items(inner, kind)
    return [dict(ELEMENT.findall(item)) or item.strip() for _, item in found] or None


def is_json_list(text: str) -> bool:
    """Return whether a text is exactly one JSON list."""
    try:
        return isinstance(json.loads(text, strict=False), list)
    except (ValueError, RecursionError):
        return False
