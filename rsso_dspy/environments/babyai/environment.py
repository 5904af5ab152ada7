"""A BabyAI world as an `Environment`.

    env = BabyAi()
    env.reset(TABLE.parse("GoToRedBall::1234"))
    env.step("go to red ball 1")

Without labels, minigrid says whether the mission is achieved: that is 100 points and nothing less is, and a mission
that failed ends the episode. Patterns made from the mission count what came before. With AgentBoard's labels a test
variant counts as AgentBoard has it: an end with more than half of the patterns is a success, whatever minigrid says.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from rsso_dspy.environments import Goal, Transition
from rsso_dspy.environments.babyai import lessons
from rsso_dspy.environments.babyai.action_help import ACTION_TEMPLATES
from rsso_dspy.environments.babyai.actions import CHECK
from rsso_dspy.environments.babyai.game import NO_CHANGE, Game
from rsso_dspy.environments.babyai.labels import get_patterns
from rsso_dspy.environments.babyai.levels import THROUGH_LOCKED_DOORS, make_world
from rsso_dspy.environments.babyai.subgoals import PatternProgress, make_patterns
from rsso_dspy.environments.babyai.tasks import TABLE, get_seed
from rsso_dspy.errors import SimulatorDied, SplitError
from rsso_dspy.records import SOLVED_SCORE, Lesson, State, Step, Variant


class BabyAi:
    """Plays one world after the other. ``labels``: where AgentBoard's labels are, if the user has them."""

    rules_of_thumb = lessons.RULES_OF_THUMB
    action_templates = ACTION_TEMPLATES
    points_at_reset = 0
    alive = True

    def __init__(self, labels: str | None = None):
        self._labels = labels
        self._variant: Variant | None = None
        self._game: Game | None = None
        self._patterns: list[str] = []
        self._own: PatternProgress | None = None
        self._score = 0

    @property
    def task(self) -> str:
        """The goal as AgentBoard words it, in which the order of two parts is lost."""
        return self._require_game().goal

    @property
    def achieved(self) -> bool:
        """Whether minigrid has said that the mission is achieved, however points are counted."""
        return bool(self._require_game().achieved)

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises ``SimulatorDied`` when its generator does not end, and what `get_patterns`
        raises."""
        world, seed = make_world(variant.task), get_seed(variant)  # a used one may remember the world before
        game = Game(world, seed, None)
        labels = None
        if self._labels and variant.split == "test":
            labels = get_patterns(self._labels, variant, game.mission)
            game = Game(world, seed, labels)
        self._patterns = make_patterns(game.mission, _list_locked(world), variant.task in THROUGH_LOCKED_DOORS)
        self._own = None if labels else PatternProgress([self._patterns])
        self._game, self._variant = game, variant
        self._score = 0
        return State(game.first, "", "")

    def step(self, action: str) -> Transition:
        """One action as the actor wrote it."""
        game, before = self._require_game(), self._score
        asked = " ".join(action.split())
        answer = game.step(asked.rstrip("."))
        if answer.moves:
            self._score = self._count_points(game, answer.observation)
        unchanged = answer.observation == NO_CHANGE
        return Transition(
            state=State(answer.observation, "", ""),
            action=asked,
            reward=self._score - before,
            score=self._score,
            understood=game.valid is not False or (unchanged and bool(asked)),
            done=self._score == SOLVED_SCORE or (self._own is not None and game.achieved is not None),
            no_effect=unchanged and bool(asked),
            own_success=bool(game.achieved) if self._own is None else None,
        )

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as AgentBoard offers it, less what would change nothing."""
        return [text for text, moves in self._require_game().offer.moves.items() if moves and text != CHECK]

    def render(self, states: Sequence[State]) -> list[str]:
        return [state.observation for state in states]

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:
        return lessons.draw_lessons(self.task, states, steps)

    def goal_progress(self) -> tuple[Goal, ...]:
        """The patterns by kind and which are met, and the mission. Raises ``SplitError`` for a test variant."""
        self._require_game()
        variant = self._variant
        assert variant is not None
        if TABLE.split_of(variant.task, variant.index) == "test" or self._own is None:
            raise SplitError(f"{variant.key} is a test variant: its goal progress is shown to nobody")
        met = zip(self._patterns, self._own.is_met, strict=True)
        goals = [Goal(_name_kind(pattern), done, False) for pattern, done in met]
        return (*goals, Goal("mission", self.achieved, True))

    def close(self) -> None:
        self._game = None

    def _count_points(self, game: Game, observation: str) -> int:
        if self._own is None:
            return SOLVED_SCORE if game.done else int(SOLVED_SCORE * game.progress)
        self._own.read(observation)
        if self.achieved:
            return SOLVED_SCORE
        return int(SOLVED_SCORE * self._own.share * self._own.total / (self._own.total + 1))

    def _require_game(self) -> Game:
        if self._game is None:
            raise SimulatorDied("no variant is being played: reset the environment first.")
        return self._game


def check_labels(variants: Iterable[Variant], folder: str | None) -> None:
    """Raise what `get_patterns` raises for one of the test variants."""
    for variant in variants if folder else ():
        if variant.split == "test":
            mission = Game(make_world(variant.task), get_seed(variant), None).mission
            get_patterns(str(folder), variant, mission)


def _list_locked(world: Any) -> list[str]:
    """Colours of the locked doors."""
    cells = (cell for cell in world.grid.grid if cell is not None and cell.type == "door")
    return sorted({cell.color for cell in cells if cell.is_locked})


def _name_kind(pattern: str) -> str:
    """What sort of pattern it is."""
    if pattern.startswith("You are carrying"):
        return "key" if pattern.endswith(" key.") else "carry"
    if " open door" in pattern:
        return "open"
    return "face" if "right in front" in pattern else "see"
