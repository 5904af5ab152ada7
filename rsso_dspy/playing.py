"""What reaches a program, its adapter and its models through DSPy's settings: one object, ``dspy.settings.rsso``.

with playing(runtime=runtime, interface="complete"):
    get_playing().interface
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import dspy


@dataclass(frozen=True, slots=True)
class Playing:
    runtime: Any = None
    """The `Runtime` that programs play with; None outside of a session."""
    interface: str = "sso"
    """What the actor sees of an environment, which also says in which words it is asked."""
    session_models_only: bool = False
    """Whether a model that the user set in DSPy does not answer, as in runs and compiles."""
    calls: Any = None
    """The log of the unit that is played, `CallLines`; None where there is none."""
    ledger: Any = None
    """Books what the current call costs: a `TrialLedger`."""
    rollout: int | None = None
    """Tells repeats of the same request apart."""
    verbs: frozenset[str] = frozenset()
    """First words of the environment's actions, for an answer that is an action alone."""


NOTHING = Playing()


def get_playing() -> Playing:
    return dspy.settings.get("rsso") or NOTHING


@contextmanager
def playing(**changes: Any) -> Iterator[None]:
    """Change these fields inside the block, in this thread."""
    with dspy.context(rsso=replace(get_playing(), **changes)):
        yield
