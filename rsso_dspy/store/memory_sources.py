"""Sources of a unit's initial memories as data; its record has them in words as ``start``.

sources = (*sources_of(skills, "file", "skills.json", digest), *sources_of(learned, "training", "boil"))
describe(sources)           # "training on boil after skills.json (0123456789ab)"
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.programs.methods import MEMORIES, load_memory
from rsso_dspy.records import Source, SourceKind


def sources_of(memories: Mapping[str, Any], kind: SourceKind, name: str, digest: str = "") -> tuple[Source, ...]:
    """Return a source for each of these memories (name to snapshot) from one place."""
    return tuple(Source(memory, kind, name, digest, size=count_entries(memories, memory)) for memory in memories)


def count_entries(memories: Mapping[str, Any], memory: str) -> int | None:
    """Count the entries of a memory's snapshot, 0 without one; None for a custom memory."""
    if memory not in memories:
        return 0
    held = load_memory(memory).entries(memories[memory]) if memory in MEMORIES else None
    return None if held is None else len(held)


def describe(sources: Sequence[Source]) -> str:
    """Describe sources in words; empty for none."""
    said = " and ".join(f"{each.name} ({each.digest})" for each in sources if each.kind == "file")
    for kind, words in (("training", "training on"), ("stream", "stream")):
        if (name := next((each.name for each in sources if each.kind == kind), None)) is not None:
            said = f"{words} {name}" + (f" after {said}" if said else "")
    return said
