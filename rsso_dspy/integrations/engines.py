"""The engines by name: threads of this process, or a Ray cluster.

    check_engine("ray")                             # before planning
    Executor(player, get_engine("ray")).run(plan, work, jobs=32)

The executor receives an engine and knows none by name.
"""

import os
from importlib.util import find_spec

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.experiment.executor import EngineFactory, open_thread_engine

ENGINES = ("threads", "ray")


def check_engine(name: str) -> None:
    """Raise `UnknownName` for an unknown engine, `UsageError` if Ray is not installed. Imports nothing."""
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    if name == "ray" and find_spec("ray") is None:
        raise UsageError("--engine ray needs Ray, which is not installed: pip install 'rsso-dspy[ray]'")


def get_engine(name: str) -> EngineFactory:
    """Return the engine `threads` or `ray`. Raises what `check_engine` raises."""
    check_engine(name)
    if name == "threads":
        return open_thread_engine
    # Ray reads this at import; otherwise it prints every retry of a task on stdout, among the results.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    from rsso_dspy.integrations.ray import open_ray_engine

    return open_ray_engine
