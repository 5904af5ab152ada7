"""Plays a benchmark as a Gymnasium environment, for other harnesses.

    world = to_gymnasium("cave", tasks=["fetch-lamp"], split="train")
    text, info = world.reset(seed=3)                    # or options={"variant": "fetch-lamp::3"}
    text, reward, terminated, truncated, info = world.step("pick up lamp")

Observations and actions are texts; the first observation begins with the task. `info` holds the variant, its action
templates, the points of 100, whether the action was understood and, where the benchmark lists them, the possible
actions. Rewards are the change of points, divided by 100.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.environments import Interface
from rsso_dspy.environments.benchmark import Benchmark, PlainSettings, Settings, get_benchmark
from rsso_dspy.errors import NotInstalled, UsageError
from rsso_dspy.records import Split

if TYPE_CHECKING:
    import gymnasium


def to_gymnasium(
    benchmark: str | Benchmark,
    *,
    tasks: Sequence[str] = (),
    split: Split = "train",
    steps: int | None = None,
    interface: Interface = "sso",
    data: str | None = None,
    settings: Settings | None = None,
) -> "gymnasium.Env[str, str]":
    """Return a Gymnasium environment of a benchmark.

    ``tasks``: task types (default: all). ``split``: train, dev or test; a reset draws one of its variants with the
    seed. ``steps``: truncates an episode (default: 1.5 times the gold length, where it is known at once). ``data``: the
    user's data folder.

    Raises `NotInstalled` without gymnasium, and what `get_benchmark` and `TaskTable` raise for unknown names.
    """
    try:
        from rsso_dspy.benchmarks.gymnasium_env import BenchmarkEnv
    except ModuleNotFoundError as error:
        if error.name != "gymnasium":
            raise
        raise NotInstalled("gymnasium is not installed: pip install 'rsso-dspy[gym]'") from None
    played = get_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
    if split not in ("train", "dev", "test"):
        raise UsageError(f"split must be train, dev or test, not {split!r}")
    chosen = tuple(tasks) or played.table.tasks()
    for task in chosen:
        played.table.indices(task, split)
    own: Settings = settings or PlainSettings(",".join(played.simplifications[:1]), data=played.locate_data(data))
    return BenchmarkEnv(played.limit_to_data(own.data), chosen, split, steps, interface, own)
