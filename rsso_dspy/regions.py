"""The regions of the actor's prompt, each named once: signatures, layouts and memories read this table.

    REGIONS["skills"].description        # what the actor is told of the region
    list_by_stability()                  # the order under the layouts `cache` and `append`

The table is in the order of the layout `paper` (rSSO, Algorithm 1). A region that a memory adds is one row more, ahead
of the history.
"""

from dataclasses import dataclass
from typing import Literal, get_args

Changes = Literal["benchmark", "stream", "variant", "trial", "grows", "step"]
"""When the text of a region changes: never within a benchmark, from variant to variant of a stream, with the variant,
with the trial, by what every step adds to it, or at any step."""


@dataclass(frozen=True, slots=True)
class Region:
    """One input field of the actor."""

    name: str
    description: str
    changes: Changes | None = None
    """None for a region whose author does not say: the layouts `cache` and `append` put it first."""
    required: bool = False
    """Whether every prompt has it; any other region is left out where it is empty."""


_TABLE = (
    Region("constitution", "rules learnt from earlier experience in this world; follow them", "stream"),
    Region(
        "plans_from_past_attempts",
        "what you wrote after your earlier, failed attempts at this very task; do better than those",
        "trial",
    ),
    Region("task", "what has to be achieved", "variant", required=True),
    Region("progress", "what you noted on the way: what is done already, and what is left", "step"),
    Region(
        "action_templates", "the forms an action may take, and what to be careful about", "benchmark", required=True
    ),
    Region("skills", "subgoals that were reached before, each with instructions for reaching it", "step"),
    Region("past_attempts", "what you did and saw in earlier attempts at this very task, and how they ended", "trial"),
    Region("experience", "attempts at other tasks that are worded like this one, and how they ended", "variant"),
    Region(
        "past_strategies", "strategies drawn from attempts at other tasks like this one; use those that fit", "variant"
    ),
    Region("history", "what you saw and did lately, newest last", "grows", required=True),
)

REGIONS: dict[str, Region] = {region.name: region for region in _TABLE}
"""Name to region, in the order of the layout `paper`."""

PROGRESS, TASK, TEMPLATES, HISTORY = "progress", "task", "action_templates", "history"
"""Regions that no memory fills by itself."""


def list_by_stability() -> tuple[str, ...]:
    """Names of the regions, those that change most rarely first."""
    order = get_args(Changes)
    ranked = sorted(REGIONS.values(), key=lambda region: order.index(region.changes) if region.changes else -1)
    return tuple(region.name for region in ranked)
