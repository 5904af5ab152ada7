"""ScienceWorld: text-game tasks of an elementary school science class (Wang et al. 2022), as run by the SSO papers."""

from rsso_dspy.environments.benchmark import Benchmark, Budget
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES, USUAL
from rsso_dspy.environments.scienceworld.environment import ScienceWorld
from rsso_dspy.environments.scienceworld.lessons import LESSONS

BENCHMARK = Benchmark(
    name="scienceworld",
    version=tasks.VERSION,
    tasks=tasks.TABLE,
    make_environment=lambda settings, stopped: ScienceWorld(
        heap=settings.heap, step_limit=settings.step_seconds, stopped=stopped
    ),
    budget=Budget(tasks.get_gold_length, lambda variant: tasks.find_known_length(variant) is not None),
    action_templates={"sso": ACTION_TEMPLATES, "complete": USUAL},
    gold_path=lambda variant, *_: tasks.compute_gold_paths([variant])[0],
    hints=LESSONS.hints,
)
