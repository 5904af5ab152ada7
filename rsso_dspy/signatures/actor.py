"""The actor's two scaffolds. Their inputs are the regions of the prompt (`regions.py`), in the order of that table; a
region that a method lacks, or that is empty, is left out of the prompt by the adapter."""

from typing import Any

import dspy

from rsso_dspy.regions import REGIONS


def describe_region(name: str) -> Any:
    """The input field of a region, as the table of regions describes it."""
    region = REGIONS[name]
    missing = {} if region.required else {"default": [] if region.kind == list[str] else ""}
    return dspy.InputField(**({"desc": region.description} if region.description else {}), **missing)


THOUGHT = "what the situation is and what to do about it, in one short sentence"
ACTION = "one action, worded like those that are possible, and nothing else"


class FlatActor(dspy.Signature):
    """You act in a text world, one action at a time, until the task is done.

    If an action that is possible now completes the task, take it. Otherwise take the next step towards it, or look
    where you have not looked yet. When an action changed nothing, take another one. Name things the way the
    observations name them."""

    about: str = describe_region("about")
    action_templates: str = describe_region("action_templates")
    constitution: list[str] = describe_region("constitution")
    plans_from_past_attempts: list[str] = describe_region("plans_from_past_attempts")
    task: str = describe_region("task")
    history: dspy.History = describe_region("history")
    progress: str = describe_region("progress")
    notice: str = describe_region("notice")
    observation: str = describe_region("observation")
    possible_actions: list[str] = describe_region("possible_actions")

    thought: str = dspy.OutputField(desc=THOUGHT)
    action: str = dspy.OutputField(desc=ACTION)


_SUBGOAL = dspy.OutputField(desc="the subgoal of a skill that you pursue, copied word for word, or none")
SkillActor = FlatActor.insert(
    list(FlatActor.input_fields).index("notice"), "skills", describe_region("skills"), list[str]
).insert(1, "subgoal", _SUBGOAL, str)
SkillActor.__name__, SkillActor.__module__ = "SkillActor", __name__
