"""ALFWorld as a `Benchmark`. The package is the extra `alfworld`."""

from collections.abc import Callable

from rsso_dspy.environments.alfworld import lessons, tasks
from rsso_dspy.environments.alfworld.action_help import PUBLISHED, RECENT
from rsso_dspy.environments.alfworld.environment import MOST_STEPS, AlfWorld
from rsso_dspy.environments.alfworld.wording import word_action
from rsso_dspy.environments.benchmark import Benchmark, Settings, read_examples, read_package_version
from rsso_dspy.environments.grammar import Grammar
from rsso_dspy.environments.naming import Naming

_PHRASES = {
    "see": "the thing found",
    "take": "the thing picked up",
    "clean": "the thing cleaned",
    "heat": "the thing heated",
    "cool": "the thing cooled",
    "light": "the lamp turned on",
    "put": "the thing put where it belongs",
    "task": "the task as a whole",
}
_ADVICE = {
    "see": ("When the thing is not in sight, go to the next place that was not visited, and open it if it is closed.",),
    "take": ("When the thing is in sight, take it with its number.",),
    "clean": ("When the thing is in hand, go to a sinkbasin and clean it there.",),
    "heat": ("When the thing is in hand, go to a microwave and heat it there.",),
    "cool": ("When the thing is in hand, go to a fridge and cool it there.",),
    "light": ("When the thing is in hand, go to where the desklamp is and use it.",),
    "put": ("When the thing is ready, go to the place of the task, open it if it is closed, and put it there.",),
}
_NAMING = Naming(names=r"\b(?:an?|the) ([a-z]+)(?= \d)")
"""Things have numbers, and tasks name them without."""
_SIZES = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def _make_environment(settings: Settings, stopped: Callable[[], bool]) -> AlfWorld:
    most = int(settings.heap[:-1]) * _SIZES[settings.heap[-1].lower()]
    return AlfWorld(settings.data or tasks.find_data(), settings.step_seconds, most, stopped)


def _check(settings: Settings) -> str:
    """Win a made training game by its walkthrough, and count the user's games."""
    task = tasks.TABLE.tasks()[0]
    environment = AlfWorld(None, settings.step_seconds)
    try:
        environment.reset(tasks.TABLE.variant(task, 0))
        won = [environment.step(action).done for action in tasks.load_made_game(task, 0)["walkthrough"]][-1]
    finally:
        environment.close()
    folder = settings.data or tasks.find_data()
    games = tasks.read_games(folder).describe() if folder else "tiny games, as no folder of games is named"
    return f"alfworld {BENCHMARK.version} {'plays' if won else 'does not win a made game'}: {games}"


BENCHMARK = Benchmark(
    name="alfworld",
    version=read_package_version("alfworld", "alfworld"),
    table=tasks.TABLE,
    environment=_make_environment,
    action_templates=PUBLISHED,
    gold_length=lambda _: tasks.GOLD_LENGTH,
    most_steps=MOST_STEPS,
    own_grammar=Grammar.from_templates(PUBLISHED, _NAMING),
    goal_advice=_ADVICE,
    goal_phrases=_PHRASES,
    lessons=lessons.draw_lessons,
    examples=lambda: read_examples(__package__),
    admissible="short",
    own_check=_check,
    own_gold_path=tasks.find_walkthrough,
    gold_path_in=tasks.find_walkthrough,
    word_solution=word_action,
    digest_data=lambda folder: tasks.read_games(folder).digest,
    check_variants=tasks.check_games,
    count_variants=tasks.count_games,
    find_data=tasks.find_data,
    interfaces={"complete": RECENT},
)
