"""The contract of an environment. One folder per benchmark; `pool.py` leases environments to the threads that play. The
classes below are the whole contract. To add a benchmark, see docs/EXTENDING.md."""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from rsso_dspy.answers.actions import ActionForm
from rsso_dspy.errors import SimulatorDied
from rsso_dspy.loops import name_place
from rsso_dspy.records import Lesson, State, Step, Variant

Interface = Literal["sso", "complete"]
"""How an environment displays states and reads actions: as in the published SSO code, or with all possible actions and
all visible things. An environment with a single interface uses it under both names."""


@dataclass(frozen=True, slots=True)
class Transition:
    """The effect of one action. Rewards and scores are in points of 100."""

    state: State
    action: str  # the text sent to the simulator
    reward: int
    score: int
    understood: bool
    done: bool  # the environment ended the episode: solved, or failed for good
    stalled: bool = False  # the step took longer than the limit; the trial ends here and keeps its score
    ticks: int = 0  # the simulator's clock since reset: waiting takes many ticks, looking none
    asked_back: bool = False  # the environment asked which of several actions was meant and did nothing
    no_effect: bool = False  # the environment understood the action but reports that it had no effect


class Environment:
    """One simulator, played by one thread at a time: states in full, no points at reset, no rules and nothing to close,
    unless a subclass says otherwise. ``task``, ``action_templates``, ``reset`` and ``step`` are left to write;
    docs/EXTENDING.md says what each member is for, and which others there may be.

    The same variant played with the same actions gives the same texts and scores, whatever was played before. A
    misunderstood action is a step with ``understood=False``; a dead simulator raises ``SimulatorDied``, and a legal
    call nothing else. `contract.py` checks what is returned. Rules and lessons know only what is visible. Nothing
    reveals gold paths or the step budget; ``goal_progress()`` raises ``SplitError`` for a variant of the test split.
    """

    task: str
    action_templates: str
    alive = True  # whether another reset can succeed
    points_at_reset = 0
    action_form: Literal["line", "text"] = "line"  # one line, or a text of any number, such as code
    knows_all_verbs = False  # whether no action begins otherwise than its templates do; others are unreadable then
    rules_of_thumb: Sequence[Lesson] = ()

    def reset(self, variant: Variant) -> State:
        raise NotImplementedError

    def step(self, action: str) -> Transition:
        raise NotImplementedError

    def render(self, states: Sequence[State]) -> list[str]:
        return [state.description for state in states]

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:  # noqa: ARG002
        return ()

    def close(self) -> None:
        """End the simulator; may be called again, and from another thread."""
        self.alive = False


@dataclass(eq=False)
class EnvironmentWrapper:
    """An environment before another, which does all that this one does not."""

    environment: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["environment"], name)


def name_environment(environment: Any) -> str:
    """Return the class of an environment, whatever stands before it."""
    while isinstance(environment, EnvironmentWrapper):
        environment = environment.environment
    return type(environment).__name__


STALLED = "The action took too long, and the attempt ends here."
Played = TypeVar("Played")


def require_played(played: Played | None) -> Played:
    """Return what is played. Raises ``SimulatorDied`` before the first reset."""
    if played is None:
        raise SimulatorDied("no variant is being played: reset the environment first.")
    return played


ActionChoice = Literal["free", "listed"]  # see `Conversation` of `programs/trial.py`

Layout = Literal["conversation", "paper", "released"]  # how an actor's prompt is laid out; see `TrialRules.layout`


@dataclass(frozen=True, slots=True)
class Goal:
    kind: str  # the environment's class of goals, e.g. `GoalMoveToLocation`.
    done: bool
    required: bool  # whether the goal is required, in order, to solve the variant; False for an optional one


class Environments(Protocol):
    """A pool of environments. ``lease()`` lends one for a ``with`` block, in place of one whose simulator died."""

    def lease(self) -> AbstractContextManager[Environment]: ...

    def close(self) -> None: ...


def choose_interface(environment: Environment, name: Interface) -> None:
    """Select an interface from the next reset on, if the environment has several."""
    getattr(environment, "choose_interface", lambda _: None)(name)


def get_place_reader(environment: Environment) -> Callable[[State], str]:
    return getattr(environment, "name_place", name_place)


def find_free_form(environment: Environment, possible: frozenset[str]) -> ActionForm | None:
    """Return what is known of actions that may be anything; None where only those of the templates are read."""
    if getattr(environment, "knows_all_verbs", False):
        return None
    keys = frozenset(re.findall(r"""["'](\w+)["']\s*:""", environment.action_templates))
    return ActionForm(getattr(environment, "action_form", "line"), list_verbs(environment), possible, keys)


def list_verbs(environment: Environment) -> frozenset[str]:
    """Return the first words of actions in lower case: those of the templates and of ``verbs``."""
    *_, templates = re.split(r"(?mi)^templates:\s*$", environment.action_templates)
    first = (line.split()[0].lower() for line in templates.splitlines() if line.strip())
    return frozenset({*first, *getattr(environment, "verbs", ())})
