"""The memories beside reflections, skills and constitution: a row each, which says what one is made of.

A memory is a file in `rsso_dspy/memory/` and a row here; one that asks a model has a signature in
`signatures/memory_writers.py` and a row in `modules.py`, and one with a region of its own a row in `regions.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import dspy

from rsso_dspy.memory import Memory
from rsso_dspy.memory.ace import Playbook, PlaybookReview
from rsso_dspy.memory.awm import AgentWorkflowMemory, WorkflowText
from rsso_dspy.memory.cheatsheet import Cheatsheet
from rsso_dspy.memory.constitution.rules import clean_rule_text
from rsso_dspy.memory.expel import Expel, InsightChange
from rsso_dspy.memory.exprag import ExpRag
from rsso_dspy.memory.past_attempts import PastAttempts
from rsso_dspy.memory.reasoningbank import ReasoningBank, StrategyText
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.records import Trajectory


class Asks(Protocol):
    """What a builder takes of the `Roles` of an agent, which explain it."""

    passed_on: tuple[str, ...]

    def ask(self, name: str, method: str = "", /, **inputs: Any) -> dspy.Prediction | None: ...

    def tell_transcript(self, trajectory: Trajectory) -> str: ...

    def tell_outcome(self, trajectory: Trajectory) -> str: ...


MemoryBuilder = Callable[[Any, Runtime], Memory]
"""Makes a fresh memory for a unit, from the `Roles` of its agent and the `Runtime`."""


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """One memory. Calling the row builds the memory."""

    build: MemoryBuilder
    region: str = ""
    """The region that it fills; one that the actor's signature lacks is added. Empty for a memory of another package
    whose method names its regions itself."""
    modules: tuple[str, ...] = ()
    """The modules that it asks."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Role to the most calls that it makes after a trial."""

    def __call__(self, roles: Any, runtime: Runtime) -> Memory:
        return self.build(roles, runtime)


def tell_attempt(roles: Asks, trajectory: Trajectory) -> str:
    return f"{roles.tell_transcript(trajectory)}\n{roles.tell_outcome(trajectory)}"


def _build_last_trajectory(roles: Asks, runtime: Runtime) -> Memory:
    shared = "last-trajectory" in roles.passed_on
    return PastAttempts(partial(tell_attempt, roles), runtime.entries, shared, last=True)


def _build_long_context(roles: Asks, runtime: Runtime) -> Memory:
    return PastAttempts(partial(tell_attempt, roles), runtime.entries, "long-context" in roles.passed_on)


def _build_exprag(roles: Asks, runtime: Runtime) -> Memory:
    return ExpRag(partial(tell_attempt, roles), runtime.embed, runtime.entries, "exprag" in roles.passed_on)


def _build_expel(roles: Asks, runtime: Runtime) -> Memory:
    def revise(task: str, known: Sequence[str], failed: str, solved: Sequence[str]) -> list[InsightChange] | None:
        said = roles.ask(
            "insight_writer",
            task=task,
            known_insights=list(known),
            failed_attempt=failed,
            successful_attempts=list(solved),
        )
        return said and [
            InsightChange(edit.operation.lower(), edit.number, clean_rule_text(edit.text))
            for edit in said.insight_edits or ()
        ]

    return Expel(revise, partial(tell_attempt, roles), runtime.entries, "expel" in roles.passed_on)


def _build_awm(roles: Asks, runtime: Runtime) -> Memory:
    def induce(attempt: Trajectory, known: Sequence[str]) -> list[WorkflowText] | None:
        said = roles.ask("workflow_writer", known_workflows=list(known), **_tell_fields(roles, attempt))
        return said and [
            WorkflowText(clean_rule_text(each.description), tuple(filter(None, map(clean_rule_text, each.steps))))
            for each in said.workflows or ()
        ]

    return AgentWorkflowMemory(induce, runtime.entries, "awm" in roles.passed_on)


def _build_reasoningbank(roles: Asks, runtime: Runtime) -> Memory:
    def extract(attempt: Trajectory) -> list[StrategyText] | None:
        said = roles.ask("strategy_writer", **_tell_fields(roles, attempt))
        return said and [
            StrategyText(clean_rule_text(each.title), clean_rule_text(each.description), clean_rule_text(each.content))
            for each in said.strategies or ()
        ]

    return ReasoningBank(extract, runtime.embed, runtime.entries, "reasoningbank" in roles.passed_on)


def _build_ace(roles: Asks, runtime: Runtime) -> Memory:
    def review(attempt: Trajectory, playbook: str) -> PlaybookReview | None:
        said = roles.ask("playbook_reviewer", playbook=playbook, **_tell_fields(roles, attempt))
        return said and PlaybookReview(
            {each.id: each.tag for each in said.bullet_tags or ()},
            tuple(filter(None, map(clean_rule_text, said.new_bullets or ()))),
        )

    return Playbook(review, runtime.embed, runtime.entries, "ace" in roles.passed_on)


def _build_cheatsheet(roles: Asks, runtime: Runtime) -> Memory:
    def rewrite(attempt: Trajectory, sheet: str) -> str | None:
        said = roles.ask("cheatsheet_writer", cheatsheet=sheet, **_tell_fields(roles, attempt))
        return said and "\n".join(filter(None, map(clean_rule_text, str(said.new_cheatsheet or "").splitlines())))

    return Cheatsheet(rewrite, runtime.entries, "cheatsheet" in roles.passed_on)


def _tell_fields(roles: Asks, attempt: Trajectory) -> dict[str, str]:
    """An attempt as the input fields of a writer."""
    transcript, outcome = roles.tell_transcript(attempt), roles.tell_outcome(attempt)
    return {"task": attempt.task, "attempt": transcript, "outcome": outcome}


MEMORY_ROWS: dict[str, MemoryRow] = {
    "last-trajectory": MemoryRow(_build_last_trajectory, "past_attempts"),
    "long-context": MemoryRow(_build_long_context, "past_attempts"),
    "exprag": MemoryRow(_build_exprag, "experience"),
    "expel": MemoryRow(_build_expel, "constitution", ("insight_writer",), {"advisor": 2}),
    "awm": MemoryRow(_build_awm, "skills", ("workflow_writer",), {"verbalizer": 1}),
    "reasoningbank": MemoryRow(_build_reasoningbank, "past_strategies", ("strategy_writer",), {"verbalizer": 1}),
    "ace": MemoryRow(_build_ace, "constitution", ("playbook_reviewer",), {"reflector": 1}),
    "cheatsheet": MemoryRow(_build_cheatsheet, "constitution", ("cheatsheet_writer",), {"advisor": 1}),
}
"""Name to memory, beside those of the papers that this package reproduces."""
