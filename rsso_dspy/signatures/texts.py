"""Values of fields as a prompt shows them: a label, a colon, and plain text.

show_field("possible_actions", ["open door", "wait"])       # "Possible actions: open door; wait"
"""

import json
from collections.abc import Mapping
from typing import Any

from dspy.adapters.utils import serialize_for_json
from pydantic import BaseModel

from rsso_dspy.regions import join_items, list_items


def label(name: str) -> str:
    """Return a field's name as it is shown: `possible_actions` as "Possible actions"."""
    words = name.replace("_", " ").strip()
    return words[:1].upper() + words[1:]


def show(value: Any) -> str:
    """Return a value as text: an object in one line, a label ahead of each of its fields."""
    if value in (None, [], (), {}):
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, BaseModel | Mapping):
        return _show_object(value)
    if isinstance(value, list | tuple):
        has_objects = any(isinstance(item, BaseModel | Mapping) for item in value)
        return (list_items if has_objects else join_items)([show(item) for item in value])
    return json.dumps(serialize_for_json(value))


def _show_object(value: BaseModel | Mapping[Any, Any]) -> str:
    fields = value.model_dump() if isinstance(value, BaseModel) else value
    parts = []
    for name, content in fields.items():
        if text := show(content):
            part = f"{label(str(name))}: {text}"
            parts.append(part if part.endswith((".", "!", "?")) else f"{part};")
    return " ".join(parts).removesuffix(";")


def show_field(name: str, value: Any, description: str = "") -> str:
    """Return a field with its label, and its description in brackets; an empty text for an empty value."""
    text = show(value)
    if not text.strip():
        return ""
    heading = f"{label(name)} ({description})" if description else label(name)
    return f"{heading}:\n{text}" if "\n" in text or text.startswith("- ") else f"{heading}: {text}"


def read_description(name: str, field: Any) -> str:
    """Return what a signature says of a field; an empty text where it only repeats the name, as DSPy does."""
    description = ((field.json_schema_extra or {}).get("desc") or "").strip()
    return "" if description == f"${{{name}}}" else description
