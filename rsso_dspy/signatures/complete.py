"""Instructions under the interface `complete`: one text for both scaffolds, and for the other roles.

A sentence that both scaffolds need stands here once. Sentences that begin with "Subgoals" are left out, with the field
for subgoals, if none are offered. The fields are those of the signatures for the interface `sso`; `DESCRIBED` lists the
field descriptions that differ.
"""

import re

import dspy

from rsso_dspy.signatures.actor import FlatActor, SkillActor
from rsso_dspy.signatures.fields import cache_by_words, read_field_words
from rsso_dspy.signatures.skills import SummarizeSkill, WriteInstructions

GAME = (
    "You are playing a text game that simulates a science laboratory and its surroundings. Solve the task by one "
    "action at a time."
)
OFFER = (
    "Subgoals are offered below, with the instructions that led to them before: pursue one of them or none. "
    "Subgoals that you pursue are copied, word for word, into their field; otherwise write none there."
)
THINK = "First think: what did the last action change, what is still missing, where could it be found?"
ACT = (
    "Then give exactly one action that fits one of the action templates, with short names. Do not repeat an action "
    "that had no effect. If the game asks with numbered options, answer with the number alone."
)

INSTRUCT = (
    "Turn a skill that was seen at work into instructions another player can follow. They must hold for every excerpt "
    "and be general: keep what is the same everywhere, and speak of what differs by its kind. Every instruction is one "
    "action in the form of an action template; where the game asked with numbered options, say which option to answer "
    "with. Do not mention the excerpts."
)

SPOKEN = {
    FlatActor.instructions: f"{GAME}\n\n{THINK} {ACT}",
    SkillActor.instructions: f"{GAME}\n\n{OFFER}\n\n{THINK} {ACT}",
    WriteInstructions.instructions: INSTRUCT,
}
"""What a model is told under `sso` to what it is told under `complete`, where that differs. Instructions that were
compiled are neither."""

THOUGHT = "what the last action did, what the situation is now, and what to do about it, in a few sentences"
EXCERPTS = "excerpts of play; of each, what is as in the one before it is left out"


def _describe(signature: type[dspy.Signature], field: str) -> tuple[str, str]:
    return field, signature.fields[field].json_schema_extra["desc"]


DESCRIBED = {
    _describe(FlatActor, "thought"): THOUGHT,
    _describe(SkillActor, "reasoning"): THOUGHT,
    _describe(SummarizeSkill, "examples"): EXCERPTS,
}
"""A field, and how `sso` describes it, to its description under `complete`, where that differs."""

OUTCOME = "how the attempt ended and what its steps earned; judge by it what was done"
"""Describes the field `outcome` of a writer of rules, which is there once the attempt is over."""

BRIEF = ("You are given, in fields:", "Your output fields are:", "Your answer has this form:", "Your objective is:")
"""What an adapter says ahead of the input fields, the output fields, an answer and the instructions, of any role."""

WORDS = (*SPOKEN.values(), *DESCRIBED.values(), OUTCOME, *BRIEF)
"""All that models are told under `complete` and not under `sso`."""

SUBGOAL, OFFERED = "current_subgoal", "skills"

_SENTENCES = re.compile(r"(?<=[.!?])(\s+)")


@cache_by_words
def speak_completely(signature: type[dspy.Signature], absent: tuple[str, ...]) -> type[dspy.Signature]:
    """Return a signature in the words of the interface `complete`, an actor's without subgoals if none are offered
    (`absent` names the empty inputs)."""
    told = SPOKEN.get(signature.instructions, signature.instructions)
    if OFFERED in absent and SUBGOAL in signature.output_fields and len(signature.output_fields) > 1:
        signature = signature.delete(SUBGOAL)
        told = _leave_out(told, "Subgoals ")
    for name, description in read_field_words(signature):
        if (name, description) in DESCRIBED:
            signature = signature.with_updated_fields(name, desc=DESCRIBED[name, description])
    return signature if told == signature.instructions else signature.with_instructions(told)


@cache_by_words
def tell_outcome_too(signature: type[dspy.Signature]) -> type[dspy.Signature]:
    """Add an input for the outcome, after the other inputs, to a writer's signature."""
    if "outcome" in signature.fields:
        return signature
    asked: type[dspy.Signature] = signature.append("outcome", dspy.InputField(desc=OUTCOME), str)
    return asked


def _leave_out(text: str, beginning: str) -> str:
    """Remove the sentences with this beginning from a text; paragraphs stay separate."""
    parts = _SENTENCES.split(text)
    kept: list[str] = []
    for sentence, space in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if not sentence.startswith(beginning):
            kept += [sentence, space]
        elif kept and "\n\n" in space:
            kept[-1] = space
    return "".join(kept).rstrip()
