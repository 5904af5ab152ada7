"""BabyAI's missions in texts, as AgentBoard's wrapper has them, over minigrid's worlds.

benchmark    `BENCHMARK`, all that the rest of the project knows of it
environment  `BabyAi`, one world in texts, and the patterns that progress goes by
view         what is seen, its text, and what can be done
tasks        task types, minigrid's worlds, splits, solutions, AgentBoard's labels
"""

from rsso_dspy.environments.babyai.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
