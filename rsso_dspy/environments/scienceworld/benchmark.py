"""ScienceWorld as a `Benchmark`."""

from collections.abc import Callable
from importlib import metadata

from rsso_dspy.environments.benchmark import Benchmark, Settings, read_examples
from rsso_dspy.environments.scienceworld import action_help, goal_advice, lessons, tasks
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES, GRAMMAR
from rsso_dspy.environments.scienceworld.environment import ScienceWorld
from rsso_dspy.environments.scienceworld.jvm import list_java_candidates

QUICK = "lifespan-longest-lived::93"
"""A variant that loads fast."""

SIMPLIFICATIONS = (
    "easy",
    "teleportAction",
    "selfWateringFlowerPots",
    "openContainers",
    "openDoors",
    "noElectricalAction",
)
"""`easy` stands for all but openContainers."""


def _start_environment(settings: Settings, stopped: Callable[[], bool]) -> ScienceWorld:
    return ScienceWorld(heap=settings.heap, step_limit=settings.step_seconds, stopped=stopped).start()


def _run_smoke_test(settings: Settings) -> str:
    with ScienceWorld(heap=settings.heap, step_limit=settings.step_seconds) as environment:
        environment.reset(tasks.parse(QUICK))
        environment.step("look around")
    return f"ScienceWorld plays, with {list_java_candidates()[0]}"


BENCHMARK = Benchmark(
    name="scienceworld",
    version=metadata.version("scienceworld"),
    table=tasks.TABLE,
    environment=_start_environment,
    action_templates=ACTION_TEMPLATES,
    gold_length=tasks.get_gold_length,
    known_length=tasks.find_known_length,
    simplifications=SIMPLIFICATIONS,
    own_grammar=GRAMMAR,
    goal_advice=goal_advice.ADVICE,
    goal_phrases=goal_advice.PHRASES,
    lessons=lessons.draw_lessons,
    examples=lambda: read_examples(__package__),
    own_gold_path=lambda variant: tasks.compute_gold_paths([variant])[0],
    admissible="long",
    own_check=_run_smoke_test,
    interfaces={"complete": action_help.USUAL},
)
