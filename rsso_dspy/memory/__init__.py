"""Memories: what survives between trials, as data and algorithms that import neither a language model nor DSPy. A
memory is a class: it says which region of the prompt it fills and which modules it asks, and an agent lends it those
modules, as `Services`. To add one, see docs/EXTENDING.md."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from rsso_dspy.records import State, Step, Trajectory, Variant
from rsso_dspy.regions import join_items


@dataclass(frozen=True, slots=True)
class Recall:
    """A memory's contribution to the prompt. With an empty ``text`` and no ``items`` the region is absent."""

    text: str = ""  # what is recorded of it: the items as a prompt shows them, where there are any
    ids: tuple[str, ...] = ()  # ids of the shown items, in order
    targets: tuple[str, ...] = ()  # subgoals that the actor may name, aligned with `ids`
    progress: str = ""  # what is done and left in the current task; shown by itself, not in the memory's region
    items: tuple[str, ...] = ()  # the contribution as a list

    def __post_init__(self) -> None:
        if self.items and not self.text:
            object.__setattr__(self, "text", join_items(self.items))

    @property
    def value(self) -> str | list[str]:
        return list(self.items) or self.text


NOTHING = Recall()


class Services(Protocol):
    """What an agent lends its memories. Errors of a call pass through; a malformed answer is None."""

    runtime: Any  # the session: `embed`, `examples`, `stored`, and the settings of memories
    environment: Any  # the environment of the present trial: `action_templates`, `lessons`, `rules_of_thumb`

    method: Any  # the row of the method
    modules: Mapping[str, Any]  # the agent's modules by name
    handed_on: frozenset[str]  # regions whose memories go on to other variants

    # What a module, or a method of it, answers.
    def ask(self, name: str, method: str = "", /, **inputs: Any) -> Any: ...
    # Count an answer of a module that could be read and is of no use.
    def reject(self, name: str, said: Any) -> None: ...
    # Every action of an attempt, numbered, with what was seen after it; and how it ended, and what its steps earned.
    def tell_transcript(self, trajectory: Trajectory) -> str: ...
    def tell_outcome(self, trajectory: Trajectory) -> str: ...
    # What the reflector is told besides, for these improvements.
    def list_reflection_fields(self, improvements: frozenset[str], trajectory: Trajectory) -> dict[str, Any]: ...


class Memory(ABC):
    """One memory of one unit. Each unit makes a new, empty instance, which is never shared. Errors raised by what it
    asks pass through unchanged; malformed answers are counted and skipped, never raised."""

    region: str  # the actor's input field that it fills; no two memories of a method share one
    about: str = ""  # what the actor is told of a region that is not in the table of `regions.py`
    asks: tuple[str, ...] = ()  # the modules that it asks
    learns_from_success = True  # whether a solved trial may cost calls

    calls: ClassVar[dict[str, int]] = {}  # role to the most calls after a trial

    def __init__(self, services: Services):
        self.services = services

    def begin_trial(self, variant: Variant, task: str) -> None:  # noqa: B027 - nothing by default
        """Called when a trial begins, before everything else, and again when it is replayed because its simulator
        died: discard then what was observed in between."""

    def preamble(self) -> Recall:
        """What the region holds throughout a trial; asked once, before the first step (reflections)."""
        return NOTHING

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:  # noqa: ARG002
        """What the region holds before a step, by the trial so far: ``states[i + 1]`` follows ``steps[i]``."""
        return NOTHING

    def observe(self, states: Sequence[State], steps: Sequence[Step]) -> None:  # noqa: B027 - nothing by default
        """Called after every step except the last, unless memories are frozen (constitution)."""

    @abstractmethod
    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Called after a trial. Returns counts for the record: JSON data, the same bytes for the same inputs."""

    @abstractmethod
    def snapshot(self) -> dict[str, Any]:
        """The whole memory as JSON data."""

    @abstractmethod
    def restore(self, data: dict[str, Any]) -> None:
        """Replace the content by that of a snapshot."""

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> Sequence[Any] | None:  # noqa: ARG003
        """The items that a snapshot holds; None where they cannot be told."""
        return None

    @classmethod
    def most_calls(cls, states: Sequence[int], alone: bool) -> dict[str, int]:  # noqa: ARG003
        """`calls`, or what `states` make of them: the numbers of states of all trajectories so far, that of the trial
        last. `alone` says that one trajectory can make skills."""
        return dict(cls.calls)
