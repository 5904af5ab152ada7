"""ALFWorld's household games, over the package's own engine: downloaded games, or tiny ones that are made.

benchmark    `BENCHMARK`, all that the rest of the project knows of it
environment  `AlfWorld`
engine       the process that plays, and `worker`, what runs in it
wording      `put` and `move`
subgoals     how far an episode has come
maker        tiny games from a number
tasks        task types, splits, the user's games
replay       recorded transcripts played again
"""

from rsso_dspy.environments.alfworld.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
