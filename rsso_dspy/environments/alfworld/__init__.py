"""ALFWorld's household games, over the package's own engine: downloaded games, or tiny ones that come along.

environment  `AlfWorld`
engine       the process that plays, and `worker`, what runs in it
wording      `put` and `move`, and how far an episode has come
tasks        task types, splits, the user's games and tiny ones
"""

from collections.abc import Callable

from rsso_dspy.environments.alfworld import lessons, tasks
from rsso_dspy.environments.alfworld.environment import MOST_STEPS, AlfWorld
from rsso_dspy.environments.alfworld.wording import PUBLISHED, RECENT, word_action
from rsso_dspy.environments.benchmark import (
    Benchmark,
    Budget,
    Hints,
    Settings,
    UserData,
    read_examples,
    read_package_version,
)
from rsso_dspy.records import Variant

__all__ = ["BENCHMARK"]


_GOALS = {
    "see": (
        "the thing found",
        ("When the thing is not in sight, go to the next place that was not visited, and open it if it is closed.",),
    ),
    "take": ("the thing picked up", ("When the thing is in sight, take it with its number.",)),
    "clean": ("the thing cleaned", ("When the thing is in hand, go to a sinkbasin and clean it there.",)),
    "heat": ("the thing heated", ("When the thing is in hand, go to a microwave and heat it there.",)),
    "cool": ("the thing cooled", ("When the thing is in hand, go to a fridge and cool it there.",)),
    "light": ("the lamp turned on", ("When the thing is in hand, go to where the desklamp is and use it.",)),
    "put": (
        "the thing put where it belongs",
        ("When the thing is ready, go to the place of the task, open it if it is closed, and put it there.",),
    ),
    "task": ("the task as a whole", ()),
}
_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _make_environment(settings: Settings, stopped: Callable[[], bool]) -> AlfWorld:
    most = int(settings.heap[:-1]) * _SIZES[settings.heap[-1].lower()]
    return AlfWorld(settings.data or tasks.find_data(), settings.step_seconds, most, stopped)


def _find_gold_path(variant: Variant, folder: str | None, interface: str) -> list[str]:
    return [word_action(action, interface) for action in tasks.find_walkthrough(variant, folder)]


BENCHMARK = Benchmark(
    name="alfworld",
    version=read_package_version("alfworld", "alfworld"),
    tasks=tasks.TABLE,
    make_environment=_make_environment,
    budget=Budget(lambda _: tasks.GOLD_LENGTH, most_steps=MOST_STEPS),
    action_templates={"sso": PUBLISHED, "complete": RECENT},
    gold_path=_find_gold_path,
    lists_actions=True,
    hints=Hints(_GOALS, lessons.draw_lessons, lambda: read_examples(__package__)),
    data=UserData(
        lambda folder: tasks.read_games(folder).digest, tasks.check_games, tasks.find_data, tasks.count_games
    ),
)
