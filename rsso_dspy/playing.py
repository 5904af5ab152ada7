"""What reaches a program, its adapter and its models through DSPy's settings: one object, ``dspy.settings.rsso``.

with playing(runtime=runtime, interface="complete"):
    get_playing().interface
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import dspy

from rsso_dspy.calls import CallLines

if TYPE_CHECKING:
    from rsso_dspy.programs.role_calls import TrialLedger
    from rsso_dspy.programs.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Playing:
    runtime: "Runtime | None" = None
    """What programs play with; None outside of a session."""
    interface: str = "sso"
    """What the actor sees of an environment, which also says in which words it is asked."""
    session_models_only: bool = False
    """Whether a model that the user set in DSPy does not answer, as in runs and compiles."""
    calls: CallLines | None = None
    """The log of the unit that is played; None where there is none."""
    ledger: "TrialLedger | None" = None
    """Books what the current call costs."""
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
