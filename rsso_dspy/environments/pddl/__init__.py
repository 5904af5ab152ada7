"""PDDL games in texts, as AgentBoard plays them: gripper, blockworld, barman and tyreworld.

benchmark    `BENCHMARK`, all that the rest of the project knows of it
environment  `PddlEnvironment`
game         one problem in texts: observations, what counts, what is offered
phrases      how facts and actions are worded
wording      an action read out of a text
strips, reader, grounding  the engine
tasks        task types, splits, problems and their plans
"""

from rsso_dspy.environments.pddl.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
