"""Finds the fields of an answer in a text: as entries of an object, or in sections below headers of several kinds."""

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any

from rsso_dspy.lm.adapters.field_names import ENVIRONMENT, normalize_field_name, select_known_fields, strip_sentence
from rsso_dspy.lm.adapters.literals import parse_literal

HEADERS = {
    "bracket": re.compile(
        r"(?:^[ \t]*(?:#{1,6}[ \t]+|[*_]{1,3}|[->][ \t]+))?(?<![`\[])(?:\[\[|\[(?=\s*##))\s*#{0,3}\s*"
        r"(?P<name>[^\W\d][\w \-]{0,40}?)\s*:?\s*#{0,3}\s*\]\]?[*_]{0,3}[ \t]*:?"
        r"|^[ \t]*##\s*(?P<hashed>[^\W\d][\w \-]{0,40}?)\s*##[ \t]*$",
        re.M,
    ),
    "tag": re.compile(
        r"<(?P<slash>/?)(?P<name>[^\W\d][\w\-]{0,40})(?:\s+[\w:-]+\s*=\s*(?:\"[^\"<>]*\"|'[^'<>]*'))*\s*>"
    ),
    "label": re.compile(
        r"^[ \t]*(?:[-*•>+]\s+|\d+[.)]\s+)?(?:\#{1,6}[ \t]*)?[*_`\"']{0,3}(?P<name>[^\W\d_][\w \-]{0,40}?)"
        r"(?:[ \t]*\d+)?[*_`\"']{0,3}(?:[ \t]*[:：=]|[ \t]+[-–—](?=[ \t]))[ \t]*[*_]{0,3}",
        re.M,
    ),
    "heading": re.compile(r"^[ \t]*(?:\#{1,6}[ \t]*\*{0,2}|\*\*)(?P<name>[^\W\d_][\w \-]{0,40}?)\*{0,2}[ \t]*$", re.M),
    "inline": re.compile(
        r"(?:(?<=[.!?;。！？])[ \t]*|^[ \t]*)[*_`]{0,3}(?P<name>[^\W\d_][\w \-]{0,25}?)[*_`]{0,3}[:：][*_]{0,3}", re.M
    ),
}
CALL = re.compile(r"\b[A-Za-z_]\w*\(\s*\w+\s*=")
KEY = re.compile(r"[\w \-]{1,40}(?=\\?[\"'”]?\s*:)")
DEPTH = 4
"""Maximum depth at which an object is searched for the answer."""
ATTEMPTS = 10
"""Maximum number of braces in a text that are tried as the start of the answer."""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """One way to read an answer: output field to its raw value, and the text before the first field."""

    said: Mapping[str, Any]
    before: str = ""
    loose: bool = True
    """Whether the values were cut out of a text and may have marks around them; False for entries of an object."""


@dataclass(frozen=True, slots=True)
class FieldHeader:
    """A place in a text where a section begins: of an output field, of no field (None), or of the other side's turn.
    A section of no field is left out, and after the last field it ends the answer."""

    start: int
    end: int
    name: str | None
    turn: bool
    tag: bool


def parse_sections(text: str, known: Mapping[str, str], kinds: str) -> ParsedAnswer:
    """Parse the first answer in sections below headers of these kinds."""
    headers = _find_headers(text, known, kinds.split())
    last = next(reversed(dict.fromkeys(known.values())), "")
    said: dict[str, Any] = {}
    for number, header in enumerate(headers, start=1):
        if said and (header.turn or (header.name is None and not header.tag and last in said)):
            break
        if header.name is None:
            continue
        section = text[header.end : headers[number].start if number < len(headers) else len(text)].strip()
        section = unescape(section) if header.tag else section
        if header.name not in said:
            said[header.name] = section
        elif said.keys() >= set(known.values()):
            break
        elif header.name == last and said[header.name] != section:
            return ParsedAnswer({})
    named = [header.start for header in headers if header.name]
    return ParsedAnswer(said, text[: named[0]] if named else "")


