"""An ALFWorld game as an `Environment`, played in a process of its own: started when first needed, ended when asked to,
replaced after some games. Games made before 2.1.2 say `put O in/on R`, as does everything published, later ones `move O
to R`; both are understood in every game. The interface `sso` says `put` and leaves out where one has arrived, as
published harnesses do; `complete` says what recent games say. The score is the share of steps towards the goal, which
are patterns of the kind that OmniReflect and AgentBoard go by, met once and in any order; 100 when the game is won."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from rsso_dspy.environments import STALLED, Goal, Transition, lessons, require_played
from rsso_dspy.environments.alfworld.tasks import TABLE, load_game
from rsso_dspy.environments.lessons import LessonTable, Progress, TaughtEnvironment, Words, name_all, read_texts
from rsso_dspy.environments.pool import Process
from rsso_dspy.errors import EnvironmentFailure, SimulatorDied, Stopped
from rsso_dspy.records import SOLVED_SCORE, State, Variant

MOST_STEPS = 50  # TextWorld's own limit in ALFWorld's configuration
WORKER = Path(__file__).with_name("worker.py")
LOAD_SECONDS = 120.0  # for a game to be loaded, the start of the process included; usually it takes two
SAID = 20  # words of the engine's own error that a message quotes: some quote lines of the game below
MOST_LOADED = 100  # games that a process loads at most: what it holds grows with each

_TEMPLATES: str = read_texts(__package__)["templates"]["all"]
PUBLISHED = _TEMPLATES.format(put="put", form="put OBJECT in/on PLACE")  # as in everything published
RECENT = _TEMPLATES.format(put="move", form="move OBJECT to PLACE")  # as games since 2.1.2 say it
NOTHING = "Nothing happens."  # the answer to everything that cannot be done
CHECK = "check valid actions"  # AgentBoard's question for what can be done: a step that the game does not see

_PUT = re.compile(r"put (.+?) in/on (.+)")
_MOVE = re.compile(r"move (.+?) to (.+)")
_PLACING = re.compile(r"(?:put|place|move) (?P<thing>.+?) (?:in ?/ ?on|into|onto|in|on|to) (?P<place>.+)")
_ARRIVE = re.compile(r"You arrive at ([^.]*)\. ")
_TOLD_MOVE = re.compile(r"You move the (.+?) to the (.+?)\.")
_TOLD_PUT = re.compile(r"You put the (.+?) in/on the (.+?)\.")
_HELP_MOVE = "move (object) to (receptacle):  place"
_HELP_PUT = "put (object) in/on (receptacle):  place"


def to_engine(action: str, moves: bool) -> str:
    """An action in either wording as the game wants it. ``moves``: whether the game is of the new wording."""
    placing = _PUT.fullmatch(action) or _MOVE.fullmatch(action)
    if placing is None:
        return action
    return f"move {placing[1]} to {placing[2]}" if moves else f"put {placing[1]} in/on {placing[2]}"


def find_counterpart(action: str, commands: Sequence[str]) -> str:
    """Return the one command that puts the same thing into the same place as the action does in words that no game
    knows: `put apple 1 in fridge 1`, `place apple 1 on desk 1`. Any other action is returned as it is."""
    placing = None if _PUT.fullmatch(action) or _MOVE.fullmatch(action) else _PLACING.fullmatch(action)
    if placing is None:
        return action
    wordings = {to_engine(f"put {placing['thing']} in/on {placing['place']}", moves) for moves in (False, True)}
    matching = [command for command in commands if command in wordings]
    return matching[0] if len(matching) == 1 else action


def to_published(text: str) -> str:
    """An answer as published harnesses show it: `put`, and without where one has arrived."""
    return _TOLD_MOVE.sub(r"You put the \1 in/on the \2.", _ARRIVE.sub("", text, count=1)).replace(
        _HELP_MOVE, _HELP_PUT
    )


def to_recent(text: str) -> str:
    return _TOLD_PUT.sub(r"You move the \1 to the \2.", text).replace(_HELP_PUT, _HELP_MOVE)


def name_place(state: State) -> str:
    """Where a state's text says that one has arrived; empty if it does not, as in published harnesses."""
    return "".join(_ARRIVE.findall(state.observation)[:1]).lower()


def split_first(feedback: str) -> tuple[str, str]:
    """The first observation and the task of what a game says at its start."""
    blocks = [block.strip() for block in feedback.split("\n\n") if block.strip()]
    task = next((block for block in blocks if block.startswith("Your task is to:")), "")
    scene = [block for block in blocks if block != task and not block.startswith("-= Welcome")]
    return "\n".join(line for block in scene for line in block.splitlines() if line.strip()), task


_TASKS = (
    r"(?P<verb>look) at(?: the| an?)? (?P<thing>\w+) under the (?P<place>\w+)",
    r"(?P<verb>examine)(?: the| an?)? (?P<thing>\w+) with the (?P<place>\w+)",
    r"(?:put|find) (?P<count>two) (?P<thing>\w+) (?:and put them )?(?:in|on) (?P<place>\w+)",
    r"(?P<verb>clean|heat|cool) some (?P<thing>\w+) and put it (?:in|on) (?P<place>\w+)",
    r"put (?:an?|some) (?:(?P<verb>clean|hot|cool) )?(?P<thing>\w+) (?:in|on) (?P<place>\w+)",
)
_VERBS = {"examine": "look", "hot": "heat"}


