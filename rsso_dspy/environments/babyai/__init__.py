"""BabyAI's missions in texts, as AgentBoard's wrapper has them, over minigrid's worlds.

environment  `BabyAi`, one world in texts, and the patterns that progress goes by
view         what is seen, its text, and what can be done
tasks        task types, minigrid's worlds, splits, solutions
"""

from rsso_dspy.environments.babyai import tasks
from rsso_dspy.environments.babyai.environment import BabyAi
from rsso_dspy.environments.babyai.lessons import LESSONS
from rsso_dspy.environments.babyai.view import ACTION_TEMPLATES
from rsso_dspy.environments.benchmark import Benchmark, Budget, Hints, read_package_version

__all__ = ["BENCHMARK"]

BENCHMARK = Benchmark(
    name="babyai",
    version=read_package_version("babyai", "minigrid"),
    tasks=tasks.TABLE,
    make_environment=lambda *_: BabyAi(),
    budget=Budget(lambda _: tasks.GOLD_LENGTH),
    about=LESSONS.about,
    action_templates={"sso": ACTION_TEMPLATES},
    gold_path=lambda variant, *_: tasks.find_solution(variant),
    lists_actions=True,
    hints=Hints(LESSONS.goals, LESSONS, LESSONS.read_examples),
)