def _find_headers(text: str, known: Mapping[str, str], kinds: list[str]) -> list[FieldHeader]:
    found = [
        header
        for kind in kinds
        for match in HEADERS[kind].finditer(text)
        if (header := _match_header(match, kind, known))
    ]
    found.sort(key=lambda header: (header.start, -header.end))
    apart: list[FieldHeader] = []
    free = 0
    for header in found:
        if header.start >= free:
            apart.append(header)
            free = _find_section_start(text, header) if header.tag else header.end
    return apart


def _find_section_start(text: str, header: FieldHeader) -> int:
    """Return where an element's closing tag begins, since inner tags are content; the tag's own end if it is never
    closed."""
    if not header.name:
        return header.end
    closing = text.find(f"</{text[header.start + 1 : header.end - 1].split()[0]}>", header.end)
    return closing if closing >= 0 else header.end


def _match_header(match: re.Match[str], kind: str, known: Mapping[str, str]) -> FieldHeader | None:
    groups = match.groupdict()
    word = normalize_field_name(groups["name"] or groups.get("hashed") or "")
    name = known.get(word) or (known.get(strip_sentence(word)) if len(set(known.values())) == 1 else None)
    if kind == "tag" and groups["slash"]:
        return FieldHeader(match.start(), match.end(), None, False, True) if name else None
    if name is None and kind != "bracket" and word not in ENVIRONMENT:
        return None
    return FieldHeader(match.start(), match.end(), name, word in ENVIRONMENT and name is None, kind == "tag")


def iter_object_answers(text: str, known: Mapping[str, str]) -> Iterator[ParsedAnswer]:
    """Yield the answers in objects of the text: JSON or Python, whole or broken, or a call with field names."""
    if call := CALL.search(text):
        yield ParsedAnswer(
            select_known_fields(_parse_call_keywords(text[call.start() :]), known), text[: call.start()], False
        )
    if re.match(r"\s*[\"']\w+[\"']\s*:", text):
        text = "{" + text + "}"
    position = text.find("{")
    for _ in range(ATTEMPTS):
        if position < 0:
            return
        snippet = text[position : _find_object_end(text, position)]
        if re.match(r"\{\s*[\"'“\w/#]", snippet) and any(
            normalize_field_name(key) in known for key in KEY.findall(snippet)
        ):
            found = _collect_answers(parse_literal(snippet), known, 0)
            if len(found) == 1:
                yield ParsedAnswer(found[0], text[:position], False)
                return
            if len(found) > 1:
                return
        position = text.find("{", position + 1)


def _collect_answers(value: Any, known: Mapping[str, str], depth: int) -> list[dict[str, Any]]:
    """Collect the answers in an object: itself, or those below its keys; of a list, the first that has any."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = parse_literal(value.lstrip())
    if isinstance(value, list):
        return next((found for item in value if (found := _collect_answers(item, known, depth + 1))), [])
    if not isinstance(value, Mapping) or depth > DEPTH:
        return []
    own = select_known_fields(value, known)
    below = [answer for child in value.values() for answer in _collect_answers(child, known, depth + 1)]
    fuller = [answer for answer in below if len(answer) > len(own)]
    return fuller or ([own] if own else below)


def _find_object_end(text: str, start: int) -> int:
    """Return the end of the object that begins at `start`; the text's end if it is not closed. Ignores braces in
    quotes."""
    depth, quote, escaped = 0, "", False
    for position in range(start, len(text)):
        sign = text[position]
        if escaped:
            escaped = False
        elif sign == "\\":
            escaped = True
        elif quote:
            quote = "" if sign == quote else quote
        elif sign == '"':
            quote = sign
        elif sign in "{}":
            depth += 1 if sign == "{" else -1
            if not depth:
                return position + 1
    return len(text)


def _parse_call_keywords(text: str) -> dict[str, Any]:
    """Parse the keyword arguments of a Python call at the start of the text."""
    for end in [match.end() for match in re.finditer(r"\)", text)][:ATTEMPTS]:
        try:
            call = ast.parse(text[:end], mode="eval").body
            return {word.arg or "": ast.literal_eval(word.value) for word in getattr(call, "keywords", ())}
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return {}
