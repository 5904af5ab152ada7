"""Reflections that go on: what one unit of a stream hands to the next, and what of it a variant may see.

What a variant is shown of others never includes a plan that was written on that variant itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rsso_dspy.memory.nearest import Embed
from rsso_dspy.memory.nearest import find_nearest as rank_texts

MOST_PASSED_ON = 200
"""Plans that a stream passes on at most, the newest: every record of the stream holds them."""


@dataclass(frozen=True, slots=True)
class Reflection:
    """One plan, and the trial it was written after."""

    trial: int
    plan: str
    variant: str = ""
    """Key of the variant, ``task type::index``; empty where no plan leaves its unit."""
    task: str = ""
    """Description of the task, which retrieval compares; empty likewise."""

    @property
    def task_type(self) -> str:
        return self.variant.partition("::")[0]

    def dump(self) -> dict[str, Any]:
        data: dict[str, Any] = {"trial": self.trial, "plan": self.plan}
        return {**data, "variant": self.variant, "task": self.task} if self.variant else data

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Reflection":
        return cls(data["trial"], data["plan"], data.get("variant", ""), data.get("task", ""))


Neighbours = Callable[[str, int, str], Sequence[Reflection]]
"""(task description, number, key of the variant that plays) -> the plans of other variants whose tasks are nearest."""


def pass_on_reflections(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot that the next unit starts from: everything is of others, nothing its own."""
    carried = [*snapshot.get("carried", ()), *snapshot["plans"]][-MOST_PASSED_ON:]
    kept = {"long_term": snapshot["long_term"]} if "long_term" in snapshot else {}
    return {"plans": [], "carried": carried, **kept}


def select_same_type(others: Sequence[Reflection], variant: str, most: int) -> list[Reflection]:
    """The newest plans of a variant's task type, never of the variant itself, oldest first."""
    task_type = variant.partition("::")[0]
    fit = [each for each in others if each.task_type == task_type and each.variant != variant]
    return fit[-most:]


def find_nearest(others: Sequence[Reflection], task: str, variant: str, most: int, embed: Embed) -> list[Reflection]:
    """The plans whose tasks are most similar to a task, never of the variant itself, nearest first; of equals the
    newest."""
    fit = [each for each in reversed(others) if each.variant != variant]
    return [fit[place] for place, _ in rank_texts(embed, task, [each.task for each in fit])[:most]]


def is_similar(plan: str, held: Sequence[str], threshold: float, embed: Embed) -> bool:
    """Whether a plan says what one of those held says: cosine similarity above the threshold."""
    if not held:
        return False
    vectors = embed([plan, *held])
    return bool(np.max(np.round(vectors[1:] @ vectors[0], 9)) > threshold)
