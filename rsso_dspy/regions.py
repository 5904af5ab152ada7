"""The inputs of the actor, each named once: signatures and memories read this table.

    REGIONS["skills"].description        # said beside its label in a prompt

A description is true whatever stands below it: where an item comes from is said by the item. What stands before the
history is the same for all steps of a trial; what stands after it belongs to one step. The order is that of the layout
`conversation`; `signatures/layouts.py` has the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Region:
    """One input field of the actor. It is left out of a prompt where it is empty."""

    name: str
    description: str = ""
    kind: Any = str
    required: bool = False


_TABLE = (
    Region("about"),
    Region("action_templates", "the forms that an action may take"),
    Region("solved_examples", "tasks of this kind that were solved, step by step", list[str]),
    Region("constitution", "rules learnt before in this world; follow them", list[str]),
    Region("plans_from_past_attempts", "what was written after earlier attempts; do what fits here", list[str]),
    Region("past_attempts", "what was done and seen in earlier attempts, and how they ended"),
    Region("experience", "attempts at tasks that are worded like this one, and how they ended"),
    Region("past_strategies", "strategies drawn from earlier attempts at tasks like this one; use those that fit"),
    Region("task", required=True),
    Region("history", required=True),
    Region("progress", "what you noted on the way: what is done already, and what is left"),
    Region("skills", "subgoals that were reached before, each with the actions that reached it", list[str]),
    Region("notice"),
    Region("observation", required=True),
    Region("possible_actions", kind=list[str]),
)

REGIONS: dict[str, Region] = {region.name: region for region in _TABLE}
ABOUT, TEMPLATES, EXAMPLES, HISTORY = "about", "action_templates", "solved_examples", "history"
PROGRESS, NOTICE, POSSIBLE = "progress", "notice", "possible_actions"
PLANS = "plans_from_past_attempts"
SYSTEM_REGIONS = tuple(REGIONS)[: list(REGIONS).index(HISTORY)]
"""Regions that may stand in the system message: they are the same for all steps of a trial."""

LONGEST_LISTED = 60  # maximum characters of an item that stands in one line with others


class Document(str):
    """An item that stands alone in its region, as it is: its lines, lists and headings are its own."""

    __slots__ = ()


def list_items(items: Sequence[str]) -> str:
    """Return items one a line, each after a dash; a document as it is."""
    if len(items) == 1 and isinstance(items[0], Document):
        return items[0]
    return "\n".join("- " + item.replace("\n", "\n  ") for item in items)


def join_items(items: Sequence[str]) -> str:
    """Return items as a prompt shows them: short ones in one line, separated by semicolons; others, and sentences, one
    a line; a document as it is."""
    short = all(len(item) <= LONGEST_LISTED and not {";", "\n"} & set(item) for item in items)
    sentences = len(items) > 1 and any(item.endswith((".", "!", "?")) for item in items)
    return "; ".join(items) if short and not sentences else list_items(items)
