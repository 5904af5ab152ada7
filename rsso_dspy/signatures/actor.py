"""The actor's two scaffolds. Their inputs are the regions of the prompt (`regions.py`), in the order of that table; a
region that a method lacks, or that is empty, is left out of the prompt by the adapter. Layouts send them in an order of
their own (`layouts.py`)."""

from typing import Any

from dspy import History, InputField, OutputField, Signature

from rsso_dspy.regions import REGIONS


def describe_region(name: str) -> Any:
    region = REGIONS[name]
    missing = {} if region.required else {"default": region.kind()}
    return InputField(**({"desc": region.description} if region.description else {}), **missing)


THOUGHT = "what the situation is and what to do about it, in one short sentence"
THOUGHT_ON_PLANS = "what the plans from past attempts say of this, and what to do about it, in one short sentence"
"""What stands in place of `THOUGHT` in a prompt with such plans: a small model that only restates the task acts by
habit, against a plan that it was shown."""


class FlatActor(Signature):
    """You act in a text world, one action at a time, until the task is done.

    If an action that is possible now completes the task, take it. Otherwise take the next step towards it, or look
    where you have not looked yet. When an action changed nothing, take another one. Name things the way the
    observations name them."""

    about: str = describe_region("about")
    action_templates: str = describe_region("action_templates")
    solved_examples: list[str] = describe_region("solved_examples")
    constitution: list[str] = describe_region("constitution")
    plans_from_past_attempts: list[str] = describe_region("plans_from_past_attempts")
    task: str = describe_region("task")
    history: History = describe_region("history")
    progress: str = describe_region("progress")
    notice: str = describe_region("notice")
    observation: str = describe_region("observation")
    possible_actions: list[str] = describe_region("possible_actions")

    thought: str = OutputField(desc=THOUGHT)
    action: str = OutputField(desc="one action, worded like those that are possible, and nothing else")


_SUBGOAL = OutputField(desc="the subgoal of a skill that you pursue, copied word for word, or none")
SkillActor = FlatActor.insert(
    list(FlatActor.input_fields).index("notice"), "skills", describe_region("skills"), list[str]
).insert(1, "subgoal", _SUBGOAL, str)
SkillActor.__name__, SkillActor.__module__ = "SkillActor", __name__
