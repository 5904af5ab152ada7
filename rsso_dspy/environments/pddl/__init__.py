"""PDDL games in texts, as AgentBoard plays them: gripper, blockworld, barman and tyreworld.

environment  `PddlEnvironment`, and one problem in texts: how facts and actions are worded and read, what counts
strips       the engine: reader, problems, worlds
tasks        task types, splits, problems and their plans
"""

from rsso_dspy.environments.benchmark import Benchmark, Budget, UserData
from rsso_dspy.environments.pddl import tasks
from rsso_dspy.environments.pddl.environment import COMMON, LESSONS, PddlEnvironment

__all__ = ["BENCHMARK"]

BENCHMARK = Benchmark(
    name="pddl",
    version="1",  # of texts, points and problems
    tasks=tasks.TABLE,
    make_environment=lambda settings, _: PddlEnvironment(settings.data),
    budget=Budget(tasks.get_gold_length),
    action_templates={"sso": COMMON},
    gold_path=lambda variant, *_: tasks.find_solution(variant),
    lists_actions=True,
    hints=LESSONS.hints,
    data=UserData(tasks.digest_files, tasks.check_files),
)
