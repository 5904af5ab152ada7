"""Measurement of a server with requests like those of a run: speed and use of its cache.

    measured = measure(backend, templates, history)
    measured.first.seconds, measured.next.cached

It sends two requests: a step of an actor and the next step.
"""

import time
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError
from dspy.utils.usage_tracker import UsageTracker

from rsso_dspy.lm import Backend
from rsso_dspy.signatures import FlatActor

LONGEST_HISTORY = 4000
"""Maximum characters of the history, about a full window of ten states."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One request and its answer."""

    seconds: float
    tokens_in: int
    cached: int
    """Number of input tokens that the server reports as read from its cache."""
    tokens_out: int
    readable: bool

    @property
    def rate(self) -> float:
        """Output tokens per second, including the time to read the prompt."""
        return self.tokens_out / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class Measured:
    """Results of the two requests."""

    first: Timed
    next: Timed


def measure(backend: Backend, templates: str, history: str) -> Measured:
    """Measure the actor's model. `templates` are a benchmark's action templates, `history` a sample of its play. Errors
    of requests are raised."""
    lm = backend.lm("actor", 0)
    seen = history[:LONGEST_HISTORY].strip() or "You are in a room with a door."
    first = _time_step(backend, lm, templates, seen)
    then = _time_step(backend, lm, templates, f"{seen}\n\nThought: I look around.\nAction: look around")
    return Measured(first, then)


def _time_step(backend: Backend, lm: dspy.LM, templates: str, history: str) -> Timed:
    fields = {"task": "Your task is to look around.", "action_templates": templates, "history": history}
    heard = _Heard()
    begun, readable = time.perf_counter(), True
    with dspy.context(disable_history=True, adapter=backend.adapter, usage_tracker=heard, lm=lm):
        try:
            dspy.Predict(FlatActor)(**fields)
        except AdapterParseError:
            readable = False
    return Timed(time.perf_counter() - begun, heard.tokens_in, heard.cached, heard.tokens_out, readable)


class _Heard(UsageTracker):
    """Sums the token usage that a server reports."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens_in = self.cached = self.tokens_out = 0

    def add_usage(self, lm: str, usage_entry: dict[str, Any]) -> None:  # noqa: ARG002
        self.tokens_in += usage_entry.get("prompt_tokens") or 0
        self.tokens_out += usage_entry.get("completion_tokens") or 0
        self.cached += (usage_entry.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
