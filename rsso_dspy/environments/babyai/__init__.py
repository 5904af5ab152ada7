"""BabyAI's missions in texts, as AgentBoard's wrapper has them, over minigrid's worlds.

benchmark    `BENCHMARK`, all that the rest of the project knows of it
environment  `BabyAi`
game         one world in texts: observations, answers, what counts
view         what is seen, and its text
paths        ways through what is seen
actions      what can be done from a view
subgoals     patterns that progress goes by, and those made from a mission
levels       the 28 levels and minigrid's worlds
tasks        task types, splits, worlds that are replaced
labels       AgentBoard's labels, from the user's copy
"""

from rsso_dspy.environments.babyai.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
