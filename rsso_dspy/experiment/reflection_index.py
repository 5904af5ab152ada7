"""Reflections of a run in a vector index, and the nearest of them to a task.

index_reflections(Path("runs/a"), Path("reflections.sqlite"), embedder)     # the plans of every finished unit
"""

from collections.abc import Sequence
from pathlib import Path

from rsso_dspy.config import Config
from rsso_dspy.embedders import Embedder
from rsso_dspy.embedders.vector_index import Entry, VectorIndex
from rsso_dspy.memory.reflections import Neighbours, Reflection
from rsso_dspy.store.unit_store import Store


def index_reflections(run: Path, out: Path, embedder: Embedder) -> int:
    """Add the plans of a run's finished units to an index; return how many are new. Raises what `VectorIndex` raises,
    and `UsageError` for a folder without a run."""
    store = Store(run, read_only=True)
    store.read_identity()
    entries = []
    for unit in store.units():
        if unit.has_errors or not unit.trajectories:
            continue
        for held in unit.memories.get("reflections", {}).get("plans", ()):
            data = {"trial": held["trial"], "plan": held["plan"]}
            entries.append(
                Entry(held.get("variant") or unit.variant.key, held.get("task") or unit.trajectories[0].task, data)
            )
    with VectorIndex(out, embedder.model, create=True) as index:
        return index.add(entries, embedder)


def open_reflection_index(config: Config, embedder: Embedder) -> Neighbours | None:
    """Open the index that the configuration names, if retrieval is on; it is read only. Raises what `VectorIndex`
    raises."""
    settings = config.memory.reflections
    if settings.index is None or "retrieval" not in settings.improvements:
        return None
    index = VectorIndex(Path(settings.index), config.embedder.model)

    def find(task: str, number: int, variant: str) -> Sequence[Reflection]:
        near = index.find_nearest(embedder([task])[0], number, exclude=variant)
        return [Reflection(each.data["trial"], each.data["plan"], each.key, each.text) for each in near]

    return find
