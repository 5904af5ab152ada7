"""ScienceWorld as an `Environment`. The package's own wrapper lists all valid actions at every step, which makes it
four times as slow; this driver talks to the simulator itself. A history window shows its first state in full, later
ones only with what is new, under `sso` as features (lines of surroundings and inventory; the SSO reference also splits
lines at commas, which never shows, but hides an object that is taken out of its container), under `complete` as the
simulator lists them, with the inventory last."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache

from rsso_dspy.environments import STALLED, Goal, Transition, require_played
from rsso_dspy.environments.lessons import TaughtEnvironment
from rsso_dspy.environments.scienceworld import actions, tasks
from rsso_dspy.environments.scienceworld.actions import Question
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.environments.scienceworld.lessons import LESSONS
from rsso_dspy.errors import SimulatorDied, UsageError
from rsso_dspy.records import SOLVED_SCORE, State, Variant

LISTING = re.compile(r"(In it, you|Here you) see:")  # headers before the objects of a room or of the outside
CARRIED = " in your inventory"
_EDGES = " \n\t.,"
_ROW = re.compile(r"\d+\t(true|false)\t *(\w+)\t")
_REQUIRED = {"Sequential Subgoals:": True, "Unordered and Optional Subgoals:": False}
_ERROR_STATE = re.compile(r"(java|scala)\.[\w.$]+")


class ScienceWorld(TaughtEnvironment, AbstractContextManager["ScienceWorld"]):
    """One simulator, played by one thread at a time. An action that takes longer than ``step_limit`` seconds ends the
    trial as ``stalled`` with the score so far, and the next reset starts a new process. (Some worlds get slower with
    every tick, e.g. with a running sink.)"""

    teaches = LESSONS
    table = tasks.TABLE
    name_place = staticmethod(actions.name_place)

    def __init__(self, step_limit: float = 20.0, heap: str = "512m", stopped: Callable[[], bool] = lambda: False):
        self._step_limit = step_limit
        self._start = lambda: Jvm(heap, stopped)
        self._jvm: Jvm | None = self._start()
        self._closed = False
        self.task = ""  # task description of the current variant
        self.action_templates = actions.ACTION_TEMPLATES  # of the interface and the variant

        # What the last action left behind.
        self._score = 0
        self._ticks = 0
        self._completed = False
        self._look = ""
        self._inventory = ""
        self._focus = ""
        self._question: Question | None = None

    @property
    def verbs(self) -> frozenset[str]:
        """First words of actions; the numbers of the options too while a question is open."""
        options = self._question.options if self._question else ()
        return frozenset({*actions.VERBS, *options})

    @property
    def alive(self) -> bool:  # type: ignore[override]
        return not self._closed and (self._jvm is None or self._jvm.alive)

    def reset(self, variant: Variant) -> State:
        """Start the variant and return its first state. Raises ``SimulatorDied``, or ``JavaMissing`` if a new process
        is needed and cannot be started."""
        self._variant = None
        if self._closed:
            raise SimulatorDied("this environment was closed. Take a new one.")
        if self._jvm is None:
            self._jvm = self._start()

        # No gold path: once requested, the simulator would compute it at every later load. No `reset` of the
        # simulator's own either: it is a second load.
        error = self._jvm.call("load", variant.task, variant.index, variant.simplification, False)
        if error:
            raise UsageError(f"ScienceWorld cannot load {variant.key} ({variant.simplification}): {error}")

        self._focus = ""
        # A load keeps score and flags of the previous episode; the first action sets them.
        try:
            answer = self._send_action("look around")
        except TimeoutError:
            raise SimulatorDied(f"looking around in {variant.key} took over {self._step_limit:g} s") from None

        self.task = self._jvm.call("getTaskDescription")
        self.points_at_reset = self._score

        if self._interface == "complete":
            self.action_templates = actions.describe_actions(self._jvm.call("getPossibleActions"))
        else:
            self.action_templates = actions.ACTION_TEMPLATES

        self._variant = variant
        return self._build_state(answer)

    def step(self, action: str) -> Transition:
        """Carry out one action of the actor. A meaningless action is a step too. Raises ``SimulatorDied``."""
        old_score = self._score
        old_situation = (self._look, self._inventory, self._score)

        take = self._take if self._interface == "sso" else self._take_complete
        text = actions.clean_action(action)
        try:
            text, answer = take(text)
        except TimeoutError:
            self._jvm = None
            return self._build_stalled_transition(text)

        if answer.startswith("You focus on"):
            self._focus = answer
        is_unchanged = (self._look, self._inventory, self._score) == old_situation
        return Transition(
            state=self._build_state(answer),
            action=text,
            reward=self._score - old_score,
            score=self._score,
            understood=not answer.startswith((actions.NOT_KNOWN, actions.NO_EFFECT)),
            done=self._completed or self._score < 0 or self._score >= SOLVED_SCORE,
            ticks=self._ticks,
            asked_back=self._question is not None,
            no_effect=is_unchanged and _says_nothing_happened(answer),
        )

    def _build_stalled_transition(self, action: str) -> Transition:
        return Transition(
            state=State(STALLED, self._look.strip(), self._inventory.strip()),
            action=action,
            reward=0,
            score=self._score,
            understood=True,
            done=False,
            stalled=True,
            ticks=self._ticks,
        )

    def render(self, states: Sequence[State]) -> list[str]:
        if self._interface == "complete":
            return render_listings(states, self._focus)
        return render_states(states, self._focus)

    def _list_goals(self) -> Sequence[Goal]:
        """Nothing is known after a stalled step."""
        if self._jvm is None:
            return ()
        return parse_goal_progress(self._jvm.call("getGoalProgressStr"))

    def close(self) -> None:
        self._closed = True
        if self._jvm is not None:
            self._jvm.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, action: str) -> tuple[str, str]:
        """Carry out an action as the published SSO code does, which answers a question by the first integer or cancels
        it; what was sent, and the answer."""
        if self._question:
            digits = re.search(r"\d+", action, re.ASCII)
            choice = digits.group() if digits else actions.CANCEL
            return choice, self._send_action(choice)

        if actions.is_task_reset(action):
            return action, actions.NOT_KNOWN

        answer = self._send_action(action)
        if answer == actions.NOT_KNOWN:
            equal = actions.find_equal_action(action, self._list_valid_actions())
            if equal:
                return equal, self._send_action(equal)
        return action, answer

    def _take_complete(self, action: str) -> tuple[str, str]:
        """Carry out an action, without what surrounds it; what was sent, and the answer. A question is answered by one
        of its options; any other action cancels it, which takes a moment, and is carried out. Where nothing tells the
        options apart, the first is chosen unasked."""
        text = actions.strip_action(action)
        if self._question:
            text, answer = self._answer_question(self._question, text)
        else:
            text, answer = self._take(text)

        while self._question and self._question.is_idle:
            answer = self._send_action("0")
        if self._question:
            answer = self._question.render()
        return text, answer

    def _answer_question(self, question: Question, text: str) -> tuple[str, str]:
        number = question.choose(text)
        if number:
            return number, self._send_action(number)

        answer = self._send_action(actions.CANCEL)
        if text in ("", actions.CANCEL):
            return actions.CANCEL, answer
        return self._take(text)

    def _send_action(self, sent: str) -> str:
        """Send one text and return the answer; also read score, flags, clock and surroundings."""
        simulator = require_played(self._jvm)
        answer: str = simulator.call("step", sent, limit=self._step_limit)

        self._score = round(100 * simulator.call("getScore"))
        self._completed = simulator.call("getCompleted")
        self._ticks = simulator.call("getNumMoves")
        self._look = simulator.call("freeActionLook")
        self._inventory = simulator.call("freeActionInventory")
        self._question = None
        if answer.startswith(actions.AMBIGUOUS):
            self._question = Question(answer, self._look, self._inventory)

        if self._score < 0 and _ERROR_STATE.match(answer):
            # The simulator caught an internal exception and answers nothing else from now on.
            simulator.close()
            raise SimulatorDied(f"the simulator failed inside the action {sent!r}: {answer}")
        return answer

    def _list_valid_actions(self) -> list[str]:
        valid: list[str] = require_played(self._jvm).call("getValidActionObjectCombinations", limit=self._step_limit)
        return valid

    def _build_state(self, answer: str) -> State:
        """Remove the room's listing from the answer, because the surroundings contain it."""
        observation = LISTING.split(answer)[0]
        return State(observation.strip(), self._look.strip(), self._inventory.strip())


