"""PDDL games in texts, as AgentBoard plays them: gripper, blockworld, barman and tyreworld.

benchmark    `BENCHMARK`, all that the rest of the project knows of it
environment  `PddlEnvironment`, and one problem in texts: observations, what counts, what is offered
wording      how facts and actions are worded and read
strips       the engine: reader, problems, worlds
tasks        task types, splits, problems and their plans
"""

from rsso_dspy.environments.pddl.benchmark import BENCHMARK

__all__ = ["BENCHMARK"]
