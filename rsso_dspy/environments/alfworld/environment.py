"""An ALFWorld game as an `Environment`. The interface `sso` says `put` and leaves out where one has arrived, as
published harnesses do; `complete` says what recent games say. Either understands both. The score is the share of steps
towards the goal, 100 when the game is won."""

from collections.abc import Callable, Sequence

from rsso_dspy.environments import STALLED, Goal, Transition, require_played
from rsso_dspy.environments.alfworld import wording
from rsso_dspy.environments.alfworld.engine import Answer, Engine
from rsso_dspy.environments.alfworld.tasks import TABLE, find_game, load_made_game, read_game
from rsso_dspy.environments.alfworld.wording import LESSONS
from rsso_dspy.environments.lessons import Progress, TaughtEnvironment
from rsso_dspy.records import SOLVED_SCORE, State, Variant

MOST_STEPS = 50  # TextWorld's own limit in ALFWorld's configuration


class AlfWorld(TaughtEnvironment):
    """Plays one game after the other. ``folder``: the user's games; without, tiny ones that come along."""

    teaches = LESSONS
    name_place = staticmethod(wording.name_place)
    verbs = ("put", "move")

    def __init__(
        self,
        folder: str | None = None,
        step_seconds: float = 20.0,
        stopped: Callable[[], bool] = lambda: False,
    ):
        self.engine = Engine(step_seconds, stopped)
        self._folder = folder
        self._moves = True  # whether the game says `move`
        self.task = ""
        self._answer: Answer | None = None
        self._progress = Progress()
        self._score = self._steps = 0

    @property
    def action_templates(self) -> str:
        return wording.PUBLISHED if self._interface == "sso" else wording.RECENT

    alive = property(lambda self: self.engine.alive)

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises what `find_game`, `read_game` and `Engine.load` raise."""
        self._variant = self._answer = None
        path = find_game(variant, self._folder) if self._folder is not None else None
        game = read_game(path) if path else load_made_game(variant.task, variant.index)
        self._moves = "move {o} to {r}" in game["grammar"]
        answer = self.engine.load(path, None if path else game)
        first, self.task = wording.split_first(answer.feedback)
        self._progress = Progress(wording.list_steps(wording.parse_goal(self.task)))
        self._progress.read(first)
        self._score = self._steps = 0
        self._variant, self._answer = variant, answer
        return State(self._tell(first), "", "")

    def step(self, action: str) -> Transition:
        """One action as the actor wrote it: in either wording, letter case and final full stop are overlooked."""
        require_played(self._answer)
        before, self._steps = self._score, self._steps + 1
        sent = " ".join(action.split()).rstrip(".").lower()
        if sent == wording.CHECK:
            told = f"Choose an action from these valid actions: {', '.join(self.admissible_actions())}"
            return self._describe(sent, told, before)
        try:
            self._answer = answer = self.engine.step(wording.to_engine(sent, self._moves))
        except TimeoutError:
            return Transition(State(STALLED, "", ""), sent, 0, before, understood=True, done=False, stalled=True)
        feedback = answer.feedback.strip()
        self._progress.read(feedback)
        if self._score != SOLVED_SCORE:
            met = self._progress.is_met  # with winning as one more
            self._score = SOLVED_SCORE if answer.won else int(SOLVED_SCORE * (sum(met) / (len(met) + 1)))
        return self._describe(sent, feedback, before)

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as the game lists it, in the wording of the interface."""
        return [wording.word_action(each, self._interface) for each in require_played(self._answer).commands]

    def goal_progress(self) -> tuple[Goal, ...]:
        """The steps towards the goal by kind, and the goal. Raises ``SplitError`` for a test variant."""
        require_played(self._answer)
        TABLE.refuse_test(self._variant)
        met = zip(self._progress.kinds, self._progress.is_met, strict=True)
        return (*(Goal(kind, done, False) for kind, done in met), Goal("task", self._score == SOLVED_SCORE, True))

    def close(self) -> None:
        self.engine.close()

    def _describe(self, sent: str, feedback: str, before: int) -> Transition:
        return Transition(
            state=State(self._tell(feedback), "", ""),
            action=sent,
            reward=self._score - before,
            score=self._score,
            understood=feedback != wording.NOTHING,
            done=self._score == SOLVED_SCORE or self._steps >= MOST_STEPS,
        )

    def _tell(self, text: str) -> str:
        return wording.to_published(text) if self._interface == "sso" else wording.to_recent(text)
