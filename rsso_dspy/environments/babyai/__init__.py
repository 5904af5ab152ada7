"""BabyAI's missions in texts, as AgentBoard's wrapper has them, over minigrid's worlds.

environment  `BabyAi`, one world in texts, and the patterns that progress goes by
view         what is seen, its text, and what can be done
tasks        task types, minigrid's worlds, splits, solutions, AgentBoard's labels
"""

from collections.abc import Callable

from rsso_dspy.environments.babyai import lessons, tasks
from rsso_dspy.environments.babyai.environment import BabyAi, check_labels
from rsso_dspy.environments.babyai.view import ACTION_TEMPLATES
from rsso_dspy.environments.benchmark import (
    Benchmark,
    Budget,
    Hints,
    Settings,
    UserData,
    read_examples,
    read_package_version,
)

__all__ = ["BENCHMARK"]


_GOALS = {
    "see": (
        "a thing found",
        ("When the thing is not in sight, turn left until the room is seen, then open a door.",),
    ),
    "face": ("a thing walked up to", ("When the thing is in sight, go to it.",)),
    "carry": ("a thing picked up", ("When the thing is in sight, pickup it.",)),
    "key": ("a key picked up", ("When a locked door is in the way, pickup the key of its colour first.",)),
    "open": ("a door opened", ("Before anything else, toggle and go through the door that the mission names.",)),
    "mission": ("the mission as a whole", ()),
}


def _make_environment(settings: Settings, stopped: Callable[[], bool]) -> BabyAi:  # noqa: ARG001
    return BabyAi(settings.data)


BENCHMARK = Benchmark(
    name="babyai",
    version=read_package_version("babyai", "minigrid"),
    tasks=tasks.TABLE,
    make_environment=_make_environment,
    budget=Budget(lambda _: tasks.GOLD_LENGTH),
    action_templates={"sso": ACTION_TEMPLATES},
    gold_path=lambda variant, *_: tasks.find_solution(variant),
    lists_actions=True,
    hints=Hints(_GOALS, lessons.draw_lessons, lambda: read_examples(__package__)),
    data=UserData(tasks.digest_labels, check_labels),
)
