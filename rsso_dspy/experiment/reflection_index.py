"""The reflections of an earlier run as an index: those whose tasks are nearest to a task.

find = open_reflection_index(config, embedder)      # reads the folder that memory.reflections.index names
find("Your task is to boil tin.", 3, "boil::9")     # of the nearest tasks, never of boil::9 itself
"""

from pathlib import Path

from rsso_dspy.config import Config
from rsso_dspy.embed import Embedder
from rsso_dspy.memory.improvements import Neighbours, Reflection, select_nearest
from rsso_dspy.store.run_folder import Store


def read_reflections(run: Path) -> list[Reflection]:
    """Return the plans of a run's finished units, each once, in the order of the run. Raises `UsageError` for a folder
    without a run."""
    store = Store(run, read_only=True)
    store.read_identity()
    played = [unit for unit in store.units() if not unit.has_errors and unit.trajectories]
    plans = [
        Reflection(
            held["trial"],
            held["plan"],
            held.get("variant") or unit.variant.key,
            held.get("task") or unit.trajectories[0].task,
        )
        for unit in played
        for held in unit.memories.get("reflections", {}).get("plans", ())
    ]
    return list(dict.fromkeys(plans))


def open_reflection_index(config: Config, embedder: Embedder) -> Neighbours | None:
    """Return the search in the run that the configuration names, if retrieval is on. Raises what `read_reflections`
    raises."""
    settings = config.memory.reflections
    if settings.index is None or "retrieval" not in settings.improvements:
        return None
    known = read_reflections(Path(settings.index).expanduser())

    return lambda task, number, variant: select_nearest(known, task, variant, number, embedder)
