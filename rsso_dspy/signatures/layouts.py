"""In which order the regions of a prompt stand, and how much history.

    paper    the order of Algorithm 1, and the last ten states: what came before moves up by one each step
    cache    what stays the same stands first and history only grows for ten steps, then loses its ten oldest states;
             what changes from step to step, noted progress and skills, stands last
    append   a conversation of one message a step, in which nothing is said otherwise later; see `conversation.py`

Providers charge less for the beginning of a prompt that they have just read. Under `cache` the beginning that two steps
share is longer, and so is the prompt; the end of the history is where it ends, which a model is told that has to mark
it. Under `append` all of a prompt is the beginning of the next. Words of regions are the same.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, Literal, TypeVar, cast

import dspy

from rsso_dspy.regions import list_by_stability

Layout = Literal["paper", "cache", "append"]

HISTORY_STATES = 10
"""States in the history window (SSO reference, max_history)."""

CACHE_ORDER = list_by_stability()
"""Order of the regions where those that change most rarely stand first."""

SEEN = "seen"
"""The input field of a conversation's turn: what an action brought."""

SEEN_FIELD: Any = dspy.InputField(desc="what your last action brought; at first, what is there")


def find_first_state(states: int, layout: Layout, window: int = HISTORY_STATES) -> int:
    """Index of the oldest state that is shown of so many."""
    beyond = max(0, states - window)
    return beyond // window * window if layout == "cache" else beyond


F = TypeVar("F", bound=Callable[..., Any])


def read_field_words(signature: type[dspy.Signature]) -> tuple[tuple[str, str], ...]:
    return tuple((name, field.json_schema_extra["desc"]) for name, field in signature.fields.items())


def cache_by_words(build: F) -> F:
    """Cache what is made of a signature, by its words too, because a signature can be changed in place. Building a
    signature class costs more than a simulator step."""
    build_once = lru_cache(maxsize=256)(lambda signature, _words, *rest: build(signature, *rest))

    @wraps(build)
    def build_cached(signature: Any, *rest: Any) -> Any:
        return build_once(signature, (signature.instructions, read_field_words(signature)), *rest)

    return cast(F, build_cached)


@cache_by_words
def arrange_fields(signature: type[dspy.Signature], absent: tuple[str, ...], layout: Layout) -> type[dspy.Signature]:
    """The signature as a prompt shows it: less some input fields, the others in the layout's order; under `append` with
    a field for a turn's news."""
    for name in absent:
        signature = signature.delete(name)
    if layout != "paper":
        for name in (name for name in CACHE_ORDER if name in signature.input_fields):
            field = signature.input_fields[name]
            signature = signature.delete(name).append(name, field, field.annotation)
    if layout == "append":
        signature = (signature.delete(SEEN) if SEEN in signature.fields else signature).append(SEEN, SEEN_FIELD, str)
    return signature
