"""The reflector's call, made after a failed trial (Reflexion, section 3; rSSO, section 2.3), the fields that its
improvements add, and the distillation of plans that leave a hierarchical memory."""

from functools import lru_cache
from typing import Any

import dspy


class Reflect(dspy.Signature):
    """You attempted a task in a simulated world and did not complete it. Study the record of the attempt and find the
    decisions that cost you the task: things searched for in the wrong place, a wrong object chosen, a step left out,
    actions that were not understood, time spent in circles. Do not retell the attempt.

    Then write a plan for the next attempt at the same task that avoids these mistakes. Name the places, the objects
    and the actions, keep what is known to have worked, and do not propose again what earlier plans already tried
    without success."""

    task: str = dspy.InputField(desc="what had to be achieved")
    earlier_plans: list[str] = dspy.InputField(desc="the plans written after attempts before this one", default=[])
    transcript: str = dspy.InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = dspy.InputField(desc="how the attempt ended, and at which steps the score changed")

    what_went_wrong: str = dspy.OutputField(desc="the mistakes that decided the outcome, concretely")
    plan: str = dspy.OutputField(desc="what to do differently next time, as short imperative sentences")


DrawPattern = (
    Reflect.delete("what_went_wrong")
    .with_updated_fields("plan", desc="how to go about tasks of this type, as short imperative sentences")
    .with_instructions(
        "You attempted a task in a simulated world and completed it. Study the record and find what made it succeed: "
        "where things were found, which actions earned points, in which order, and which were not needed. Then write "
        "for other tasks of this type what to do again, and leave out what belongs to this task alone."
    )
)
"""What the reflector is asked after a success instead."""

LOOPS = "loops"  # input field of the improvement that tells of semantic loops
ADDED_INPUTS = (LOOPS,)
ADDED_FIELDS: dict[str, dict[str, tuple[Any, str]]] = {
    "loops": {LOOPS: (str, "where the attempt went in circles; the plan has to break them")},
    "structured": {
        "failed_action_pattern": (str, "the kind of action that failed, and how often"),
        "root_cause": (str, "why the attempt failed, in one sentence"),
        "missing_exploration": (str, "what was never looked at or tried; none if nothing"),
        "strategy_adjustment": (str, "what to change in the strategy, in one sentence"),
        "priority_locations": (list[str], "places to go to first next time, the most promising first"),
    },
    "counterfactual": {
        "critical_step": (int, "number of the step at which the attempt was lost; 0 if there is none"),
        "should_have_done": (str, "the action that would have been right at that step"),
        "expected_outcome": (str, "what that action would have led to"),
    },
}
"""Improvement to the fields that it adds, inputs ahead of `outcome`, outputs ahead of `plan`: type and description."""


@lru_cache(maxsize=64)
def add_reflection_fields(signature: Any, improvements: frozenset[str]) -> Any:
    """A reflector's signature with the fields of these improvements; the same object when it lacks none. Cached, as
    building a signature class is dear."""
    for improvement in sorted(improvements):
        for name, (kind, description) in ADDED_FIELDS.get(improvement, {}).items():
            if name in signature.fields:
                continue
            fields, following, field = signature.output_fields, "plan", dspy.OutputField(desc=description)
            if name in ADDED_INPUTS:
                fields, following = signature.input_fields, "outcome"
                field = dspy.InputField(desc=description, default="")
            signature = signature.insert(list(fields).index(following), name, field, kind)
    return signature


class DistillReflections(dspy.Signature):
    """Plans that a player wrote after failed attempts at tasks of one type are about to be forgotten. Keep what holds
    beyond the attempts they were written after.

    Merge it with the lists that stand already: state every rule once, in as few words as it needs, keep what still
    holds, drop what the plans have shown to be wrong, and invent nothing. Leave out names that belong to a single
    attempt."""

    task_type: str = dspy.InputField(desc="the type of the tasks")
    known_never: list[str] = dspy.InputField(desc="what stands already of what never to do")
    known_always: list[str] = dspy.InputField(desc="what stands already of what always to do")
    known_strategy: str = dspy.InputField(desc="the strategy for this type of task so far", default="")
    plans: str = dspy.InputField(desc="the plans that are about to be forgotten, oldest first")

    never: list[str] = dspy.OutputField(desc="what never to do, at most ten short sentences that begin with Do not")
    always: list[str] = dspy.OutputField(desc="what always to do, at most ten short imperative sentences")
    strategy: str = dspy.OutputField(desc="how to go about tasks of this type, in one or two sentences")
