"""The actor's answers as records, whatever the scaffold, and its signature with more regions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.programs.methods import Scaffold
from rsso_dspy.signatures.actor import FlatActor, SkillActor

SCAFFOLDS: dict[Scaffold, Any] = {"flat": FlatActor, "sso": SkillActor}
"""Scaffold to the class of its signature."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The actor's answer. ``subgoal`` is the target of a recalled skill or None; ``rejected`` is the given subgoal if
    it was not offered."""

    action: str
    reasoning: str
    subgoal: str | None
    rejected: str = ""


@lru_cache(maxsize=64)
def add_regions(signature: type[dspy.Signature], regions: tuple[tuple[str, str], ...]) -> type[dspy.Signature]:
    """Add regions, given by name and description, before the history of an actor's signature."""
    for name, description in regions:
        place = list(signature.input_fields).index("history")
        signature = signature.insert(place, name, dspy.InputField(desc=description, default=""), str)
    return signature


def read_answer(prediction: dspy.Prediction, scaffold: Scaffold, targets: Sequence[str]) -> Answer:
    """Convert a prediction of the actor. `targets` are the offered subgoals."""
    if scaffold == "flat":
        return Answer(first_line(prediction.action), prediction.get("thought") or "", None)
    said = str(prediction.get("current_subgoal") or "").strip()
    subgoal = choose_target(said, targets)
    rejected = "" if subgoal is not None or _NO_SUBGOAL.fullmatch(said) else said[:LONGEST_REJECTED]
    return Answer(first_line(prediction.next_action), prediction.get("reasoning") or "", subgoal, rejected)


LONGEST_REJECTED = 500
"""Maximum characters kept of a subgoal that was not offered."""

_NO_SUBGOAL = re.compile(r"\W*(?:none|null|nil|n/?a|no(?: current)? subgoal|not applicable|nothing)?\W*", re.I)
_NUMBERED = re.compile(r"(?:(?:current )?subgoal|option|skill)? ?(\d+)(?: (.*))?")


def choose_target(text: str, targets: Sequence[str]) -> str | None:
    """Return the target that the text names; None if it names none.

    The text may be a copy of the target, apart from case, punctuation and spacing, with or without `Subgoal n:`, or the
    target's number alone.
    """

    def normalize_words(value: str) -> str:
        return " ".join(re.findall(r"[^\W_]+", value.lower()))

    wanted = normalize_words(text)
    copied = next((target for target in targets if normalize_words(target) == wanted), None)
    numbered = _NUMBERED.fullmatch(wanted)
    if copied is not None or numbered is None:
        return copied
    number, said = numbered.groups()
    if said is None:
        return targets[int(number) - 1] if 1 <= int(number) <= len(targets) else None
    return next((target for target in targets if normalize_words(target) == said), None)


_LABEL = re.compile(r"^[*_`]*(?:(?:my|the|your) )?(?:next )?(?:action|command|answer)[*_`]*\s*[:：=][*_`]*\s*", re.I)
_LIST_MARK = re.compile(r"^\s*(?:[-*>•]\s+|\d+[.)]\s+)")


def first_line(text: Any) -> str:
    """Return the first line that is not empty, without what may surround an action: list numbers, bullets, a label,
    quotes, bold or code marks, a final period."""
    for line in str(text or "").splitlines():
        cleaned, before = line.strip(), None
        while cleaned != before:
            before = cleaned
            cleaned = _LABEL.sub("", _LIST_MARK.sub("", cleaned)).strip("`\"'*_“” ").rstrip(".!").strip()
        if cleaned:
            return cleaned
    return ""
