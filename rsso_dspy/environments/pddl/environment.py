"""A PDDL problem as an `Environment`.

    env = PddlEnvironment()
    env.reset(TABLE.parse("gripper::50"))
    env.step("Move from rooma to roomb.")

The score is the progress rate, of 100: 100 when the goal is satisfied and never before.
"""

from collections.abc import Sequence

from rsso_dspy.environments import Transition
from rsso_dspy.environments.goals import Goal
from rsso_dspy.environments.pddl import lessons
from rsso_dspy.environments.pddl.action_help import ACTION_TEMPLATES, COMMON
from rsso_dspy.environments.pddl.game import Game, load_domain
from rsso_dspy.environments.pddl.phrases import CHECK
from rsso_dspy.environments.pddl.tasks import TABLE, load_setup
from rsso_dspy.errors import SimulatorDied, SplitError
from rsso_dspy.records import SOLVED_SCORE, Lesson, State, Step, Variant


class PddlEnvironment:
    """Plays one problem after the other. ``folder``: where AgentBoard's own are, if the user has them."""

    rules_of_thumb = lessons.RULES_OF_THUMB
    verbs = ("check", "look")
    points_at_reset = 0
    alive = True

    def __init__(self, folder: str | None = None):
        self._folder = folder
        self._variant: Variant | None = None
        self._game: Game | None = None

    @property
    def task(self) -> str:
        """The goal of the variant that was reset last."""
        return self._require_game().goal

    @property
    def action_templates(self) -> str:
        """Those of the domain that was reset last."""
        return COMMON if self._variant is None else ACTION_TEMPLATES[self._variant.task]

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises what `load_setup` raises."""
        self._game = Game(load_domain(variant.task), load_setup(variant, self._folder))
        self._variant = variant
        return State(self._game.first, "", "")

    def step(self, action: str) -> Transition:
        """One action as the actor wrote it."""
        game = self._require_game()
        before = self._count_points()
        answer = game.step(action)
        score = self._count_points()
        return Transition(
            state=State(answer.observation, "", ""),
            action=" ".join(action.split()),
            reward=score - before,
            score=score,
            understood=answer.valid,
            done=game.won,
        )

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as AgentBoard offers it: less the full stops, and the question for this very list."""
        return [text.rstrip(". ") for text in self._require_game().list_actions() if text != CHECK]

    def render(self, states: Sequence[State]) -> list[str]:
        return [state.observation for state in states]

    def lessons(self, states: Sequence[State], steps: Sequence[Step]) -> Sequence[Lesson]:
        return lessons.draw_lessons(self.task, states, steps)

    def goal_progress(self) -> tuple[Goal, ...]:
        """The literals of the goal by predicate, and which hold now. Raises ``SplitError`` for a test variant."""
        game, variant = self._require_game(), self._variant
        assert variant is not None
        if TABLE.split_of(variant.task, variant.index) == "test":
            raise SplitError(f"{variant.key} is a test variant: its goal progress is shown to nobody")
        bits = zip(game.world.problem.goal, game.world.goal_bits, strict=True)
        return tuple(
            Goal(literal.fact[0], bit == 0 or (bit > 0 and bool(game.state & bit)), True) for literal, bit in bits
        )

    def close(self) -> None:
        self._game = None

    def _count_points(self) -> int:
        return int(SOLVED_SCORE * self._require_game().progress + 1e-9)

    def _require_game(self) -> Game:
        if self._game is None:
            raise SimulatorDied("no variant is being played: reset the environment first.")
        return self._game
