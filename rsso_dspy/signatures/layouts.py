"""In which order the regions of a prompt stand, and how much history.

    paper    the order of Algorithm 1, and the last ten states: what came before moves up by one each step
    cache    what stays the same stands first and history only grows for ten steps, then loses its ten oldest states;
             what changes from step to step, noted progress and skills, stands last
    append   a conversation of one message a step, in which nothing is said otherwise later; see `conversation.py`

Providers charge less for the beginning of a prompt that they have just read. Under `cache` the beginning that two steps
share is longer, and so is the prompt; the end of the history is where it ends, which a model is told that has to mark
it. Under `append` all of a prompt is the beginning of the next. Words of regions are the same.
"""

from functools import lru_cache
from typing import Any, Literal

import dspy

Layout = Literal["paper", "cache", "append"]

HISTORY_STATES = 10
"""States in the history window (SSO reference, max_history)."""

CACHE_ORDER = (
    "action_templates",
    "constitution",
    "task",
    "plans_from_past_attempts",
    "history",
    "progress",
    "skills",
)

SEEN = "seen"
"""The input field of a conversation's turn: what an action brought."""

SEEN_FIELD: Any = dspy.InputField(desc="what your last action brought; at first, what is there")


def find_first_state(states: int, layout: Layout, window: int = HISTORY_STATES) -> int:
    """Index of the oldest state that is shown of so many."""
    beyond = max(0, states - window)
    return beyond // window * window if layout == "cache" else beyond


SignatureWords = tuple[str, tuple[tuple[str, str], ...]]
"""Instructions of a signature, and names and descriptions of its fields."""


def read_words(signature: type[dspy.Signature]) -> SignatureWords:
    """What a signature says. It can be changed in place: whoever caches by a signature caches by its words too."""
    return signature.instructions, tuple((name, f.json_schema_extra["desc"]) for name, f in signature.fields.items())


def arrange_fields(signature: type[dspy.Signature], absent: tuple[str, ...], layout: Layout) -> type[dspy.Signature]:
    """The signature as a prompt shows it: less some input fields, the others in the layout's order; under `append` with
    a field for a turn's news. Cached: building a signature class costs more than a simulator step."""
    kind: Any = signature
    arranged: type[dspy.Signature] = _arrange_fields(kind, absent, layout, read_words(signature))
    return arranged


@lru_cache(maxsize=256)
def _arrange_fields(signature: Any, absent: tuple[str, ...], layout: Layout, _words: SignatureWords) -> Any:
    for name in absent:
        signature = signature.delete(name)
    if layout != "paper":
        for name in (name for name in CACHE_ORDER if name in signature.input_fields):
            field = signature.input_fields[name]
            signature = signature.delete(name).append(name, field, field.annotation)
    if layout == "append":
        signature = (signature.delete(SEEN) if SEEN in signature.fields else signature).append(SEEN, SEEN_FIELD, str)
    return signature
