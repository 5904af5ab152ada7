"""ALFWorld's household games, over the package's own engine: downloaded games, or tiny ones that come along.

benchmark    `BENCHMARK`, all that the rest of the project knows of it
environment  `AlfWorld`
engine       the process that plays, and `worker`, what runs in it
wording      `put` and `move`, and how far an episode has come
tasks        task types, splits, the user's games and tiny ones
"""

from rsso_dspy.environments.alfworld.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
