"""PDDL games in texts, as AgentBoard plays them: gripper, blockworld, barman and tyreworld."""

from rsso_dspy.environments.benchmark import Benchmark, Budget, UserData
from rsso_dspy.environments.pddl import tasks
from rsso_dspy.environments.pddl.environment import COMMON, LESSONS, PddlEnvironment

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
