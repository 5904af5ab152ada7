"""Converts whatever a model wrote for a field to the field's type."""

import re
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin

from dspy.adapters.utils import annotation_allows_none, parse_value
from pydantic.fields import FieldInfo

from rsso_dspy.lm.adapters.list_values import NOTHING, extract_only_text, parse_list_items


def is_text_field(info: FieldInfo) -> bool:
    return _unwrap_optional_type(info) is str


def is_list_field(info: FieldInfo) -> bool:
    return get_origin(_unwrap_optional_type(info)) is list


def is_optional_field(info: FieldInfo) -> bool:
    return not info.is_required() or annotation_allows_none(info.annotation)


def is_single_value(info: FieldInfo) -> bool:
    """Return whether the field's description asks for one thing, so that several values contradict each other."""
    return re.match(r"(?:one|a|an)\b", _get_field_description(info), re.I) is not None


def convert_value(said: Any, info: FieldInfo) -> Any:
    """Convert a value to the field's type; None if it is missing or unclear."""
    core = _unwrap_optional_type(info)
    if core is str:
        return _convert_text(said, info)
    if get_origin(core) is list:
        said = parse_list_items(said, (get_args(core) or (str,))[0])
    if said is None or said == "":
        return None
    try:
        return parse_value(said, info.annotation)
    except Exception:  # json_repair and pydantic, on anything a model may say
        return None


def _unwrap_optional_type(info: FieldInfo) -> Any:
    kinds = [kind for kind in get_args(info.annotation) if kind is not type(None)]
    alternatives = get_origin(info.annotation) in (Union, types.UnionType)
    return kinds[0] if alternatives and len(kinds) == 1 else info.annotation


def _get_field_description(info: FieldInfo) -> str:
    extra = info.json_schema_extra
    return str(extra.get("desc", "")) if isinstance(extra, dict) else ""


def _convert_text(said: Any, info: FieldInfo) -> str | None:
    if isinstance(said, Mapping):
        said = extract_only_text(said)
    if isinstance(said, list):
        texts = [text for item in said if (text := _convert_text(item, info))]
        if len(texts) < len(said) or (is_single_value(info) and len(set(texts)) > 1):
            return None
        said = texts[0] if is_single_value(info) and texts else "\n".join(texts)
    if said is None or (isinstance(said, str) and not said.strip()):
        offers_none = re.search(r"\bnone\b", _get_field_description(info), re.I) and not is_optional_field(info)
        return "none" if offers_none else None
    if isinstance(said, str) and is_single_value(info) and NOTHING.fullmatch(said.strip()):
        return said.strip() if re.search(r"\bnone\b", _get_field_description(info), re.I) else None
    return said.strip() if isinstance(said, str) else str(said)
