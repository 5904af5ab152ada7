"""ALFWorld's household games, over the package's own engine: downloaded games, or tiny ones that come along."""

from rsso_dspy.environments.alfworld import tasks
from rsso_dspy.environments.alfworld.environment import LESSONS, MOST_STEPS, PUBLISHED, RECENT, AlfWorld, to_engine
from rsso_dspy.environments.benchmark import Benchmark, Budget, UserData, read_package_version

BENCHMARK = Benchmark(
    name="alfworld",
    version=read_package_version("alfworld", "alfworld"),
    tasks=tasks.TABLE,
    make_environment=lambda settings, stopped: AlfWorld(
        settings.data or tasks.find_data(), settings.step_seconds, stopped
    ),
    budget=Budget(lambda _: tasks.GOLD_LENGTH, most_steps=MOST_STEPS),
    action_templates={"sso": PUBLISHED, "complete": RECENT},
    gold_path=lambda variant, folder, interface: [
        to_engine(action, interface != "sso") for action in tasks.find_walkthrough(variant, folder)
    ],
    lists_actions=True,
    hints=LESSONS.hints,
    data=UserData(
        lambda folder: tasks.read_games(folder).digest,
        tasks.check_games,
        tasks.find_data,
        tasks.count_games,
        tasks.describe_skipped_games,
    ),
)
