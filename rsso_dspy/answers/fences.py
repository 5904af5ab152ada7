"""Fenced blocks of an answer: what stands in one is code, and no part of the answer's form.

    find_fences("```python\\nx = '```'\\n```")[0].content       # "x = '```'"

As in Markdown, a fence is three backticks or tildes or more at the beginning of a line, and a block ends at a line that
holds nothing but as many of the same, or more. A fence that is indented by four or more is code itself. A block that
nothing ends goes to the end of the text. A label may stand ahead of the opening fence.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

OPENING = re.compile(
    r"""
      ^ [ ]{0,3}
      (?: [^\s`~] [^`~\n]* : [*_]* [ \t]* )?
      (?P<fence> `{3,} | ~{3,} ) (?P<info> [^`\n]* ) \n
    """,
    re.X | re.M,
)
"""A line that opens a block: a fence with what it says of its content, behind a label where there is one."""

HOLDERS = ("\ue000", "\ue001")
"""Letters that no text uses, around the number of a block that is held back."""


@dataclass(frozen=True, slots=True)
class Fenced:
    start: int
    """Where the fence begins that opens the block."""
    end: int
    begin: int
    """Where its content begins."""
    stop: int
    """Where its content ends."""
    content: str
    info: str


def find_fences(text: str) -> list[Fenced]:
    """Return the fenced blocks of a text, in order."""
    blocks = []
    place = 0
    while opening := OPENING.search(text, place):
        fence = opening["fence"]
        closing = _find_closing(text, opening.end(), fence)
        stop, end = closing or _end_at_last_line(text, opening.end(), fence)
        content = text[opening.end() : stop]
        blocks.append(Fenced(opening.start("fence"), end, opening.end(), stop, content, opening["info"].strip()))
        place = max(end, opening.end())
    return blocks


def _find_closing(text: str, begin: int, fence: str) -> tuple[int, int] | None:
    """Return where the content and the block end."""
    mark = re.escape(fence[0])
    line = re.compile(rf"^ {{0,3}}{mark}{{{len(fence)},}}[ \t]*$", re.M).search(text, begin)
    return (max(begin, line.start() - 1), line.end()) if line else None


def _end_at_last_line(text: str, begin: int, fence: str) -> tuple[int, int]:
    """Return where a block ends that no line ends: at a fence behind its last line, or with the text."""
    trimmed = text.rstrip()
    if trimmed.endswith(fence) and len(trimmed) - len(fence) >= begin:
        return len(trimmed) - len(fence), len(trimmed)
    return len(trimmed) if len(trimmed) > begin else begin, len(text)


def mask_fences(text: str) -> str:
    """Return a text of the same length in which no letter stands in a fenced block: what looks like a label there is
    none."""
    for block in find_fences(text):
        hidden = re.sub(r"[^\n]", "\0", text[block.start : block.end])
        text = text[: block.start] + hidden + text[block.end :]
    return text


def hold_fences(text: str, is_code: Callable[[Fenced], bool]) -> tuple[str, list[str]]:
    """Return a text with a number in place of the content of each block that is code, and these contents."""
    if any(letter in text for letter in HOLDERS):
        return text, []
    contents: list[str] = []
    parts = []
    place = 0
    for block in find_fences(text):
        if is_code(block):
            parts.append(f"{text[place : block.begin]}{HOLDERS[0]}{len(contents)}{HOLDERS[1]}")
            contents.append(block.content)
            place = block.stop
    return "".join([*parts, text[place:]]), contents


def put_back(text: str, contents: list[str]) -> str:
    """Return a text with the contents that were held back."""
    return (
        re.sub(rf"{HOLDERS[0]}(\d+){HOLDERS[1]}", lambda number: contents[int(number[1])], text) if contents else text
    )
