"""Builds objects of a pydantic class from objects, lines, tables and labelled texts."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError

from rsso_dspy.lm.adapters.literals import parse_literal

SYNONYMS = {
    "mistake": ("error", "problem", "wrong", "issue", "mistakemade", "errormade", "whatwentwrong", "mistakes",
                "errors"),
    "solution": ("fix", "correction", "instead", "correct", "remedy", "resolution", "whattodoinstead", "insteaddo",
                 "correctaction", "solutions", "fixes"),
}  # fmt: skip
"""Synonyms of fields, normalized."""
ARROW = re.compile(r"\s?(?:-{1,3}>|→|={1,3}>|⇒)\s?")
SIDES = re.compile(r"^\s*(?:[-*•–+]|\(?\d+[.):])?\s*", re.M)
HEADER_LINE = re.compile(
    r"\s*(?:#{1,6}\s*)?[*_]*(?:error|mistake|rule|item)s?(?:\s+rules?)?\s*#?\d*[*_]*\s*:?[*_]*\s*", re.I
)
TRAILING = re.compile(r"[\s|;,(]{0,20}(?:\n\s{0,20}(?:[-*•–+]|\(?\d+[.):]))?[\s*_`\"']{0,20}\Z")


def parse_models(said: Sequence[Any], kind: type[BaseModel]) -> list[BaseModel] | None:
    """Parse the objects of a class in a list. Items that are no such object are left out; None if all are."""
    texts = [item for item in said if isinstance(item, str)]
    if texts and len(texts) == len(said) and (found := parse_labelled_objects("\n".join(texts), kind)) is not None:
        said = found
    read = [one for item in said if (one := parse_model(item, kind)) is not None]
    return None if said and not read else read


def parse_model(said: Any, kind: type[BaseModel]) -> BaseModel | None:
    """Parse an object, or a line such as ``Mistake: ... Solution: ...`` or ``... -> ...``, as the class."""
    if isinstance(said, str) and said.lstrip().startswith("{"):
        said = parse_literal(said.lstrip())
    if isinstance(said, str):
        found = parse_labelled_objects(said, kind)
        said = found[0] if found and len(found) == 1 else None
    if not isinstance(said, Mapping):
        return None
    if len(said) == 1:
        return _parse_single_entry(said, kind)
    meant = map_field_synonyms(kind)
    renamed: dict[str, Any] = {}
    for key, value in said.items():
        if name := meant.get(_normalize_key(key)):
            only = value[0] if isinstance(value, list) and len(value) == 1 else value
            renamed.setdefault(name, "" if only is None else only)
    try:
        return kind.model_validate(renamed)
    except ValidationError:
        return None


def parse_labelled_objects(text: str, kind: type[BaseModel]) -> list[dict[str, str]] | None:
    """Parse the objects in a text whose fields have labels, in order, or arrows between them; None if the text has
    another form."""
    names, meant = list(kind.model_fields), map_field_synonyms(kind)
    found = list(_compile_label_pattern(tuple(meant)).finditer(text))
    ends = [*(mark.start() for mark in found[1:]), len(text)][: len(found)]
    said = [
        (meant[mark.group(1).lower()], value)
        for mark, end in zip(found, ends, strict=True)
        if (value := _trim_field_value(text[mark.end() : end]))
    ]
    before = text[: found[0].start()].splitlines() if found else []
    if len(said) >= len(names) and all(HEADER_LINE.fullmatch(line) for line in before if SIDES.sub("", line).strip()):
        values = [value for _, value in said]
        if [name for name, _ in said] != names * (len(said) // len(names)):
            return None
        return [
            dict(zip(names, values[start : start + len(names)], strict=True))
            for start in range(0, len(values), len(names))
        ]
    if len(said) == 1 == len(names) - 1 and said[0][0] == names[1]:
        first = _trim_field_value(SIDES.sub("", text[: found[0].start()].rstrip("( "), count=1))
        return [{names[0]: first, names[1]: said[0][1]}] if first else None
    lines = [SIDES.sub("", line).strip() for line in text.splitlines() if line.strip()]
    parts = [ARROW.split(line) for line in lines]
    if parts and all(len(row) == len(names) and all(row) for row in parts):
        return [dict(zip(names, map(_trim_field_value, row), strict=True)) for row in parts]
    return None


@lru_cache(maxsize=8)
def _compile_label_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern for any of the words as a label, at the start of a line or after punctuation."""
    ahead = r"(?:^|(?<=[.!?;|,(\"'\s]))[\s|]{0,20}(?:[-*•–+]\s+|\(?\d+[.):]\s+)?[*_`\"']*\b"
    behind = r"(?:[ _]*\d+)?[*_`\"']*[ \t]*[:：][*_]*[ \t]*"
    return re.compile(rf"{ahead}({'|'.join(sorted(words, key=len, reverse=True))}){behind}", re.I | re.M)


