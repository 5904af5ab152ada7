"""A list from whatever a model gave for it: texts, numbers, or objects of a class.

Lists of texts and of objects are what models get wrong most. Here is what the forms they use have in common; how one
object is read stands in `models.py`. An object of which a field is missing is left out, unless it is all there is.
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
"""Where the text stands when an object was given for a text."""
ITEM_KEYS = (*TEXT_KEYS, "description", "progress", "fact")
"""Where it stands in an item of a list."""
ABOUT = frozenset(
    {"id", "category", "type", "kind", "priority", "confidence", "importance", "status", "index", "number", "source"}
)
"""Keys of what is said about a text."""
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
    """The items of a list in whatever form, each an object, text or number as `kind` wants it; None when unclear."""
    if said is None:
        return []
    objects = isinstance(kind, type) and issubclass(kind, BaseModel)
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
    if objects:
        return parse_models([item for item in said if not _is_empty_item(item, kind)], kind)
    found = [_convert_item(item, kind) for item in said if not _is_empty_item(item, kind)]
    return None if any(item is None for item in found) else found


def extract_only_text(said: Mapping[str, Any]) -> Any:
    """The text of an object with a text key, or of one that holds nothing else; None otherwise."""
    for key in TEXT_KEYS:
        if isinstance(said.get(key), str):
            return said[key]
    texts = list(said.values())
    return texts[0] if len(texts) == 1 and isinstance(texts[0], str) else None


def _extract_item_text(said: Mapping[str, Any]) -> Any:
    """The text of an item, whatever else is said about it."""
    lower = {str(key).lower(): value for key, value in said.items()}
    for key in ITEM_KEYS:
        if isinstance(lower.get(key), str):
            return lower[key]
    return extract_only_text({key: value for key, value in lower.items() if key not in ABOUT})


def split_bullets(text: str) -> list[str]:
    """One item a bullet. A line without one goes on with the item above, unless there is a blank line between: then
    the list is over. What stands before the first is a lead-in."""
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
    """Whether an item says that there is none."""
    if isinstance(item, str):
        nothing = kind is not int and NOTHING.fullmatch(item.strip()) is not None
        return (
            not item.strip() or nothing or (_is_model_class(kind) and NO_MISTAKES.fullmatch(item.strip()) is not None)
        )
    if isinstance(item, Mapping) and _is_model_class(kind) and item:
        return all(value is None or (isinstance(value, str) and _is_empty_item(value, str)) for value in item.values())
    return item is None or item == {}


def _is_ellipsis(item: Any) -> bool:
    """Whether an item only says that there are more."""
    return item is ... or (isinstance(item, str) and DOTS.fullmatch(item.strip()) is not None)


def _is_model_class(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _convert_item(said: Any, kind: Any) -> Any:
    if kind is str:
        said = _extract_item_text(said) if isinstance(said, Mapping) else said
        return _strip_item_quotes(str(said).strip()) if isinstance(said, str | int | float) else None
    if kind is int:
        said = _extract_only_number(said) if isinstance(said, Mapping) else said
        if isinstance(said, str):
            found = re.findall(r"\d+", said) if NUMBERS.fullmatch(said) else []
            return int(found[0]) if len(found) == 1 else None
        return said if isinstance(said, int) else None
    return said


def _strip_item_quotes(text: str) -> str:
    wrapped = QUOTED.fullmatch(text)
    return wrapped.group(2).strip() if wrapped and wrapped.group(1) not in wrapped.group(2) else text


def _extract_only_number(said: Mapping[str, Any]) -> Any:
    return next((value for value in said.values() if isinstance(value, int)), None) if len(said) == 1 else None


def _unwrap_mapping(said: Mapping[str, Any], kind: Any) -> list[Any]:
    """The items in an object: those of the list it wraps, itself, or its values."""
    if len(said) == 1 and isinstance(only := next(iter(said.values())), list):
        return only
    if _is_model_class(kind):
        return split_object_mapping(said, kind)
    if kind is str and not any(isinstance(value, str) for key, value in said.items() if str(key) in TEXT_KEYS):
        return list(said.values())
    return [said] if extract_only_text(said) is not None else list(said.values())


def _flatten_nested_lists(said: list[Any], kind: Any) -> list[Any]:
    """A list of lists as one list. A pair of texts is an object with two fields."""
    if not said or not all(isinstance(item, list) for item in said):
        return said
    if _is_model_class(kind):
        names = list(kind.model_fields)
        if all(len(item) == len(names) and all(isinstance(text, str) for text in item) for item in said):
            return [dict(zip(names, item, strict=True)) for item in said]
    return [item for inner in said for item in inner]


def _split_items(text: str, kind: Any) -> Any:
    """The items in a text: JSON or Python, nothing at all, tags, a table, lines, or a row with separators."""
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
    """What literals in a text hold: one, or several one after the other; None when it holds others things too."""
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
    """The items in tags: texts, or objects whose fields are tags in them."""
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
    """Whether a text is nothing but a list in JSON."""
    try:
        return isinstance(json.loads(text, strict=False), list)
    except (ValueError, RecursionError):
        return False