def _says_nothing_happened(answer: str) -> bool:
    return "\n" not in answer.strip() and actions.NOTHING.match(answer) is not None


@lru_cache(maxsize=8192)
def list_features(state: State) -> tuple[str, ...]:
    """Return the lines of surroundings and inventory in lower case, without headers; the latter end in ``CARRIED``."""
    features = []
    for line in state.look.splitlines():
        feature = _normalize_feature(LISTING.sub("", line))
        if feature and feature != "you also see:":
            features.append(feature)

    for line in state.inventory.splitlines()[1:]:
        if feature := _normalize_feature(line):
            features.append(feature + CARRIED)
    return tuple(dict.fromkeys(features))


def _is_forgotten(focus: str, states: Sequence[State]) -> bool:
    """Whether the simulator's answer to the last focus action has left the window. Its first state then repeats it,
    because the chosen object matters until the task ends."""
    return bool(focus) and all(focus != state.observation for state in states)


def render_states(states: Sequence[State], focus: str = "") -> list[str]:
    """Render each state of a window under `sso`. ``focus`` is the simulator's answer to the last focus action."""
    texts = []
    old_features: tuple[str, ...] = ()
    extra = (_normalize_feature(focus),) if _is_forgotten(focus, states) else ()
    for state in states:
        features = list_features(state)
        texts.append(_render_state(state.observation, extra + features, old_features))
        old_features = features
        extra = ()
    return texts


