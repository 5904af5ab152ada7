"""BabyAI as a `Benchmark`. minigrid is the extra `babyai`."""

from collections.abc import Callable
from importlib import metadata

from rsso_dspy.environments.babyai import lessons, tasks
from rsso_dspy.environments.babyai.action_help import ACTION_TEMPLATES
from rsso_dspy.environments.babyai.environment import BabyAi
from rsso_dspy.environments.babyai.labels import digest_labels
from rsso_dspy.environments.babyai.replay import replay_episode
from rsso_dspy.environments.benchmark import Benchmark, Settings
from rsso_dspy.errors import NotInstalled
from rsso_dspy.records import Variant

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


def _read_version() -> str:
    try:
        return metadata.version("minigrid")
    except metadata.PackageNotFoundError:
        raise NotInstalled("the benchmark babyai needs minigrid: pip install 'rsso-dspy[babyai]'") from None


def _make_environment(settings: Settings, stopped: Callable[[], bool]) -> BabyAi:  # noqa: ARG001
    return BabyAi(settings.data)


def _get_gold_length(variant: Variant) -> int:  # noqa: ARG001
    return tasks.GOLD_LENGTH


BENCHMARK = Benchmark(
    name="babyai",
    version=_read_version(),
    table=tasks.TABLE,
    environment=_make_environment,
    action_templates=ACTION_TEMPLATES,
    gold_length=_get_gold_length,
    goal_advice=_ADVICE,
    goal_phrases=_PHRASES,
    lessons=lessons.draw_lessons,
    admissible="short",
    digest_data=digest_labels,
    replay=replay_episode,
)
