"""ScienceWorld as a `Benchmark`."""

from rsso_dspy.environments.benchmark import Benchmark, Budget, Hints
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
    ).start(),
    budget=Budget(tasks.get_gold_length, lambda variant: tasks.find_known_length(variant) is not None),
    about=LESSONS.about,
    action_templates={"sso": ACTION_TEMPLATES, "complete": USUAL},
    gold_path=lambda variant, *_: tasks.compute_gold_paths([variant])[0],
    hints=Hints(LESSONS.goals, LESSONS, LESSONS.read_examples),
)