@dataclass(frozen=True, slots=True)
class TaskGoal:
    thing: str
    place: str  # where to, or the lamp
    verb: str = "put"  # `put`, `clean`, `heat`, `cool` or `look`
    count: int = 1


def parse_goal(task: str) -> TaskGoal | None:
    """The goal that the text of a task names; None for another wording, as of people."""
    for pattern in _TASKS:
        if match := re.search(pattern, task):
            groups = match.groupdict()
            verb = groups.get("verb") or "put"
            return TaskGoal(match["thing"], match["place"], _VERBS.get(verb, verb), 2 if "count" in groups else 1)
    return None


def list_steps(goal: TaskGoal | None) -> list[tuple[str, Callable[[str], object]]]:
    if goal is None:
        return []
    thing, place = re.escape(goal.thing), re.escape(goal.place)
    patterns = {
        "see": rf"you see .*\ba {thing} \d",
        "take": rf"You pick up the {thing} \d",
        "light": rf"You turn on the {place} \d",
        "put": rf"You (?:put|move) the {thing} \d+ (?:in/on|to) the {place} \d",
    }
    treated = [goal.verb] if goal.verb != "put" else []
    kinds = ["see", "take", "light"] if goal.verb == "look" else ["see", *(["take", *treated, "put"] * goal.count)]
    return [(kind, re.compile(patterns.get(kind, rf"You {kind} the {thing} \d")).search) for kind in kinds]


_SEEN = re.compile(r"\ba (\w+ \d+)")
_AT = re.compile(r"(?:On|In|The|the) (?:the )?(\w+ \d+)(?:, you see| is )")
_PICKED = re.compile(r"You pick up the (\w+ \d+)")
_LEFT = re.compile(r"You (?:put|move) the (\w+ \d+)")
_STATIONS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}


class Episode(lessons.Episode):
    @cached_property
    def goal(self) -> TaskGoal | None:
        return parse_goal(self.task)

    @cached_property
    def hands(self) -> list[str]:
        """What was in hand at each state."""
        return list(accumulate((state.observation for state in self.states), _hold, initial=""))[1:]

    holds = property(lambda self: self.hands[-1])
    held = property(lambda self: self.hands[-2])  # before the newest step
    has_empty_hand = property(lambda self: not self.held)

    @cached_property
    def seen(self) -> dict[str, str]:
        """Things to where each was seen last."""
        places: dict[str, str] = {}
        for state in self.states[1:]:
            at = _AT.search(state.observation)
            if at and "you see" in state.observation:
                places |= dict.fromkeys(_SEEN.findall(state.observation), at[1])
        return places

    def name_seen(self, kind: str) -> Words | None:
        """Things of a kind and where each was seen last, but what is in hand."""
        sightings = self.seen.items()
        return name_all(
            f"{thing} at {at}" for thing, at in sightings if thing.startswith(f"{kind} ") and thing != self.holds
        )

    @property
    def station(self) -> Words | None:
        verb = self.action.partition(" ")[0]
        return {"verb": verb, "station": _STATIONS[verb]} if verb in _STATIONS else None

    is_repeated = property(lambda self: len(self.steps) > 1 and self.steps[-2].action.lower().strip() == self.action)
    in_hand = property(lambda self: name_all(filter(None, [self.holds])) if self.goal else None)

    things_seen = property(lambda self: self.name_seen(self.goal.thing) if self.goal else None)

    @property
    def thing_unseen(self) -> Words | None:
        return {"names": self.goal.thing} if self.goal and not self.things_seen and not self.holds else None

    @property
    def lamps_seen(self) -> Words | None:
        return self.name_seen(self.goal.place) if self.goal and self.goal.verb == "look" else None

    @property
    def places_left(self) -> Words | None:
        visited = {step.action.removeprefix("go to ") for step in self.steps if step.action.startswith("go to ")}
        unvisited = (name for name in _SEEN.findall(self.states[0].observation) if name not in visited)
        return name_all(unvisited) if self.thing_unseen else None


def _hold(held: str, observation: str) -> str:
    if picked := _PICKED.search(observation):
        return picked[1]
    return "" if _LEFT.search(observation) else held


LESSONS = LessonTable(__package__, Episode)


