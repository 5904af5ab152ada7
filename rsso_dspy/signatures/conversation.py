"""A trial as a conversation (`layout = "append"`): what an actor is told and answers, turn by turn.

An adapter finds the turns in ``dspy.settings.conversation`` and sends them as messages. They have the form of DSPy's
own `dspy.History`, a dictionary of fields a turn, and are no input of the signature all the same: demonstrations,
traces and feedback hold the history as text, where DSPy would print a `dspy.History` as JSON of all turns, and a
program that was compiled under one layout would not fit the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.signatures.layouts import SEEN, SignatureWords, arrange_fields, read_words

HOW = (
    "This is played as a conversation: what your action brought stands in `seen` of the next message. What is not said "
    "again still holds; a field that is said again takes the place of what it held before."
)
"""What the system message says of it."""

WHOLE = "\0"
"""In place of the text of a prompt that the next one repeats and adds to: all of it."""

ACTIONS = ("next_action", "action")
"""Names of the actor's output field for its action."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer."""

    said: Mapping[str, str]
    """Input field to its text: all that there are in the first turn, later those that changed."""
    answer: Mapping[str, str] = field(default_factory=dict)
    """Output field to what was answered; empty while that is awaited."""
    reminds: bool = False
    """Whether the form of an answer is said again: in the first turn, and after an answer that could not be read."""


def find_turns(signature: type[dspy.Signature]) -> tuple[Turn, ...]:
    """The turns of the conversation under way, where this signature asks for its next action; else none."""
    turns: tuple[Turn, ...] = dspy.settings.get("conversation") or ()
    acts = "history" in signature.input_fields and any(name in signature.output_fields for name in ACTIONS)
    return turns if acts else ()


def list_absent(signature: type[dspy.Signature], turns: tuple[Turn, ...]) -> tuple[str, ...]:
    """Input fields that the first turn of a conversation lacks: its system message names the others."""
    return tuple(name for name in signature.input_fields if name not in turns[0].said and name != SEEN)


def select_opening(signature: type[dspy.Signature], turns: tuple[Turn, ...], examples: bool) -> type[dspy.Signature]:
    """The signature as the system message describes it. Examples have a history."""
    absent = (name for name in list_absent(signature, turns) if not (examples and name == "history"))
    return arrange_fields(signature, tuple(absent), "append")


def select_outputs(signature: type[dspy.Signature], answer: Mapping[str, str]) -> type[dspy.Signature]:
    """The signature less the output fields that an answer lacks."""
    kind: Any = signature
    lacking = tuple(name for name in signature.output_fields if name not in answer)
    selected: type[dspy.Signature] = _leave_out(kind, lacking, read_words(signature)) if lacking else signature
    return selected


@lru_cache(maxsize=64)
def _leave_out(signature: Any, names: tuple[str, ...], _words: SignatureWords) -> Any:
    for name in names:
        signature = signature.delete(name)
    return signature
