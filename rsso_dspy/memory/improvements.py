"""The eight improvements of the reflection memory: their settings, plans that go on to other variants, what remains of
plans that leave, and a reflection as one text.

What a variant is shown of others never includes a plan that was written on that variant itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from rsso_dspy.memory import Embed, find_nearest
from rsso_dspy.records import Trajectory

Improvement = Literal[
    "structured", "loops", "hierarchical", "across-tasks", "adaptive", "novelty", "counterfactual", "retrieval"
]
"""structured: failed action pattern, root cause, missing exploration, strategy adjustment, priority locations.
loops: the reflector is told of semantic loops. hierarchical: plans that leave are distilled into a long-term memory.
across-tasks: plans go on to the next variants of their task type. adaptive: five plans are shown after five failures.
novelty: a plan that says what an earlier one says is not kept. counterfactual: the critical step, what should have been
done, the expected outcome. retrieval: plans of other units, by similarity of the tasks."""

IMPROVEMENTS: tuple[Improvement, ...] = get_args(Improvement)

WIDE = 5
"""Plans that an adaptive window shows, after as many failures."""


@dataclass(frozen=True, slots=True)
class ReflectionSettings:
    """Without improvements, the release of Reflexion: the last three plans."""

    size: int = 3
    """Plans kept and shown."""
    improvements: frozenset[str] = frozenset()
    """Those of `IMPROVEMENTS` that are on."""
    novelty_threshold: float = 0.85
    """Cosine similarity from which on a plan says what an earlier one says."""
    retrieved: int = 3
    """Plans of other units that retrieval shows."""
    index: str | None = None
    """Folder of the run whose reflections retrieval reads; without one it reads what the stream passes on."""

    def has(self, improvement: Improvement) -> bool:
        return improvement in self.improvements

    @property
    def is_passed_on(self) -> bool:
        """Whether plans go from each unit of a stream to the next."""
        return self.has("across-tasks") or (self.has("retrieval") and self.index is None)

    @property
    def tells_variants_apart(self) -> bool:
        """Whether a plan has to say which variant it was written on."""
        return self.has("across-tasks") or self.has("retrieval")

    @property
    def most_kept(self) -> int:
        """Plans that one unit keeps at most."""
        return max(self.size, WIDE) if self.has("adaptive") else self.size


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
        return asdict(self) if self.variant else {"trial": self.trial, "plan": self.plan}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> "Reflection":
        """Read what `dump` wrote. Raises `KeyError`, `TypeError` or `ValueError` for other data."""
        if not isinstance(data["plan"], str) or type(data["trial"]) is not int or data["trial"] < 0:
            raise ValueError("a reflection is a text and the number of a trial")
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
    return [each for each in others if each.task_type == task_type and each.variant != variant][-most:]


def select_nearest(others: Sequence[Reflection], task: str, variant: str, most: int, embed: Embed) -> list[Reflection]:
    """The plans whose tasks are most similar to a task, never of the variant itself, nearest first, equals in their
    order."""
    fit = [each for each in others if each.variant != variant]
    return [fit[place] for place, _ in find_nearest(embed, task, [each.task for each in fit])[:most]]


def is_similar(plan: str, held: Sequence[str], threshold: float, embed: Embed) -> bool:
    """Whether a plan says what one of those held says: cosine similarity above the threshold."""
    if not held:
        return False
    vectors = embed([plan, *held])
    return bool(np.max(np.round(vectors[1:] @ vectors[0], 9)) > threshold)


MOST_LINES = 10
"""Lines of each kind, and task types with a strategy: what a prompt has room for. The newest stay."""
MOST_CHARACTERS = 300
"""Characters of a line; a longer one is cut."""


@dataclass(frozen=True, slots=True)
class LongTerm:
    """The long-term part of a hierarchical memory: what never to do, what always to do, a strategy per task type."""

    never: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    strategies: dict[str, str] = field(default_factory=dict)
    """Task type to its strategy, the newest last."""
    learnt_on: tuple[str, ...] = ()
    """Keys of the variants whose plans it was distilled from."""

    @property
    def text(self) -> str:
        """What a prompt shows, one line each; empty when nothing was distilled."""
        lines = []
        for heading, listed in (("Never do:", self.never), ("Always do:", self.always)):
            lines += [heading, *(f"- {line}" for line in listed)] if listed else []
        return "\n".join([*lines, *(f"Strategy for {task}: {said}" for task, said in self.strategies.items())])

    def replace_lines(
        self, task: str, never: Sequence[str], always: Sequence[str], strategy: str, learnt_on: Sequence[str]
    ) -> "LongTerm":
        """The long-term part after a distillation, within its bounds."""
        strategies = {name: said for name, said in self.strategies.items() if name != task}
        if said := _clean_line(strategy) or self.strategies.get(task, ""):
            strategies[task] = said
        return LongTerm(
            _bound_lines(never) or self.never,
            _bound_lines(always) or self.always,
            dict(list(strategies.items())[-MOST_LINES:]),
            tuple(dict.fromkeys([*self.learnt_on, *learnt_on])),
        )

    def describe(self, task_type: str, plans: Sequence[str]) -> dict[str, Any]:
        """The inputs of the module that distils plans of a task type into it."""
        return {
            "task_type": task_type,
            "known_never": list(self.never),
            "known_always": list(self.always),
            "known_strategy": self.strategies.get(task_type, ""),
            "plans": "\n\n".join(f"Attempt {number}: {plan}" for number, plan in enumerate(plans, start=1)),
        }

    def dump(self) -> dict[str, Any]:
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def load(cls, data: dict[str, Any]) -> "LongTerm":
        """Read what `dump` wrote. Raises `KeyError` or `TypeError` for other data."""
        return cls(tuple(data["never"]), tuple(data["always"]), dict(data["strategies"]), tuple(data["learnt_on"]))


def _clean_line(line: str) -> str:
    return " ".join(str(line).split())[:MOST_CHARACTERS]


def _bound_lines(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, map(_clean_line, lines))))[-MOST_LINES:]


_LABELS = {
    "failed_action_pattern": "Failed action pattern",
    "root_cause": "Root cause",
    "missing_exploration": "Missing exploration",
    "strategy_adjustment": "Strategy adjustment",
    "priority_locations": "Priority locations",
}


def compose_reflection(said: Any, trajectory: Trajectory) -> str:
    """A reflector's answer as one text: what went wrong, what the improvements add, the plan."""
    lines = [str(said.what_went_wrong)]
    for name, label in _LABELS.items():
        value = said.get(name)
        if text := ", ".join(map(str, value)) if isinstance(value, list) else str(value or "").strip():
            lines.append(f"{label}: {text}")
    number = said.get("critical_step")
    if isinstance(number, int) and 1 <= number <= len(trajectory.steps):
        lines.append(f"Critical step: {number}, {trajectory.steps[number - 1].action or 'no action'}")
        for name, label in (("should_have_done", "Instead"), ("expected_outcome", "Expected")):
            if text := str(said.get(name) or "").strip():
                lines.append(f"{label}: {text}")
    return "\n".join([*lines, str(said.plan)]).strip()
