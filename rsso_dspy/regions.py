"""The regions of the actor's prompt, each named once: signatures and memories read this table.

    REGIONS["skills"].description        # what the actor is told of the region

The table is in the order of the prompt (rSSO, Algorithm 1). A region that a memory adds is one row more, ahead
of the history.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Region:
    """One input field of the actor."""

    name: str
    description: str
    required: bool = False
    """Whether every prompt has it; any other region is left out where it is empty."""


_TABLE = (
    Region("constitution", "rules learnt from earlier experience in this world; follow them"),
    Region(
        "plans_from_past_attempts",
        "what you wrote after your earlier, failed attempts at this very task; do better than those",
    ),
    Region("task", "what has to be achieved", required=True),
    Region("progress", "what you noted on the way: what is done already, and what is left"),
    Region("action_templates", "the forms an action may take, and what to be careful about", required=True),
    Region("skills", "subgoals that were reached before, each with instructions for reaching it"),
    Region("past_attempts", "what you did and saw in earlier attempts at this very task, and how they ended"),
    Region("experience", "attempts at other tasks that are worded like this one, and how they ended"),
    Region("past_strategies", "strategies drawn from attempts at other tasks like this one; use those that fit"),
    Region("history", "what you saw and did lately, newest last", required=True),
)

REGIONS: dict[str, Region] = {region.name: region for region in _TABLE}
"""Name to region, in the order of the prompt."""

PROGRESS, TEMPLATES = "progress", "action_templates"
"""Regions that no memory fills by itself."""
