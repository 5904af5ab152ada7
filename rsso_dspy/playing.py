"""What reaches a program, its adapter and its models through DSPy's settings: one object, ``dspy.settings.rsso``.

with playing(runtime=runtime, rollout=3):
    get_playing().rollout
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import dspy
from dspy.dsp.utils.settings import thread_local_overrides
from dspy.dsp.utils.utils import dotdict


@dataclass(frozen=True, slots=True)
class Playing:
    runtime: Any = None  # the `Runtime` that programs play with; None outside of a session
    session: Any = None  # the `Session` that a user opened, or the default one
    session_models_only: bool = False  # ignores a model that the user set in DSPy, as runs and compiles do
    calls: Any = None  # the log of the unit that is played, `CallLines`; None where there is none
    ledger: Any = None  # books what the current call costs: a `TrialLedger`
    is_cancelled: Callable[[], bool] = lambda: False
    """Whether the `acall` that plays was cancelled; see the function of this name."""
    rollout: int | None = None  # tells repeats of the same request apart
    verbs: frozenset[str] = frozenset()
    """First words of the environment's actions, for an answer that is an action alone."""
    possible: frozenset[str] = frozenset()
    """The actions that are listed in the prompt: an answer that is one of them is that action."""
    free_form: Any = None
    """An `ActionForm` where actions may be other than the verbs say; None where they may not."""
    unasked: frozenset[str] = frozenset()  # outputs that a signature has and that are not asked for


NOTHING = Playing()


def get_playing() -> Playing:
    return dspy.settings.get("rsso") or NOTHING


def is_cancelled() -> bool:
    """Return whether nobody waits for what is played here: its `acall` was cancelled, or its stream was closed."""
    count_ends = getattr(dspy.settings.send_stream, "statistics", None)  # of anyio's streams, which DSPy opens
    is_unread = count_ends is not None and count_ends().open_receive_streams == 0
    return is_unread or get_playing().is_cancelled()


def is_stopping() -> bool:
    """Return whether what is played here stops at its next check: its run is stopped, or its call was cancelled."""
    runtime = get_playing().runtime
    return is_cancelled() or (runtime is not None and runtime.stopped())


@contextmanager
def playing(**changes: Any) -> Iterator[None]:
    """Change these fields inside the block, in this thread. Every other setting stays as it is, and what is configured
    inside the block counts, which `dspy.context` would hide: it repeats all settings."""
    changed = {**thread_local_overrides.get(), "rsso": replace(get_playing(), **changes)}
    token = thread_local_overrides.set(dotdict(changed))
    try:
        yield
    finally:
        thread_local_overrides.reset(token)
