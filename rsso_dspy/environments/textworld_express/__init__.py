"""The eight text games of TextWorldExpress, played by its own simulator in a Java process."""

from rsso_dspy.environments.benchmark import Benchmark, Budget, read_package_version
from rsso_dspy.environments.textworld_express import solutions, tasks
from rsso_dspy.environments.textworld_express.environment import COMMON, LESSONS, TextWorldExpress

BENCHMARK = Benchmark(
    name="textworld-express",
    version=f"{read_package_version('textworld-express', 'textworld-express')}+{tasks.CHOICE}",
    tasks=tasks.TABLE,
    make_environment=lambda settings, stopped: TextWorldExpress(
        heap=settings.heap, step_limit=settings.step_seconds, stopped=stopped
    ),
    budget=Budget(lambda _: tasks.GOLD_LENGTH),
    action_templates={"sso": COMMON},
    gold_path=lambda variant, *_: solutions.find_solution(variant),
    lists_actions=True,
    hints=LESSONS.hints,
)
