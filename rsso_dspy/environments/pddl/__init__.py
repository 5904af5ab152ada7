"""PDDL games in texts, as AgentBoard plays them: gripper, blockworld, barman and tyreworld.

environment  `PddlEnvironment`, and one problem in texts: observations, what counts, what is offered
wording      how facts and actions are worded and read
strips       the engine: reader, problems, worlds
tasks        task types, splits, problems and their plans
"""

from collections.abc import Callable

from rsso_dspy.environments.benchmark import Benchmark, Budget, Hints, Settings, UserData, read_examples
from rsso_dspy.environments.pddl import lessons, tasks
from rsso_dspy.environments.pddl.environment import PddlEnvironment
from rsso_dspy.environments.pddl.wording import COMMON

__all__ = ["BENCHMARK"]


_GOALS = {
    "at": (
        "a ball in its room",
        ("When a ball is not in its room, pick up the ball and carry it there.",),
    ),
    "on": ("a thing on the one below it", ("Always build from the bottom: clear what is needed first.",)),
    "contains": ("a drink in its glass", ("Before you pour, clean the glass and the shaker.",)),
    "inflated": ("a wheel inflated", ("When you have the pump, inflate the wheel.",)),
    "tight": ("a nut tightened", ("After the hub is back on the ground, tighten the nut.",)),
    "in": ("a thing put away", ("Before the end, put away what the goal wants in the boot.",)),
}


def _make_environment(settings: Settings, stopped: Callable[[], bool]) -> PddlEnvironment:  # noqa: ARG001
    return PddlEnvironment(settings.data)


BENCHMARK = Benchmark(
    name="pddl",
    version="1",  # of texts, points and problems
    tasks=tasks.TABLE,
    make_environment=_make_environment,
    budget=Budget(tasks.get_gold_length),
    action_templates={"sso": COMMON},
    gold_path=lambda variant, *_: tasks.find_solution(variant),
    lists_actions=True,
    hints=Hints(_GOALS, lessons.draw_lessons, lambda: read_examples(__package__)),
    data=UserData(tasks.digest_files, tasks.check_files),
)
