"""Open doors: any text environment as a benchmark, and every benchmark as a Gymnasium environment.

BENCHMARK = from_gymnasium("MiniGrid-Empty-5x5-v0", name="empty", describe=..., actions=...)
world = to_gymnasium("cave", tasks=["fetch-lamp"])
"""

from rsso_dspy.benchmarks.from_gymnasium import from_gymnasium
from rsso_dspy.benchmarks.to_gymnasium import to_gymnasium

__all__ = ["from_gymnasium", "to_gymnasium"]
