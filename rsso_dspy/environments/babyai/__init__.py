"""BabyAI's missions in texts, as AgentBoard's wrapper has them, over minigrid's worlds."""

from rsso_dspy.environments.babyai import tasks
from rsso_dspy.environments.babyai.environment import LESSONS, BabyAi
from rsso_dspy.environments.babyai.view import ACTION_TEMPLATES
from rsso_dspy.environments.benchmark import Benchmark, Budget, read_package_version
from rsso_dspy.records import Variant


def find_solution(variant: Variant, *_: object) -> tuple[str, ...]:
    from rsso_dspy.environments.babyai import solutions  # which needs minigrid

    return solutions.find_solution(variant)


BENCHMARK = Benchmark(
    name="babyai",
    version=read_package_version("babyai", "minigrid"),
    tasks=tasks.TABLE,
    make_environment=lambda *_: BabyAi(),
    budget=Budget(lambda _: tasks.GOLD_LENGTH),
    action_templates={"sso": ACTION_TEMPLATES},
    gold_path=find_solution,
    lists_actions=True,
    hints=LESSONS.hints,
    quick=tasks.QUICK,
    tokens_per_call=tasks.TOKENS_PER_CALL,
)
