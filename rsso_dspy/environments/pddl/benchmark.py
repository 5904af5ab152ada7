"""PDDL as a `Benchmark`."""

from collections.abc import Callable

from rsso_dspy.environments.benchmark import Benchmark, Settings, read_examples
from rsso_dspy.environments.pddl import action_help, lessons, tasks
from rsso_dspy.environments.pddl.environment import PddlEnvironment

VERSION = "1"
"""Of texts, points and problems."""

_PHRASES = {
    "at": "a ball in its room",
    "on": "a thing on the one below it",
    "contains": "a drink in its glass",
    "inflated": "a wheel inflated",
    "tight": "a nut tightened",
    "in": "a thing put away",
}
_ADVICE = {
    "at": ("When a ball is not in its room, pick up the ball and carry it there.",),
    "on": ("Always build from the bottom: clear what is needed first.",),
    "contains": ("Before you pour, clean the glass and the shaker.",),
    "inflated": ("When you have the pump, inflate the wheel.",),
    "tight": ("After the hub is back on the ground, tighten the nut.",),
    "in": ("Before the end, put away what the goal wants in the boot.",),
}


def _make_environment(settings: Settings, stopped: Callable[[], bool]) -> PddlEnvironment:  # noqa: ARG001
    return PddlEnvironment(settings.data)


def _check(settings: Settings) -> str:
    """Reset a made problem, and read all of the user's. Raises ``UsageError`` that names those that are refused."""
    environment = PddlEnvironment()
    environment.reset(tasks.TABLE.variant(next(iter(tasks.FILES)), 0))
    held = f": {tasks.describe_files(settings.data)}" if settings.data else ""
    return f"pddl {VERSION} plays{held}"


BENCHMARK = Benchmark(
    name="pddl",
    version=VERSION,
    table=tasks.TABLE,
    environment=_make_environment,
    action_templates=action_help.COMMON,
    gold_length=tasks.get_gold_length,
    own_grammar=action_help.GRAMMAR,
    goal_advice=_ADVICE,
    goal_phrases=_PHRASES,
    lessons=lessons.draw_lessons,
    examples=lambda: read_examples(__package__),
    own_gold_path=tasks.find_solution,
    admissible="short",
    own_check=_check,
    digest_data=tasks.digest_files,
    check_variants=tasks.check_files,
)
