"""BabyAI as a `Benchmark`. minigrid is the extra `babyai`."""

from collections.abc import Callable

from rsso_dspy.environments.babyai import lessons, tasks
from rsso_dspy.environments.babyai.action_help import ACTION_TEMPLATES
from rsso_dspy.environments.babyai.environment import BabyAi, check_labels
from rsso_dspy.environments.benchmark import Benchmark, Settings, read_examples, read_package_version
from rsso_dspy.environments.grammar import Grammar
from rsso_dspy.environments.naming import Naming

_PHRASES = {
    "see": "a thing found",
    "face": "a thing walked up to",
    "carry": "a thing picked up",
    "key": "a key picked up",
    "open": "a door opened",
    "mission": "the mission as a whole",
}
_ADVICE = {
    "see": ("When the thing is not in sight, turn left until the room is seen, then open a door.",),
    "face": ("When the thing is in sight, go to it.",),
    "carry": ("When the thing is in sight, pickup it.",),
    "key": ("When a locked door is in the way, pickup the key of its colour first.",),
    "open": ("Before anything else, toggle and go through the door that the mission names.",),
}
_NAMING = Naming(
    names=r"\b(?:there is|you are carrying) an? ([a-z ]+?)(?= \d|\.)", roles=frozenset({"ball", "box", "door", "key"})
)


def _make_environment(settings: Settings, stopped: Callable[[], bool]) -> BabyAi:  # noqa: ARG001
    return BabyAi(settings.data)


BENCHMARK = Benchmark(
    name="babyai",
    version=read_package_version("babyai", "minigrid"),
    table=tasks.TABLE,
    environment=_make_environment,
    action_templates=ACTION_TEMPLATES,
    gold_length=lambda _: tasks.GOLD_LENGTH,
    own_grammar=Grammar.from_templates(ACTION_TEMPLATES, _NAMING),
    goal_advice=_ADVICE,
    goal_phrases=_PHRASES,
    lessons=lessons.draw_lessons,
    examples=lambda: read_examples(__package__),
    own_gold_path=tasks.find_solution,
    admissible="short",
    digest_data=tasks.digest_labels,
    check_variants=check_labels,
)
