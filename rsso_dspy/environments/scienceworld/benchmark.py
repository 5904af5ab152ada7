"""ScienceWorld as a `Benchmark`."""

from collections.abc import Callable
from importlib import metadata

from rsso_dspy.environments.benchmark import Benchmark, Budget, Hints, Settings, read_examples
from rsso_dspy.environments.scienceworld import action_help, goal_advice, lessons, tasks
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES
from rsso_dspy.environments.scienceworld.environment import ScienceWorld


def _start_environment(settings: Settings, stopped: Callable[[], bool]) -> ScienceWorld:
    return ScienceWorld(heap=settings.heap, step_limit=settings.step_seconds, stopped=stopped).start()


BENCHMARK = Benchmark(
    name="scienceworld",
    version=metadata.version("scienceworld"),
    tasks=tasks.TABLE,
    make_environment=_start_environment,
    budget=Budget(tasks.get_gold_length, lambda variant: tasks.find_known_length(variant) is not None),
    action_templates={"sso": ACTION_TEMPLATES, "complete": action_help.USUAL},
    gold_path=lambda variant, *_: tasks.compute_gold_paths([variant])[0],
    hints=Hints(goal_advice.GOALS, lessons.draw_lessons, lambda: read_examples(__package__)),
)
