"""What the actors are told under the interface `complete`: one text for both scaffolds.

A sentence that begins with "Subgoals" is about subgoals alone: it is left out, with the field for them, where none is
offered. The fields are those of the signatures in `actor.py`, which hold what the interface `sso` says.
"""

import re
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.signatures.actor import FlatActor, SkillActor
from rsso_dspy.signatures.layouts import SignatureWords, read_words


class CompleteFlatActor(FlatActor):
    """You are playing a text game that simulates a science laboratory and its surroundings. Solve the task by one
    action at a time.

    First think: what did the last action change, what is still missing, where could it be found? Then give exactly
    one action that fits one of the action templates, with short names. Do not repeat an action that had no effect. If
    the game asks with numbered options, answer with the number alone."""


class CompleteSkillActor(SkillActor):
    """You are playing a text game that simulates a science laboratory and its surroundings. Solve the task by one
    action at a time. Subgoals are offered below, with the instructions that led to them before: pursue one of them or
    none.

    First think: what did the last action change, what is still missing, where could it be found? Subgoals that you
    pursue are copied, word for word, into their field; otherwise write none there. Then give exactly one action that
    fits one of the action templates, with short names. Do not repeat an action that had no effect. If the game asks
    with numbered options, answer with the number alone."""


SPOKEN = {actor.__base__.instructions: actor.instructions for actor in (CompleteFlatActor, CompleteSkillActor)}
"""What an actor is told under `sso` to what it is told under `complete`. Instructions that were compiled are
neither."""

SUBGOAL, OFFERED = "current_subgoal", "skills"

_SENTENCES = re.compile(r"(?<=[.!?])(\s+)")


def speak_completely(signature: type[dspy.Signature], absent: tuple[str, ...]) -> type[dspy.Signature]:
    """An actor's signature as the interface `complete` words it, less subgoals where none is offered (`absent` are the
    inputs that are empty); any other signature as it is. Cached, as building a signature class is dear."""
    kind: Any = signature
    spoken: type[dspy.Signature] = _speak(kind, OFFERED in absent, read_words(signature))
    return spoken


@lru_cache(maxsize=256)
def _speak(signature: Any, without: bool, _words: SignatureWords) -> Any:
    told = SPOKEN.get(signature.instructions, signature.instructions)
    if without and SUBGOAL in signature.output_fields and len(signature.output_fields) > 1:
        signature = signature.delete(SUBGOAL)
        told = _leave_out(told, "Subgoals ")
    return signature if told == signature.instructions else signature.with_instructions(told)


def _leave_out(text: str, beginning: str) -> str:
    """The text less the sentences that begin so; paragraphs stay apart."""
    parts = _SENTENCES.split(text)
    kept: list[str] = []
    for sentence, space in zip(parts[::2], [*parts[1::2], ""], strict=True):
        if not sentence.startswith(beginning):
            kept += [sentence, space]
        elif kept and "\n\n" in space:
            kept[-1] = space
    return "".join(kept).rstrip()