def split_object_mapping(said: Mapping[str, Any], kind: type[BaseModel]) -> list[Any]:
    """Split an object into the objects it holds: itself, those below its keys, or those with numbered fields or fields
    in lists."""
    meant = map_field_synonyms(kind)
    named = [key for key in said if meant.get(_normalize_key(key))]
    lists = {
        meant[_normalize_key(key)]: value for key, value in said.items() if key in named and isinstance(value, list)
    }
    if len(lists) == len(kind.model_fields) and len({len(value) for value in lists.values()}) == 1:
        return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]
    groups: dict[str, dict[str, Any]] = {}
    for key in named:
        number = re.search(r"\d*\s*$", str(key))
        groups.setdefault(number.group() if number else "", {})[meant[_normalize_key(key)]] = said[key]
    if named and not all(isinstance(said[key], Mapping) for key in named):
        return list(groups.values())
    if all(isinstance(value, str) for value in said.values()):
        return [{key: value} for key, value in said.items()]
    return list(said.values())


def parse_table_rows(lines: Sequence[str], kind: Any) -> list[Any] | None:
    """Parse the rows of a table: objects whose fields are its columns, or the texts of its only column with texts."""
    cells = [[cell.strip(" *`") for cell in line.strip().strip("|").split("|")] for line in lines]
    cells = [row for row in cells if not all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    if len(cells) < 2 or len({len(row) for row in cells}) > 1:
        return None
    header, *body = cells
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return [dict(zip(header, row, strict=True)) for row in body]
    columns = [list(column) for column in zip(*body, strict=True)]
    texts = [column for column in columns if not all(re.fullmatch(r"\W*\w?\d*\W*", cell) for cell in column)]
    return texts[0] if len(texts) == 1 else None


def _parse_single_entry(said: Mapping[str, Any], kind: type[BaseModel]) -> BaseModel | None:
    """Parse a single entry: an object below its key, or a sentence as key with another one as value."""
    (key, value), names = next(iter(said.items())), list(kind.model_fields)
    if isinstance(value, Mapping):
        return parse_model(value, kind)
    sentence = isinstance(value, str) and len(str(key).split()) > 2 and len(names) == 2
    return kind.model_validate(dict(zip(names, (key, value), strict=True))) if sentence else None


def map_field_synonyms(kind: type[BaseModel]) -> dict[str, str]:
    """Map normalized names and synonyms to fields."""
    found = {_normalize_key(name): name for name in kind.model_fields}
    for name in kind.model_fields:
        for word in SYNONYMS.get(name, ()):
            found.setdefault(word, name)
    return found


def _normalize_key(key: Any) -> str:
    return re.sub(r"[\W_]+|\d+\s*$", "", str(key).lower())


def _trim_field_value(text: str) -> str:
    """Trim a value: marks, the separator, and the header of the next object after it."""
    lines = text.strip().splitlines()
    while len(lines) > 1 and HEADER_LINE.fullmatch(lines[-1]):
        lines.pop()
    text = TRAILING.sub("", "\n".join(lines)).strip()
    text = text.removesuffix(")") if text.count(")") > text.count("(") else text
    wrapped = re.fullmatch(r"([\"'`])(.+)", text, re.S)
    return wrapped.group(2) if wrapped and wrapped.group(1) not in wrapped.group(2) else text
