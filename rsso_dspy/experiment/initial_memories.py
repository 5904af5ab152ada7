"""What units of a run start from: memories learned elsewhere, with their sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rsso_dspy.programs.methods import Method
from rsso_dspy.records import Source


@dataclass(frozen=True, slots=True)
class InitialMemories:
    """Memories learned elsewhere, with their sources."""

    memories: Mapping[str, Any] = field(default_factory=dict)
    """Snapshot per memory."""
    sources: tuple[Source, ...] = ()
    states: int = 0
    """Number of states in its skill memory."""
    variants: tuple[str, ...] = ()
    """Keys of the variants it was learned on."""
    parts: tuple["InitialMemories", ...] = ()
    """Sources of the memories."""

    @property
    def digest(self) -> str:
        """12 hexadecimal digits over the content of its file; results depend on it."""
        return " ".join(source.digest for source in self.sources if source.kind == "file")

    def select_for(self, method: Method) -> "InitialMemories":
        read = [part for part in self.parts or (self,) if part.memories.keys() & set(method.memories)]
        return merge_memories(read)


def merge_memories(loads: Sequence[InitialMemories]) -> InitialMemories:
    return InitialMemories(
        {name: snapshot for load in loads for name, snapshot in load.memories.items()},
        tuple(source for load in loads for source in load.sources),
        sum(load.states for load in loads),
        tuple(dict.fromkeys(key for load in loads for key in load.variants)),
        tuple(loads),
    )


NOTHING_CARRIED = InitialMemories()
