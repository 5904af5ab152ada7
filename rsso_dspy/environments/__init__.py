"""What an environment is. One folder per benchmark; `pool.py` leases them to the threads that play.

The two Protocols below are the whole contract. Adding a benchmark is one folder that offers an `Environment`
and one line in the table of whoever builds the pool.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from rsso_dspy.environments.grammar import list_templates
from rsso_dspy.records import Lesson, State, Step, Variant

__all__ = [
    "ActionChoice",
    "Environment",
    "Environments",
    "Interface",
    "ListsActions",
    "Transition",
    "choose_interface",
    "list_verbs",
]

Interface = Literal["sso", "complete"]
"""How an environment shows itself and reads actions. ``sso``: as the published SSO code has it, for fidelity.
``complete``: all that can be done and all that is seen, for models. An environment that has one way only has that under
both names."""


@dataclass(frozen=True, slots=True)
class Transition:
    """What one action did. Points are of 100."""

    state: State
    action: str
    """The text that was sent after repair."""
    reward: int
    score: int
    understood: bool
    done: bool
    """The environment ended the episode: solved, or failed for good."""
    stalled: bool = False
    """The step took longer than the limit; the trial must end here, its score kept."""
    ticks: int = 0
    """The simulator's own clock since reset. It is not the number of steps: waiting is dear, looking is free."""
    asked_back: bool = False
    """The environment answered by asking which of several actions was meant; nothing was done."""
    no_effect: bool = False
    """It understood the action and says that nothing came of it."""


class Environment(Protocol):
    """One simulator, played by one thread at a time.

    - ``reset(variant)`` starts the variant afresh and returns the first state. After it, ``task``,
      ``action_templates`` and ``points_at_reset`` belong to that variant. The same variant played with the same
      actions gives the same texts and scores, whatever was played before.
    - ``step(action)`` takes one action as the actor wrote it. Repair of its wording is the environment's business;
      an action that can't be understood is a step with ``understood=False``, never an exception.
    - ``render(states)`` gives for each state of a history window the text to show: the first in full, later ones
      trimmed to what is new.
    - A dead simulator raises ``SimulatorDied`` from any method; nothing else is raised by a legal call.
    - ``rules_of_thumb`` are rules about the environment, written by hand. ``lessons(states, steps)`` says without a
      model what the newest step of an episode teaches, and how far the whole episode has come: what symbolic rule
      writers go by. Both know what can be seen and nothing else; an environment without them offers none.
    - No method reveals gold paths, goal progress or the step budget.

    Two things are optional. An environment with several interfaces has ``choose_interface(name)``, which is called
    before ``reset`` and holds until the next call. ``verbs``: words that actions begin with, where those of the
    templates are not all.
    """

    @property
    def rules_of_thumb(self) -> Sequence[Lesson]: ...

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]: ...

    @property
    def task(self) -> str: ...

    @property
    def action_templates(self) -> str: ...

    @property
    def points_at_reset(self) -> int: ...

    def reset(self, variant: Variant) -> State: ...

    def step(self, action: str) -> Transition: ...

    def render(self, states: Sequence[State]) -> list[str]: ...


ActionChoice = Literal["free", "listed", "constrained"]
"""What an actor is told of the actions that can be taken, and held to; see `programs/choosing.py`."""


@runtime_checkable
class ListsActions(Protocol):
    """An environment that can say what may be done now. None has to; its benchmark says whether it does
    (`Benchmark.admissible`).

    - ``admissible_actions()`` lists the actions that ``step`` will understand in the present state, within the forms
      of ``action_templates``; where the environment has asked a numbered question, its numbers. It changes nothing
      that is seen or scored, and knows no more than what is in sight: no gold path, no goal.
    """

    def admissible_actions(self) -> Sequence[str]: ...


class Environments(Protocol):
    """A pool of environments. ``lease()`` lends one for the time of a ``with`` block, starting it when needed; one
    whose simulator died inside the block is replaced at the next lease."""

    def lease(self) -> AbstractContextManager[Environment]: ...

    def close(self) -> None: ...


def choose_interface(environment: Environment, name: Interface) -> None:
    """Have an environment show itself in this way from the next reset on, if it has more than one."""
    choose: Any = getattr(environment, "choose_interface", None)
    if choose is not None:
        choose(name)


def list_verbs(environment: Environment) -> frozenset[str]:
    """First words of actions, in lower case: those of the templates, and others that the environment names."""
    named: Sequence[str] = getattr(environment, "verbs", ())
    listed = (line.split()[0].lower() for line in list_templates(environment.action_templates))
    return frozenset({*listed, *named})
