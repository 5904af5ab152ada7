"""The actor's two scaffolds. Their inputs are the regions of the prompt (`regions.py`), in the order of that table; a
region that a method lacks, or that is empty, is left out of the prompt by the adapter."""

from typing import Any

import dspy

from rsso_dspy.regions import REGIONS


def describe_region(name: str) -> Any:
    """The input field of a region, as the table of regions describes it."""
    region = REGIONS[name]
    missing = {} if region.required else {"default": ""}
    return dspy.InputField(desc=region.description, **missing)


class FlatActor(dspy.Signature):
    """You are playing a text game that simulates a science laboratory and its surroundings. Solve the task by one
    action at a time.

    First think: what did the last action change, what is still missing, where could it be found? Then give exactly
    one action that fits one of the action templates, naming things the way the observations name them. Do not repeat
    an action that had no effect."""

    constitution: str = describe_region("constitution")
    plans_from_past_attempts: str = describe_region("plans_from_past_attempts")
    task: str = describe_region("task")
    progress: str = describe_region("progress")
    action_templates: str = describe_region("action_templates")
    history: str = describe_region("history")

    thought: str = dspy.OutputField(desc="what the situation is and what to do about it, in a few sentences")
    action: str = dspy.OutputField(desc="one action in the form of a template, nothing else")


class SkillActor(dspy.Signature):
    """You are playing a text game that simulates a science laboratory and its surroundings. Solve the task by one
    action at a time. You may be offered subgoals with instructions that led to them before: you may pursue one of
    them or none.

    Reason about the effect of your last action and lay out a plan. Then copy, word for word, the subgoal you are
    pursuing, or write none. Then give exactly one action that fits one of the action templates, naming things the
    way the observations name them."""

    constitution: str = describe_region("constitution")
    plans_from_past_attempts: str = describe_region("plans_from_past_attempts")
    task: str = describe_region("task")
    progress: str = describe_region("progress")
    action_templates: str = describe_region("action_templates")
    skills: str = describe_region("skills")
    history: str = describe_region("history")

    reasoning: str = dspy.OutputField(desc="what the last action did, and the plan from here")
    current_subgoal: str = dspy.OutputField(desc="one of the offered subgoals, copied word for word, or none")
    next_action: str = dspy.OutputField(desc="one action in the form of a template, nothing else")
