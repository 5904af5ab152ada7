"""The skill verbalizer: a module that turns excerpts into a skill in words (SSO, section 3.3).

verbalizer = SkillVerbalizer()
with dspy.context(lm=my_lm):
    verbalizer(examples=[window, another], action_templates="OPEN object, ...").skill
"""

from collections.abc import Sequence

import dspy

from rsso_dspy.memory.skills.skill import Verbalization, Window
from rsso_dspy.playing import get_playing
from rsso_dspy.programs.actor import first_line
from rsso_dspy.programs.excerpts import render_excerpts
from rsso_dspy.programs.instruction_filter import filter_instructions
from rsso_dspy.programs.transcript import render_example
from rsso_dspy.signatures import NameTarget, SummarizeSkill, WriteInstructions


class SkillVerbalizer(dspy.Module):
    """Describes a skill in three calls, each of which reads the earlier answers."""

    def __init__(self) -> None:
        super().__init__()
        self.summary = dspy.Predict(SummarizeSkill)
        self.instructions = dspy.Predict(WriteInstructions)
        self.target = dspy.Predict(NameTarget)

    def forward(self, examples: Sequence[Window], action_templates: str = "") -> dspy.Prediction:
        """Describe what the windows have in common.

        Returns a prediction with ``skill`` (a `Verbalization`; None if the written instructions are no actions or no
        target was named) and the answers of the calls: ``summary``, ``skill_name``, ``steps``, ``target``. Raises
        `AdapterParseError` if an answer cannot be read.
        """
        whole, done, ends = _render_for_calls(examples)
        summary = self.summary(examples=whole)
        known = {"summary": summary.summary, "skill_name": summary.skill_name}
        written = self.instructions(examples=done, **known, action_templates=action_templates)
        lines = tuple(filter(None, map(first_line, written.steps)))
        actions = [action for window in examples for action in window.actions]
        steps = filter_instructions(lines, action_templates, actions)
        target, skill = "", None
        if steps:
            target = " ".join((self.target(examples=ends, **known, steps=list(steps)).target or "").split())
        if target:
            skill = Verbalization(summary.summary, summary.skill_name, steps, target)
        return dspy.Prediction(
            skill=skill, summary=summary.summary, skill_name=summary.skill_name, steps=list(steps), target=target
        )


def _render_for_calls(examples: Sequence[Window]) -> tuple[str, str, str]:
    """Return the examples for each of the three calls: equal ones, or, under `complete`, only what the call needs."""
    if get_playing().interface == "complete":
        return (
            render_excerpts(examples, "whole"),
            render_excerpts(examples, "actions"),
            render_excerpts(examples, "ends"),
        )
    excerpts = "\n\n".join(
        f"Excerpt {number}\n{render_example(window.states, window.actions)}"
        for number, window in enumerate(examples, start=1)
    )
    return excerpts, excerpts, excerpts
