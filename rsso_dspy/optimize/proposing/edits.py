"""Edits of an instruction: a proposal adds, changes and drops a few lines, and leaves the rest word for word.

    number_lines(instruction)                               # what a proposer sees
    apply_edits(instruction, ["add: Wait.", "drop 3"])      # the instruction that is played, and what was done

The sentences of the text that people wrote are its lines; what proposals add stands below a heading, a line each.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from rsso_dspy.environments.grammar import normalize_words

HEADING = "Advice from earlier attempts:"
"""The line between the text that people wrote and the lines that proposals added."""
MOST_EDITS = 4
"""Maximum edits of one proposal."""
LONGEST_LINE = 700
"""Maximum characters of an added line."""
MOST_LINES = 24
"""Maximum lines below the heading."""

_SENTENCES = re.compile(r"(?<=[.!?])(\s+)")
_EDIT = re.compile(
    r"^\s*[-*•]?\s*(add|change|replace|drop|remove|delete)\s*(?:line\s*)?#?(\d+)?\s*[:.)-]?\s*(.*)$", re.I | re.S
)
_SAME = {"replace": "change", "remove": "drop", "delete": "drop"}


@dataclass(frozen=True, slots=True)
class Edit:
    """One line, added, changed or dropped."""

    op: Literal["add", "change", "drop"]
    text: str = ""
    """The new line; empty for a dropped one."""
    line: str = ""
    """The line that is changed or dropped; empty for an added one."""

    def __str__(self) -> str:
        if self.op == "add":
            return f"+ {self.text}"
        return f"- {self.line}" + (f"\n+ {self.text}" if self.text else "")


@dataclass(frozen=True, slots=True)
class InstructionLines:
    """An instruction split into lines."""

    pieces: tuple[str, ...]
    """Sentences of the text that people wrote, alternating with the white space between them."""
    added: tuple[str, ...]
    """Lines below the heading."""

    @property
    def lines(self) -> list[str]:
        """All lines, as they are numbered from 1."""
        return [*(" ".join(piece.split()) for piece in self.pieces[::2]), *self.added]


def split_lines(instruction: str) -> InstructionLines:
    """The lines of an instruction."""
    base, _, below = instruction.partition(HEADING)
    added = tuple(line.strip().removeprefix("- ").strip() for line in below.splitlines() if line.strip(" -"))
    return InstructionLines(tuple(_SENTENCES.split(base.strip())), added)


def number_lines(instruction: str) -> str:
    """The instruction as a proposer sees it, its lines numbered."""
    parts = split_lines(instruction)
    numbered = [f"{number}. {line}" for number, line in enumerate(parts.lines, start=1)]
    own = len(numbered) - len(parts.added)
    return "\n".join([*numbered[:own], *([HEADING, *numbered[own:]] if parts.added else [])])


def apply_edits(instruction: str, said: Iterable[str]) -> tuple[str, list[Edit]]:
    """The instruction with the first `MOST_EDITS` valid edits applied, and these edits. An edit that says nothing new,
    names no line or is too long is left out. Without any valid edit the instruction is unchanged."""
    parts = split_lines(instruction)
    lines: list[str | None] = list(parts.lines)
    edits: list[Edit] = []
    for text in said:
        edit = _read_edit(text, parts.lines)
        if edit is None or len(edits) >= MOST_EDITS:
            continue
        if edit.text and normalize_words(edit.text) in {normalize_words(line) for line in lines if line}:
            continue
        if edit.op == "add":
            if sum(line is not None for line in lines[len(parts.pieces[::2]) :]) >= MOST_LINES:
                continue
            lines.append(edit.text)
        else:
            at = parts.lines.index(edit.line)
            if lines[at] != edit.line:
                continue  # a second edit of the same line
            lines[at] = edit.text or None
        edits.append(edit)
    return (_join_lines(parts, lines) if edits else instruction), edits


def _read_edit(text: str, lines: Sequence[str]) -> Edit | None:
    match = _EDIT.match(text)
    if match is None:
        return None
    op, number, rest = match[1].lower(), int(match[2] or 0), " ".join(match[3].split()).strip(" -\"'`")
    op = _SAME.get(op, op)
    if op == "add":
        return Edit("add", rest) if rest and len(rest) <= LONGEST_LINE and HEADING not in rest else None
    if not 1 <= number <= len(lines) or len(rest) > LONGEST_LINE or HEADING in rest:
        return None
    if op == "drop":
        return Edit("drop", line=lines[number - 1])
    return Edit("change", rest, lines[number - 1]) if rest and rest != lines[number - 1] else None


def _join_lines(parts: InstructionLines, lines: Sequence[str | None]) -> str:
    """Join the lines. The text that people wrote keeps its line breaks where its sentences are unchanged."""
    own = len(parts.pieces[::2])
    base = ""
    for at, line in enumerate(lines[:own]):
        if line is not None:
            piece = parts.pieces[2 * at] if line == parts.lines[at] else line
            base += (parts.pieces[2 * at - 1] if base else "") + piece
    added = [f"- {line}" for line in lines[own:] if line is not None]
    return f"{base}\n\n{HEADING}\n" + "\n".join(added) if added else base
