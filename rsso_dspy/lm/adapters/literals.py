"""Parses JSON or Python literals in a text, also broken ones."""

import ast
import json
import re
from typing import Any

import json_repair

MOST_SIGNS, MOST_BRACKETS = 20_000, 60
"""Longer or deeper texts are not passed to json_repair: its time grows with the cube of unclosed brackets."""
OPEN = {"[": "]", "{": "}", "(": ")"}
CALL = re.compile(r"[^\W\d]\w*\(\s*(?=\w+\s*=)")
"""An object written as the call that creates it."""
KEYWORD = re.compile(r"([^\W\d]\w*)\s*=(?!=)")
COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.S)
AFTER_STRING = re.compile(r"\s*(?:[,:;\]})]|$|//|#|/\*|\\n|\s+[\"'{\[])")
WORDS = {"None": "null", "null": "null", "True": "true", "true": "true", "False": "false", "false": "false"}
TOKEN = re.compile(r"-?\d+(?:\.\d+)?|[^\W\d]\w*|\\[nrt]|\s+|.", re.S)
ENDED, VALUE = "]}", "[{"


def parse_literal(text: str) -> Any:
    """Parse the value that a text begins with, starting at its bracket; None if there is none. Tuples and sets become
    lists; a list that was cut off keeps its complete items."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text)[0]
    except (ValueError, RecursionError):
        pass
    bounded = len(text) <= MOST_SIGNS and text.count("{") + text.count("[") <= MOST_BRACKETS
    if bounded and (written := _rewrite_as_json(text)) is not None:
        try:
            return json.loads(written)
        except (ValueError, RecursionError):
            pass
    if "\\" not in text:  # Python warns about unknown escapes
        try:
            if not isinstance(read := ast.literal_eval(text), set):
                return _convert_tuples(read)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            pass
    if not bounded:
        return None
    try:
        return json_repair.loads(text, skip_json_loads=True) or None
    except Exception:  # json_repair may raise anything on arbitrary text
        return None


def parse_literal_sequence(text: str) -> list[Any] | None:
    """Parse a text of complete values separated by commas or lines; None if it holds anything else."""
    decoder, found, position = json.JSONDecoder(strict=False), [], 0
    while position < len(text):
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return None
        found.append(value)
        position = re.compile(r"[\s,]*").match(text, position).end()  # type: ignore[union-attr]
    return found


def _convert_tuples(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_convert_tuples(item) for item in value]
    return {key: _convert_tuples(item) for key, item in value.items()} if isinstance(value, dict) else value


def _rewrite_as_json(text: str) -> str | None:
    """Rewrite the value that a text begins with as JSON; None if it is something else.

    Finds the ends of strings by what follows them, drops comments, adds missing commas, and closes a value that was cut
    off.
    """
    out: list[str] = []
    stack: list[tuple[str, int]] = []
    position = 0
    while position < len(text):
        sign = text[position]
        if sign in "\"'":
            string, end = _scan_string(text, position)
            if string is None:
                return _close_brackets(out, stack)
            _insert_comma(out)
            out.append(json.dumps(string))
            position = end
            continue
        if call := CALL.match(text, position):
            _insert_comma(out)
            stack.append(("(", len(out)))
            out.append("{")
            position = call.end()
            continue
        if keyword := KEYWORD.match(text, position):
            out += [json.dumps(keyword.group(1)), ":"]
            position = keyword.end()
            continue
        comment = COMMENT.match(text, position)
        token = comment or TOKEN.match(text, position)
        position = token.end() if token else len(text)
        word = "" if comment or not token else token.group()
        if not word.strip() or word in ("\\n", "\\r", "\\t"):
            continue
        if word in OPEN:
            _insert_comma(out)
            stack.append((word, len(out)))
            out.append("{" if word == "{" and _is_object(text, position) else "[")
        elif word in OPEN.values():
            if not stack or OPEN[stack[-1][0]] != word:
                return None
            _, begun = stack.pop()
            _drop_trailing_commas(out)
            out.append("}" if out[begun] == "{" else "]")
            if not stack:
                return "".join(out)
        elif word in ",;:":
            out.append("," if word == ";" else word)
        else:
            written = _convert_word(word, text[position : position + 3])
            if written is None:
                return None
            _insert_comma(out)
            out.append(written)
    return _close_brackets(out, stack)


def _scan_string(text: str, start: int) -> tuple[str | None, int]:
    """Return the string that a quote opens and where it ends; None if it is never closed. A quote is part of the string
    unless it is followed by what can follow a string."""
    quote, position = text[start], start + 1
    while (position := text.find(quote, position)) >= 0:
        slashes = len(text[:position]) - len(text[:position].rstrip("\\"))
        if slashes % 2 == 0 and AFTER_STRING.match(text, position + 1):
            inner = text[start + 1 : position]
            try:
                return json.loads(f'"{inner}"', strict=False), position + 1
            except ValueError:
                return inner.replace("\\'", "'").replace('\\"', '"').replace("\\n", "\n"), position + 1
        position += 1
    return None, len(text)


def _is_object(text: str, position: int) -> bool:
    """Return whether a brace opens an object with keys rather than a set."""
    rest = text[position:].lstrip()
    if rest[:1] in ("'", '"'):
        _, end = _scan_string(rest, 0)
        return rest[end:].lstrip()[:1] in (":", "")
    return True


def _convert_word(word: str, ahead: str) -> str | None:
    """Return a number, a constant or a bare key as JSON; None for anything else."""
    if word in WORDS:
        return WORDS[word]
    if re.fullmatch(r"-?\d+(?:\.\d+)?", word):
        return word
    return json.dumps(word) if word[0].isalpha() and ahead.lstrip().startswith(":") else None


def _insert_comma(out: list[str]) -> None:
    """Add a comma if two values follow each other without one."""
    if out and (out[-1][-1] in ENDED or out[-1][0] == '"' or out[-1][0].isalnum()):
        out.append(",")


def _drop_trailing_commas(out: list[str]) -> None:
    while out and out[-1] == ",":
        out.pop()


def _close_brackets(out: list[str], stack: list[tuple[str, int]]) -> str | None:
    """Close a value that was cut off after the last complete item of the innermost list. None if no list is open: then
    a single value was cut, and its rest may be what matters."""
    if not any(out[begun] == "[" for _, begun in stack):
        return None
    if out[stack[-1][1]] == "{" and (out[-1] in (":", ",") or not _is_entry_complete(out, stack[-1][1])):
        del out[stack.pop()[1] :]
    while stack:
        _drop_trailing_commas(out)
        out.append("]" if out[stack.pop()[1]] == "[" else "}")
    return "".join(out)


def _is_entry_complete(out: list[str], begun: int) -> bool:
    """Return whether the written part of an object ends with a value."""
    return len(out) > begun + 3 and out[-2] == ":"
