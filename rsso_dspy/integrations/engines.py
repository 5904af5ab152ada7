"""The engines by name: threads of this process, or a Ray cluster.

    check_engine("ray")                             # before anything is planned
    Executor(player, get_engine("ray")).run(plan, work, jobs=32)

The executor is handed an engine and knows none by name.
"""

import os
from importlib.util import find_spec

from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.experiment.executor import EngineFactory, open_thread_engine

ENGINES = ("threads", "ray")


def check_engine(name: str) -> None:
    """Raise `UnknownName` for no engine, `UsageError` when Ray is asked for and not installed. Imports nothing."""
    if name not in ENGINES:
        raise UnknownName("engine", name, ENGINES)
    if name == "ray" and find_spec("ray") is None:
        raise UsageError("--engine ray needs Ray, which is not installed: pip install 'rsso-dspy[ray]'")


def get_engine(name: str) -> EngineFactory:
    """An engine by name, threads or ray. Raises what `check_engine` raises."""
    check_engine(name)
    if name == "threads":
        return open_thread_engine
    # Ray reads this when it is imported; else it prints on stdout, among the results, whenever it retries a task.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    from rsso_dspy.integrations.ray import open_ray_engine

    return open_ray_engine