class AlfWorld(TaughtEnvironment):
    """Plays one game after the other. ``folder``: the user's games; without, tiny ones that come along.
    ``step_seconds``: time limit of a step. ``stopped``: polled while a game is loaded."""

    teaches = LESSONS
    table = TABLE
    name_place = staticmethod(name_place)
    verbs = ("put", "move", "place")
    action_templates = PUBLISHED

    def __init__(
        self, folder: str | None = None, step_seconds: float = 20.0, stopped: Callable[[], bool] = lambda: False
    ):
        self._folder = folder
        self._step_seconds = step_seconds
        self._stopped = stopped
        self._process: Process | None = None
        self._loaded = 0  # games that the process has loaded
        self._closed = False
        self.task = ""
        self._answer: Mapping[str, Any] | None = None  # the worker's last one

    @property
    def alive(self) -> bool:  # type: ignore[override]
        return not self._closed and (self._process is None or self._process.alive)

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises what `load_game` raises, ``EnvironmentFailure`` with the name of a game that
        the engine cannot load, ``SimulatorDied`` where that is not the game's fault, and ``Stopped``."""
        self._variant = self._answer = None
        if self._closed:
            raise SimulatorDied("this environment was closed. Take a new one.")
        game, name = load_game(variant, self._folder)
        if self._process is None or not self._process.alive or self._loaded >= MOST_LOADED:
            self._end_process()
            # alfworld makes the folder that the variable names, or one at home
            env = {**os.environ, "ALFWORLD_DATA": tempfile.gettempdir()}
            self._process = Process([sys.executable, "-P", str(WORKER)], env=env)
            self._loaded = 0
        self._loaded += 1
        try:
            answer = self._ask({"game": game}, f"load {name}", LOAD_SECONDS, self._stopped)
        except TimeoutError:
            raise SimulatorDied(f"loading {name} took over {LOAD_SECONDS:g} s") from None
        first, self.task = split_first(answer["feedback"])
        self.action_templates = PUBLISHED if self._interface == "sso" else RECENT
        self._moves = "move {o} to {r}" in game["grammar"]  # whether the game says `move`
        self._progress = Progress(list_steps(parse_goal(self.task)))
        self._progress.read(first)
        self._score = self._steps = 0
        self._variant, self._answer = variant, answer
        return State(self._tell(first), "", "")

    def step(self, action: str) -> Transition:
        """One action as the actor wrote it: in either wording, letter case and final full stop are overlooked. Another
        wording of `put` is the possible action that it means."""
        require_played(self._answer)
        old_score = self._score
        self._steps += 1

        command = find_counterpart(" ".join(action.split()).rstrip(".").lower(), self.admissible_actions())
        if command == CHECK:
            reply = f"Choose an action from these valid actions: {', '.join(self.admissible_actions())}"
            return self._describe(command, reply, old_score)
        try:
            request = {"action": to_engine(command, self._moves)}
            self._answer = answer = self._ask(request, f"carry out {command!r}", self._step_seconds)
        except TimeoutError:
            return Transition(State(STALLED, "", ""), command, 0, old_score, understood=True, done=False, stalled=True)
        feedback = answer["feedback"].strip()
        self._progress.read(feedback)
        if self._score != SOLVED_SCORE:
            goals_met = self._progress.is_met
            share = sum(goals_met) / (len(goals_met) + 1)  # with winning as one more
            self._score = SOLVED_SCORE if answer["won"] else int(SOLVED_SCORE * share)
        return self._describe(command, feedback, old_score)

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as the game lists it, in the wording of the interface."""
        commands = require_played(self._answer)["commands"]
        return [to_engine(command, self._interface != "sso") for command in commands]

    def close(self) -> None:
        self._closed = True
        self._end_process()

    def _list_goals(self) -> Sequence[Goal]:
        goals = zip(self._progress.kinds, self._progress.is_met, strict=True)
        return [*(Goal(kind, is_met, False) for kind, is_met in goals), Goal("task", self._score == SOLVED_SCORE, True)]

    def _describe(self, sent: str, feedback: str, before: int) -> Transition:
        return Transition(
            state=State(self._tell(feedback), "", ""),
            action=sent,
            reward=self._score - before,
            score=self._score,
            understood=feedback != NOTHING,
            done=self._score == SOLVED_SCORE or self._steps >= MOST_STEPS,
        )

    def _tell(self, text: str) -> str:
        return to_published(text) if self._interface == "sso" else to_recent(text)

    def _ask(
        self, request: Mapping[str, Any], what: str, seconds: float, stopped: Callable[[], bool] = lambda: False
    ) -> Mapping[str, Any]:
        """The worker's answer. Raises ``TimeoutError``, ``Stopped``, ``SimulatorDied``, and ``EnvironmentFailure`` for
        a game that cannot be loaded; each ends the process."""
        process = require_played(self._process)
        line = b""
        try:
            process.write(json.dumps(request).encode())
            line = process.read_line(seconds, stopped)
        except (TimeoutError, Stopped):
            self._end_process()
            raise
        except OSError:  # it has ended, and said nothing
            pass
        if not line.endswith(b"\n"):
            status = process.wait()
            errors = process.read_errors()
            self.close()
            last_error = "".join(f": {error}" for error in errors[-1:])
            raise SimulatorDied(f"the engine's process ended (exit code {status}){last_error}")
        answer: Mapping[str, Any] = json.loads(line)
        if why := answer.get("error"):
            self._end_process()  # what it left behind is not known
            kind = EnvironmentFailure if answer["of_game"] and "game" in request else SimulatorDied
            raise kind(f"the engine cannot {what}: {' '.join(why.split()[:SAID])}")
        return answer

    def _end_process(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end()
