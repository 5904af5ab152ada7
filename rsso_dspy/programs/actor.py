"""The actor's answers as records, whatever the scaffold, and its signature with a method's own regions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.programs.methods import Method, Scaffold
from rsso_dspy.signatures import FlatActor, SkillActor

SCAFFOLDS: dict[Scaffold, Any] = {"flat": FlatActor, "sso": SkillActor}
"""Scaffold to the class of its signature."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the actor said. ``subgoal`` is the target of a recalled skill, or None."""

    action: str
    reasoning: str
    subgoal: str | None


def actor_signature(method: Method) -> type[dspy.Signature]:
    """The signature of the method's actor: its scaffold's, with the regions of its own memories before the history."""
    return add_regions(SCAFFOLDS[method.scaffold], method.regions)


@lru_cache(maxsize=64)
def add_regions(signature: type[dspy.Signature], regions: tuple[tuple[str, str], ...]) -> type[dspy.Signature]:
    """An actor's signature with these regions, name and description, before the history."""
    for name, description in regions:
        place = list(signature.input_fields).index("history")
        signature = signature.insert(place, name, dspy.InputField(desc=description, default=""), str)
    return signature


def read_answer(prediction: dspy.Prediction, scaffold: Scaffold, targets: Sequence[str]) -> Answer:
    """A prediction of the actor as a record. `targets` are the subgoals that it was offered."""
    if scaffold == "flat":
        return Answer(first_line(prediction.action), prediction.get("thought") or "", None)
    subgoal = choose_target(prediction.get("current_subgoal") or "", targets)
    return Answer(first_line(prediction.next_action), prediction.get("reasoning") or "", subgoal)


def choose_target(text: str, targets: Sequence[str]) -> str | None:
    """The target that was copied, up to case, punctuation and spacing; None when it is no target."""

    def words(value: str) -> str:
        return " ".join(re.findall(r"[^\W_]+", value.lower()))

    wanted = words(text)
    return next((target for target in targets if words(target) == wanted), None)


def first_line(text: Any) -> str:
    """The first line that says something, without list numbers, bullets, quotes or code marks around it."""
    for line in str(text or "").splitlines():
        cleaned = re.sub(r"^\s*(?:[-*>•]\s+|\d+[.)]\s+)?", "", line).strip().strip("`\"'").strip()
        if cleaned:
            return cleaned
    return ""
