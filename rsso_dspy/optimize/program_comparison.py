"""How two programs differ, role by role and sentence by sentence.

    compare_programs(build_side(load("one.json"), "one"), build_side(None, "zero-shot", "rsso"))     # what compiling
    changed

Nothing is read, played or printed here.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from rsso_dspy.optimize.compiled import Compiled, PredictorState
from rsso_dspy.optimize.prompt_texts import list_changed_fields, list_demonstrations
from rsso_dspy.programs.agent import Agent

Op = Literal["same", "removed", "added", "changed"]

_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)])\s)|(?<=:)\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_ALIKE = 0.5
"""Share of common words from which on two sentences are one sentence, changed."""


@dataclass(frozen=True, slots=True)
class ProgramSide:
    """One of two programs that are compared."""

    name: str
    method: str
    state: Mapping[str, PredictorState]


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """A sentence or a line of two instructions, next to each other."""

    op: Op
    a: str
    b: str
    words: tuple[tuple[Op, str], ...] = ()
    """For a changed row its words in order, removed ones before those that replaced them."""


@dataclass(frozen=True, slots=True)
class RoleDifference:
    """How one predictor differs. A predictor that one side lacks counts as one without words."""

    name: str
    changed: bool
    rows: tuple[AlignedRow, ...]
    respaced: bool
    """The instructions have the same words, with other spaces or line breaks between them."""
    fields: tuple[str, ...]
    """Fields whose words differ."""
    added: tuple[dict[str, str], ...]
    """Demonstrations."""
    removed: tuple[dict[str, str], ...]
    kept: int
    """How many demonstrations both have."""


def build_side(compiled: Compiled | None, name: str, method: str = "") -> ProgramSide:
    """One side of a comparison: a compiled program, its unconfirmed candidate where there is one, or the zero-shot
    program of a method."""
    if compiled is None:
        return ProgramSide(name, method, Agent(method).dump_state())
    return ProgramSide(name, compiled.method, compiled.chosen_state)


def compare_programs(a: ProgramSide, b: ProgramSide) -> tuple[RoleDifference, ...]:
    """What changes from one program to the other, role by role: those of the first in order, then those it lacks."""
    return tuple(_compare_role(name, a.state.get(name), b.state.get(name)) for name in {**a.state, **b.state})


def _compare_role(name: str, a: PredictorState | None, b: PredictorState | None) -> RoleDifference:
    ours, theirs = (list_demonstrations(state) for state in (a, b))
    one, other = (state["signature"]["instructions"] if state else "" for state in (a, b))
    rows = tuple(align_sentences(one, other))
    return RoleDifference(
        name,
        changed=a is None or b is None or a["signature"] != b["signature"] or ours != theirs,
        rows=rows,
        respaced=one != other and all(row.op == "same" for row in rows),
        fields=list_changed_fields(a, b) if a and b else (),
        added=tuple(demo for demo in theirs if demo not in ours),
        removed=tuple(demo for demo in ours if demo not in theirs),
        kept=sum(demo in theirs for demo in ours),
    )


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs and list lines of an instruction, each on one line, however its source was wrapped."""
    return [" ".join(part.split()) for part in _BREAK.split(text) if part.strip()]


def align_sentences(a: str, b: str) -> Iterator[AlignedRow]:
    """Sentences and list lines of two instructions, side by side."""
    ours, theirs = ([unit for part in split_paragraphs(text) for unit in _SENTENCE.split(part)] for text in (a, b))
    for op, a0, a1, b0, b1 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if op == "equal":
            yield from (AlignedRow("same", unit, unit) for unit in ours[a0:a1])
        else:
            yield from _pair_changed_sentences(ours[a0:a1], theirs[b0:b1])


def _pair_changed_sentences(removed: Sequence[str], added: Sequence[str]) -> Iterator[AlignedRow]:
    """Pair sentences that replaced others: two that are much alike count as one changed sentence."""
    left = list(removed)
    for new in added:
        old = next((unit for unit in left if _measure_similarity(unit, new) >= _ALIKE), None)
        if old is None:
            yield AlignedRow("added", "", new)
            continue
        for gone in left[: left.index(old)]:
            yield AlignedRow("removed", gone, "")
        left = left[left.index(old) + 1 :]
        yield AlignedRow("changed", old, new, tuple(_diff_words(old, new)))
    for gone in left:
        yield AlignedRow("removed", gone, "")


def _measure_similarity(a: str, b: str) -> float:
    return SequenceMatcher(None, a.split(), b.split(), autojunk=False).ratio()


def _diff_words(a: str, b: str) -> Iterator[tuple[Op, str]]:
    ours, theirs = a.split(), b.split()
    for op, a0, a1, b0, b1 in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        if op == "equal":
            yield "same", " ".join(ours[a0:a1])
            continue
        if a1 > a0:
            yield "removed", " ".join(ours[a0:a1])
        if b1 > b0:
            yield "added", " ".join(theirs[b0:b1])
