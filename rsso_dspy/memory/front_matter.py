"""The front matter of a Markdown file, read strictly: a small part of YAML, of bounded size, in which nothing is run.

    fields, body = parse_front_matter(text, "web/SKILL.md")     # {"name": "web", "metadata": {"commit": "..."}}

Understood are ``key: value`` with plain or quoted values, texts over several lines (``|`` and ``>``), and one level of
nested pairs. Lists are kept as their lines. Anchors, aliases, tags and merge keys are refused: other readers give them
meanings that a text cannot show.
"""

import json
import re
from collections.abc import Mapping

from rsso_dspy.errors import UsageError

MOST_BYTES = 1_000_000
"""Size of a whole file."""
MOST_FRONT = 16_000
"""Characters of the front matter."""
MARK = "---"

FrontMatter = dict[str, str | dict[str, str]]

_PAIR = re.compile(r"([A-Za-z][\w-]{0,63}):(?:\s+(.*))?")
_FORBIDDEN = re.compile(r"[&*!]|<<:|[%@`]")


def parse_front_matter(text: str, where: str) -> tuple[FrontMatter, str]:
    """Parse the fields and the body. Raises `UsageError` that names the file, the line and the fault."""
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise UsageError(f"{where} is larger than {MOST_BYTES:,} bytes; it is not read")
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != MARK:
        raise UsageError(f"{where}, line 1: a front matter begins with {MARK}")
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == MARK), None)
    if end is None:
        raise UsageError(f"{where}: the front matter has no closing {MARK}")
    front = lines[1:end]
    if sum(map(len, front)) > MOST_FRONT:
        raise UsageError(f"{where}: the front matter is longer than {MOST_FRONT:,} characters")
    return _parse_fields(front, where), "\n".join(lines[end + 1 :]).strip("\n")


def _parse_fields(front: list[str], where: str) -> FrontMatter:
    fields: FrontMatter = {}
    number = 0
    while number < len(front):
        line, place = front[number], f"{where}, line {number + 2}"
        number += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, value = _split_pair(line, place)
        if key in fields:
            raise UsageError(f"{place}: {key} stands there twice")
        block = []
        while number < len(front) and (not front[number].strip() or front[number][0] in " \t-"):
            block.append(front[number])
            number += 1
        fields[key] = _parse_value(value, block, place)
    return fields


def _split_pair(line: str, place: str) -> tuple[str, str]:
    found = _PAIR.fullmatch(line.rstrip())
    if found is None:
        raise UsageError(f"{place} is no `key: value`: {line.strip()[:80]!r}")
    return found[1], found[2] or ""


def _parse_value(value: str, block: list[str], place: str) -> str | dict[str, str]:
    """The value behind a key, and the lines under it."""
    inner = [line for line in block if line.strip()]
    if value[:1] in ("|", ">"):
        return ("\n" if value[0] == "|" else " ").join(line.strip() for line in block).strip()
    if value or not inner:
        joined = " ".join([value, *(line.strip() for line in inner)])
        return _parse_scalar(joined.strip(), place)
    if inner[0].lstrip().startswith("-"):
        return "\n".join(line.strip() for line in inner)
    pairs: dict[str, str] = {}
    for line in inner:
        key, said = _split_pair(line.strip(), place)
        if key in pairs:
            raise UsageError(f"{place}: {key} stands there twice")
        pairs[key] = _parse_scalar(said, place)
    return pairs


def _parse_scalar(value: str, place: str) -> str:
    if value.startswith('"'):
        try:
            said = json.loads(value)
        except ValueError:
            raise UsageError(f"{place}: the quotes of {value[:80]!r} do not match") from None
        return str(said)
    if value.startswith("'"):
        if len(value) < 2 or not value.endswith("'"):
            raise UsageError(f"{place}: the quotes of {value[:80]!r} do not match")
        return value[1:-1].replace("''", "'")
    if _FORBIDDEN.match(value):
        raise UsageError(f"{place}: anchors, aliases and tags of YAML are refused; quote {value[:80]!r}")
    return value


def render_front_matter(fields: Mapping[str, str | Mapping[str, str]]) -> str:
    """Render fields, with values in double quotes where they need them."""
    lines = [MARK]
    for key, value in fields.items():
        if isinstance(value, str):
            lines.append(f"{key}: {_quote(value)}")
        else:
            lines += [f"{key}:", *(f"  {name}: {_quote(said)}" for name, said in value.items())]
    return "\n".join([*lines, MARK]) + "\n"


def _quote(value: str) -> str:
    plain = re.fullmatch(r"[a-z][a-z0-9-]*", value) and value not in ("true", "false", "null", "yes", "no", "on", "off")
    return value if plain else json.dumps(value, ensure_ascii=False)
