"""A game of TextWorldExpress as an `Environment`. The simulator's own texts, possible actions and scores are passed on;
a point that was earned once stays, since what is put back and taken again would earn it anew. A game that is lost ends,
with -100 points where the simulator's score is negative."""

import re
from collections.abc import Callable, Mapping, Sequence

from rsso_dspy.environments import STALLED, Goal, Transition, lessons, require_played
from rsso_dspy.environments.lessons import LessonTable, TaughtEnvironment, Words, name_all, read_texts
from rsso_dspy.environments.textworld_express.jvm import ROOM, Answer, Jvm
from rsso_dspy.environments.textworld_express.tasks import PARAMETERS, TABLE
from rsso_dspy.errors import SimulatorDied
from rsso_dspy.records import SOLVED_SCORE, State, Variant

_TEMPLATES: Mapping[str, str] = read_texts(__package__)["templates"]
COMMON = _TEMPLATES["all"]
ACTION_TEMPLATES = {game: f"{COMMON}\n{_TEMPLATES[game]}" for game in PARAMETERS}  # by game

NOT_KNOWN = "Unknown action: I'm not sure what you mean."  # nothing has happened
LONGEST = 300  # characters of an action that are sent; possible ones have fewer than 100
_NOTHING = re.compile(
    r"That is already|You can't move there|Your inventory currently has|You are unable|Can only prepare"
)
EMPTY = "Your inventory is currently empty."
_CLOSED_DOOR = re.compile(r"To the (\w+) you see a closed ")


def name_place(state: State) -> str:
    """The room that a state is in; empty in a game without rooms."""
    room = ROOM.match(state.look)
    return room[1].lower() if room else ""


class Episode(lessons.Episode):
    """What an episode shows, as conditions of lessons."""

    @property
    def rooms(self) -> Words | None:
        return name_all(filter(None, map(name_place, self.states)))

    @property
    def carried(self) -> Words | None:
        lines = self.states[-1].inventory.splitlines()[1:]
        return name_all(line.strip() for line in lines if line.strip() != EMPTY)

    @property
    def closed_doors(self) -> Words | None:
        return name_all(_CLOSED_DOOR.findall(self.states[-1].look))

    @property
    def looks_again(self) -> bool:
        """Whether two actions in a row only asked what there is."""
        return len(self.steps) > 1 and all(step.action in ("look around", "inventory") for step in self.steps[-2:])


LESSONS = LessonTable(__package__, Episode)


def clean_action(action: str) -> str:
    """Return an action as one short line that can be sent."""
    line = " ".join(action[: 10 * LONGEST].encode("utf-8", "replace").decode().split())
    return "".join(character for character in line if character.isprintable())[:LONGEST].rstrip(" .")


def count_points(answer: Answer, earned: int = 0) -> int:
    """Return the score in points of 100 after an answer, where `earned` had been reached before it."""
    if answer.won:
        return SOLVED_SCORE
    points = round(SOLVED_SCORE * answer.score)
    if answer.lost and points < 0:
        return -SOLVED_SCORE
    return max(earned, min(points, SOLVED_SCORE - 1))


class TextWorldExpress(TaughtEnvironment):
    """One simulator, which starts at the first reset. An action that takes longer than ``step_limit`` seconds ends the
    trial as ``stalled``, and the next reset starts a new process."""

    teaches = LESSONS
    table = TABLE
    action_templates = COMMON
    name_place = staticmethod(name_place)

    def __init__(self, step_limit: float = 20.0, heap: str = "512m", stopped: Callable[[], bool] = lambda: False):
        self._step_limit = step_limit
        self._start = lambda: Jvm(heap, stopped)
        self._jvm: Jvm | None = None
        self._closed = False
        self._answer: Answer | None = None
        self._score = 0

    @property
    def alive(self) -> bool:  # type: ignore[override]
        return not self._closed and (self._jvm is None or self._jvm.alive)

    @property
    def verbs(self) -> frozenset[str]:
        """First words of the possible actions: gestures have one each."""
        return frozenset(action.split()[0] for action in self._answer.possible) if self._answer else frozenset()

    def reset(self, variant: Variant) -> State:
        """Start the game and return its first state. Raises ``SimulatorDied``, or ``JavaMissing`` if a process is
        needed and cannot be started."""
        self._variant = self._answer = None
        if self._jvm is None and not self._closed:
            self._jvm = self._start()
        if self._closed:  # maybe while the process started
            self.close()
            raise SimulatorDied("this environment was closed. Take a new one.")

        answer = require_played(self._jvm).start_game(variant)
        self.task = require_played(self._jvm).describe_task()
        self.action_templates = ACTION_TEMPLATES[variant.task]
        self.points_at_reset = self._score = count_points(answer)
        self._variant, self._answer = variant, answer
        return answer.state

    def step(self, action: str) -> Transition:
        """Take one action of the actor. Raises ``SimulatorDied``."""
        old_answer = require_played(self._answer)
        old_score = self._score
        text = clean_action(action)
        spelled = {possible.lower(): possible for possible in old_answer.possible}.get(text.lower())
        try:
            answer = require_played(self._jvm).take_action(spelled or text, self._step_limit)
        except TimeoutError:
            self._jvm = self._answer = None
            state = State(STALLED, old_answer.look, old_answer.inventory)
            return Transition(state, text, 0, old_score, understood=True, done=False, stalled=True)

        self._score = count_points(answer, old_score)
        self._answer = answer
        old_situation = old_answer.look, old_answer.inventory, old_answer.score
        is_unchanged = (answer.look, answer.inventory, answer.score) == old_situation
        return Transition(
            state=answer.state,
            action=spelled or text,
            reward=self._score - old_score,
            score=self._score,
            understood=spelled is not None,
            done=answer.won or answer.lost,
            no_effect=is_unchanged and _NOTHING.match(answer.observation) is not None,
        )

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, in the order of the simulator, which shuffles it."""
        return require_played(self._answer).possible

    def render(self, states: Sequence[State]) -> list[str]:
        """Show the first state of a window in full, later ones by what was answered."""
        answers = [state.look if state.look.startswith(state.observation) else state.observation for state in states]
        return [state.description for state in states[:1]] + answers[1:]

    def _list_goals(self) -> Sequence[Goal]:
        variant = require_played(self._variant)
        return [Goal(variant.task, self._score == SOLVED_SCORE, required=True)]

    def close(self) -> None:
        self._closed = True
        if self._jvm is not None:
            self._jvm.close()
