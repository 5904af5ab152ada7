"""Objects of an answer that stand in no fence, on one line or several: what stands in one is no part of the answer's
form.

    find_objects('Thought: Milk.\\nAction: {\\n  "action": "buy"\\n}')[0].keys        # {"action"}

An object stands on lines of its own, or behind a label. Its brackets are closed, and a text in quotes ends on its line.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

OPENING = re.compile(r"^ (?: [^\s{}\[\]] [^{}\n]* : [*_]* )? [ \t]* (?= \{ | \[ \s* \{ )", re.X | re.M)
"""What stands ahead of an object on its first line."""

TOKEN = re.compile(
    r""" "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | (?P<opening>[{\[]) | (?P<closing>[}\]]) | ["'] """, re.X
)
"""A text in quotes, a bracket, or the quote of a text that does not end on its line."""

MOST_OPENINGS = 20
"""Most objects of a text that are looked at."""


@dataclass(frozen=True, slots=True)
class Object:
    start: int
    end: int
    content: str

    @property
    def keys(self) -> frozenset[str]:
        """Its keys; none where it is a list, or no JSON."""
        with suppress(ValueError, RecursionError):
            value = json.loads(self.content)
            return frozenset(value) if isinstance(value, dict) else frozenset()
        return frozenset()


def find_objects(text: str) -> list[Object]:
    """Return the objects of a text, in order, without those inside of others."""
    objects: list[Object] = []
    for begin in _list_openings(text):
        if objects and begin < objects[-1].end:
            continue
        end = _find_end(text, begin)
        line, _, _ = text[end:].partition("\n")
        if end > begin and not line.strip():
            objects.append(Object(begin, end, text[begin:end]))
    return objects


def _list_openings(text: str) -> Iterator[int]:
    for number, opening in enumerate(OPENING.finditer(text)):
        if number == MOST_OPENINGS:
            return
        yield opening.end()


def _find_end(text: str, begin: int) -> int:
    """Return where the bracket is closed that opens an object; `begin` where none closes it."""
    depth = 0
    for token in TOKEN.finditer(text, begin):
        if token["opening"]:
            depth += 1
        elif token["closing"]:
            depth -= 1
            if depth == 0:
                return token.end()
        elif len(token[0]) == 1:
            return begin
    return begin


def mask_objects(text: str) -> str:
    """Return a text of the same length in which no letter stands in an object."""
    for item in find_objects(text):
        text = text[: item.start] + re.sub(r"[^\n]", "\0", item.content) + text[item.end :]
    return text


def join_lines(text: str) -> str:
    """Return a text that is one object as one line; another text as it is."""
    objects = find_objects(text)
    if len(objects) == 1 and objects[0].content == text.strip():
        return " ".join(line.strip() for line in text.strip().splitlines())
    return text


def close_cut(text: str) -> str:
    """Return an object that was cut off up to the last item of a list that is whole, and closed; an empty text if there
    is none."""
    closed = ""
    open_brackets: list[str] = []
    for token in TOKEN.finditer(text):
        if token["opening"]:
            open_brackets.append("]" if token[0] == "[" else "}")
            continue
        if token["closing"] and open_brackets:
            open_brackets.pop()
        elif len(token[0]) == 1:
            break
        is_item = token["closing"] is not None or open_brackets[-1:] == ["]"]
        if open_brackets and is_item:
            closed = text[: token.end()] + "".join(reversed(open_brackets))
    return closed