@lru_cache(maxsize=8192)
def _render_state(observation: str, now: tuple[str, ...], shown: tuple[str, ...]) -> str:
    """Render the observation, then new features that are not part of a longer one, longest first."""
    known_features = {*shown, _normalize_feature(observation)}
    new_features = [feature for feature in now if feature not in known_features]

    news: list[str] = []
    for feature in sorted(new_features, key=len, reverse=True):
        if not any(feature.removesuffix(CARRIED) in line for line in news):
            news.append(feature)
    return _add_news(observation, news)


def _add_news(observation: str, news: Sequence[str]) -> str:
    if not news:
        return observation
    return "\n\t".join([f"{observation}\nYou also observe:", *news])


def _normalize_feature(line: str) -> str:
    return line.strip(_EDGES).lower()


def render_listings(states: Sequence[State], focus: str = "") -> list[str]:
    """Render each state of a window under `complete`; ``focus`` as in `render_states`. States after entering a room or
    looking around show the whole listing too."""
    texts = []
    for prior, state in zip([None, *states], states, strict=False):
        is_look = state.look.startswith(state.observation)
        if prior is None or is_look or _read_header(state) != _read_header(prior):
            look = "\n".join(line.rstrip() for line in state.look.splitlines())
            text = look if is_look else f"{state.observation}\n{look}"
        else:
            text = _add_news(state.observation, _list_new_things(prior, state))
        if prior is None and _is_forgotten(focus, states):
            text = f"Earlier: {focus}\n{text}"

        things = _list_carried_things(state)
        carried = ": " + "; ".join(things) if things else " nothing"
        texts.append(f"{text}\nYou carry{carried}.")
    return texts


def _read_header(state: State) -> str:
    """The first line of a listing, which names the room."""
    return state.look.partition("\n")[0].strip()


def _list_new_things(prior: State, state: State) -> list[str]:
    """The things that were not listed before; of equal ones, as many as there are more."""
    counts = Counter(_list_things(prior))
    news = []
    for thing in _list_things(state):
        counts[thing] -= 1
        if counts[thing] < 0:
            news.append(thing)
    return news


def _list_things(state: State) -> list[str]:
    things = [line.strip() for line in state.look.splitlines() if line.startswith(("\t", " "))]
    return [thing for thing in things if thing]


def _list_carried_things(state: State) -> list[str]:
    lines = [line.strip() for line in state.inventory.splitlines()[1:]]
    return [line.rstrip(".") for line in lines if line]


def parse_goal_progress(text: str) -> tuple[Goal, ...]:
    """Parse the simulator's ``getGoalProgressStr`` into goals, in its order: required ones first.

        "Sequential Subgoals:\\n0\\ttrue\\t   GoalFind\\tfocus on the axe"    # Goal("GoalFind", True, True)

    A row also describes its goal, often by the name of the answer ("focus on result chemical (sodium acetate)"). The
    description never leaves this function, so no goal, feedback or prompt derived from the result can name an answer.
    Other lines are skipped.
    """
    goals = []
    required = None
    for line in text.split("\n"):
        required = _REQUIRED.get(line.strip(), required)
        row = _ROW.match(line)
        if row and required is not None:
            goals.append(Goal(row[2], row[1] == "true", required))
    return tuple(goals)
