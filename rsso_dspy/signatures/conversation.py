"""A trial as a conversation (`layout = "append"`): questions to the actor and its answers, turn by turn.

An adapter finds the turns in ``dspy.settings.conversation`` and sends them as messages. They have the form of DSPy's
own `dspy.History`, one dictionary of fields per turn, but are no input of the signature: demonstrations, traces and
feedback hold the history as text, while DSPy would print a `dspy.History` as JSON of all turns, and a program compiled
under one layout would not fit the others.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import dspy

from rsso_dspy.signatures.layouts import SEEN, arrange_fields

HOW = (
    "This is played as a conversation: what your action brought stands in `seen` of the next message. What is not said "
    "again still holds; a field that is said again takes the place of what it held before."
)
"""Explanation in the system message."""

WHOLE = "\0"
"""Stands for the whole prompt, where the part is given that the next prompt repeats and extends."""

ACTIONS = ("next_action", "action")
"""Names of the actor's output field for its action."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and its answer."""

    said: Mapping[str, str]
    """Input field to its text: all fields in the first turn, later only the changed ones."""
    answer: Mapping[str, str] = field(default_factory=dict)
    """Output field to its answer; empty until the answer is known."""
    reminds: bool = False
    """Whether the turn states the form of an answer: in the first turn, and after an unreadable answer."""


def find_turns(signature: type[dspy.Signature]) -> tuple[Turn, ...]:
    """Return the turns of the current conversation if this signature asks for its next action, otherwise none."""
    turns: tuple[Turn, ...] = dspy.settings.get("conversation") or ()
    acts = "history" in signature.input_fields and any(name in signature.output_fields for name in ACTIONS)
    return turns if acts else ()


def list_absent(signature: type[dspy.Signature], turns: tuple[Turn, ...]) -> tuple[str, ...]:
    """Return the input fields that the first turn of a conversation lacks; its system message names the others."""
    return tuple(name for name in signature.input_fields if name not in turns[0].said and name != SEEN)


def select_opening(signature: type[dspy.Signature], turns: tuple[Turn, ...], examples: bool) -> type[dspy.Signature]:
    """Return the signature that the system message describes. It has a history if there are examples."""
    absent = (name for name in list_absent(signature, turns) if not (examples and name == "history"))
    return arrange_fields(signature, tuple(absent), "append")


def select_outputs(signature: type[dspy.Signature], answer: Mapping[str, str]) -> type[dspy.Signature]:
    """Return the signature without the output fields that an answer lacks."""
    lacking = tuple(name for name in signature.output_fields if name not in answer)
    return arrange_fields(signature, lacking, "paper") if lacking else signature
