"""A BabyAI world as an `Environment`. minigrid says whether the mission is achieved: that is 100 points and nothing
less is, and a mission that failed ends the episode. Patterns made from the mission count what came before."""

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any

from rsso_dspy.environments import Goal, Transition, lessons, require_played
from rsso_dspy.environments.babyai import view
from rsso_dspy.environments.babyai.tasks import TABLE, THROUGH_LOCKED_DOORS, get_seed, make_world
from rsso_dspy.environments.babyai.view import NO_CHANGE, View
from rsso_dspy.environments.lessons import LessonTable, Progress, TaughtEnvironment, Words, name_all
from rsso_dspy.records import SOLVED_SCORE, State, Variant


def track_patterns(patterns: Sequence[str]) -> Progress:
    return Progress(("", partial(is_met, pattern)) for pattern in patterns)


def is_met(pattern: str, observation: str) -> bool:
    """Whether a sentence has all pieces of a pattern, which stand between ``**``."""
    pieces = [piece.strip(".") for piece in pattern.strip().split("**")]
    return any(_holds_all(sentence, pieces) for sentence in observation.split("."))


def _holds_all(sentence: str, pieces: Sequence[str]) -> bool:
    return all(piece in sentence for piece in pieces)


_CLAUSE = re.compile(r"(go to|pick up|open) (?:the|an|a) ((?:red|green|blue|purple|yellow|grey) )?(\w+)")


def make_patterns(mission: str, locked: Sequence[str] = (), on_the_way: bool = False) -> list[str]:
    """Patterns for a mission: see each thing that it names, then face, carry or open it. ``locked``: colours of the
    locked doors; ``on_the_way``: whether the mission leads through them."""
    patterns: list[str] = []
    if on_the_way:
        for color in locked:
            patterns.append(f"You are carrying a {color} key.")
            patterns.append(f"There is a {color} open door **")

    first, _, second = mission.partition(" after you ")
    for sentence in (second, first):
        for verb, color, kind in _CLAUSE.findall(sentence):
            patterns += _make_clause(verb, color.strip(), kind, locked)
    return patterns


def _make_clause(verb: str, color: str, kind: str, locked: Sequence[str]) -> list[str]:
    any_color = color or "**"
    any_kind = "**" if kind == "object" else kind
    thing = f"{any_color} {any_kind}"
    sight = f"There is a {thing} **"
    if kind == "door" or verb == "open":
        sight = f"There is a {any_color} ** door **"

    if verb == "go to":
        return [sight, f"{sight} right in front of you 1 steps away."]
    if verb == "pick up":
        return [sight, f"You are carrying a {thing}."]

    patterns = []
    for lock in locked:
        if not color or lock == color:
            patterns.append(f"You are carrying a {lock} key.")
    patterns.append(sight)
    patterns.append(f"There is a {any_color} open door **")
    return patterns


_THING = re.compile(r"There is an? ((?:[a-z]+ )+)\d+ ")
_CARRIED = re.compile(r"You are carrying a ((?:\w+ )*\w+)\.")


class Episode(lessons.Episode):
    @cached_property
    def views(self) -> list[str]:
        """Observations that show a view."""
        observations = [state.observation for state in self.states]
        return [text for text in observations if text.startswith(("In front", "You cannot see"))]

    @cached_property
    def seen(self) -> list[str]:
        names: dict[str, None] = {}
        for text in self.views:
            for name in _THING.findall(text):
                names[name.strip()] = None
        return list(names)

    @cached_property
    def wanted(self) -> dict[str, bool]:
        """The things that the mission is about, in its order, and whether each was seen."""
        is_seen = {}
        for _, color, kind in _CLAUSE.findall(self.task):
            name = f"{color}{kind}".removesuffix(" object")
            is_seen[name] = any(is_meant(name, thing) for thing in self.seen)
        return is_seen

    @property
    def carried(self) -> str:
        if not self.views:
            return ""
        match = _CARRIED.search(self.views[-1])
        return match[1] if match else ""

    @property
    def is_circling(self) -> bool:
        """Nothing but turns for more than a full one."""
        if len(self.steps) < 5:
            return False
        return all(step.action.lower().startswith("turn") for step in self.steps[-5:])

    @property
    def sees_nothing_new(self) -> bool:
        return len(self.views) >= 8 and len(set(self.views[-6:])) <= 2

    @property
    def ended(self) -> bool:
        return view.COMPLETED.strip() in self.answer

    def name_unless_ended(self, names: Iterable[str]) -> Words | None:
        if self.ended:
            return None
        return name_all(names)

    @property
    def found(self) -> Words | None:
        return self.name_unless_ended(name for name, is_seen in self.wanted.items() if is_seen)

    @property
    def missing(self) -> Words | None:
        return self.name_unless_ended(name for name, is_seen in self.wanted.items() if not is_seen)

    @property
    def in_hand(self) -> Words | None:
        return self.name_unless_ended([self.carried] if self.carried else [])

    @property
    def locked(self) -> Words | None:
        return self.name_unless_ended(name for name in self.seen if " locked " in name)

    def has_seen_door(self, color: str, state: str = "") -> bool:
        return any(name.startswith(color) and name.endswith(f"{state} door") for name in self.seen)

    @property
    def early_keys(self) -> Words | None:
        """Keys that were found before a door of their colour, and are not what the mission is about."""
        keys = []
        for name in [*self.seen, self.carried]:
            if not name.endswith(" key"):
                continue
            color = name.split()[0]
            is_wanted = any(is_meant(wanted_name, name) for wanted_name in self.wanted)
            if not is_wanted and not self.has_seen_door(color):
                keys.append(name)
        return self.name_unless_ended(keys)

    @property
    def to_drop(self) -> Words | None:
        """What is in hand, of no use, while the hand is needed: for what the mission has picked up, or for the key of a
        locked door. A key is of use until its door is open."""
        if not self.carried:
            return None
        carried_color, _, carried_kind = self.carried.partition(" ")
        if carried_kind == "key" and not self.has_seen_door(carried_color, "open"):
            return None

        clauses = _CLAUSE.findall(self.task)
        to_pick_up = [f"{color}{kind}".removesuffix("object") for verb, color, kind in clauses if verb == "pick up"]
        meant = [is_meant(name, self.carried) for name in to_pick_up]
        lock_colors = {name.split()[0] for name in self.seen if " locked " in name}
        is_locked_out = not all(self.has_seen_door(color, "open") for color in lock_colors)

        hinders_pickup = not all(meant)
        hinders_unlocking = is_locked_out and not any(meant)
        if hinders_pickup or hinders_unlocking:
            return self.name_unless_ended([self.carried])
        return None

    @property
    def closed_doors(self) -> Words | None:
        if not self.missing:
            return None
        return name_all(name for name in self.seen if name.endswith("closed door"))


def is_meant(name: str, thing: str) -> bool:
    """Whether a thing may be what a mission names, with or without its colour."""
    return set(name.split()) <= set(thing.split())


LESSONS = LessonTable(__package__, Episode)


class BabyAi(TaughtEnvironment):
    teaches = LESSONS
    table = TABLE
    action_templates = view.ACTION_TEMPLATES

    def __init__(self) -> None:
        self.world: Any = None
        self.achieved: bool | None = None  # minigrid's verdict, by whichever move ended the mission first

    def reset(self, variant: Variant) -> State:
        self.world = make_world(variant.task)  # a used one may remember the world before
        observation, _ = self.world.reset(seed=get_seed(variant))
        self._look(observation)

        mission = str(self.world.mission)
        # As AgentBoard's wrapper words it: the order of two parts is lost.
        self.task = mission.replace("then", "and").replace("after you", "and")
        doors = [cell for cell in self.world.grid.grid if cell is not None and cell.type == "door"]
        locked = sorted({door.color for door in doors if door.is_locked})
        self._patterns = make_patterns(mission, locked, variant.task in THROUGH_LOCKED_DOORS)
        self._progress = track_patterns(self._patterns)

        self._variant = variant
        self.achieved = None
        self._score = 0
        return State(self._view.describe(), "", "")

    def step(self, action: str) -> Transition:
        require_played(self.world)
        old_score = self._score
        text = " ".join(action.split())
        observation, valid = self._take(text.rstrip(".").lower().strip())
        no_effect = observation == NO_CHANGE and bool(text)
        return Transition(
            state=State(observation, "", ""),
            action=text,
            reward=self._score - old_score,
            score=self._score,
            understood=valid or no_effect,
            done=self.achieved is not None,
            no_effect=no_effect,
        )

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as AgentBoard offers it, less what would change nothing."""
        require_played(self.world)
        return [*self.list_moves()]

    def list_moves(self) -> dict[str, list[int]]:
        """Return minigrid's moves by the text of a possible action."""
        offer = self._view.offer
        return {text: moves for text, moves in offer.moves.items() if moves and text != view.CHECK}

    def _list_goals(self) -> Sequence[Goal]:
        goals = []
        for pattern, is_reached in zip(self._patterns, self._progress.is_met, strict=True):
            goals.append(Goal(_name_kind(pattern), done=is_reached, required=False))
        goals.append(Goal("mission", done=bool(self.achieved), required=True))
        return goals

    def _take(self, text: str) -> tuple[str, bool]:
        """Take one text; what is answered, and whether it is a valid action."""
        offer = self._view.offer
        if "check" in text:
            return f"You can take the following actions: {', '.join(offer.moves)}", True
        if not text:
            return NO_CHANGE, False
        if text not in offer.moves:
            return offer.messages.get(text, view.NOT_KNOWN), False
        moves = offer.moves[text]
        if not moves:
            return NO_CHANGE, True

        ended = self.carry_out(moves)
        observation = self._view.describe()
        if ended:
            observation += view.COMPLETED
        self._progress.read(observation)
        self._score = self._count_points()
        return observation, True

    def _count_points(self) -> int:
        met_count = sum(self._progress.is_met)
        total = len(self._patterns)
        points = SOLVED_SCORE * (met_count / total) * total / (total + 1)  # the mission is one more
        return SOLVED_SCORE if self.achieved else int(points)

    def carry_out(self, moves: Sequence[int]) -> bool:
        """Make moves until one leaves the image as it was; whether the last one, which is all that AgentBoard looks at,
        ended the mission."""
        ended = False
        for move in moves:
            old_image = self._image
            observation, reward, ended, _, _ = self.world.step(move)
            if ended and self.achieved is None:
                self.achieved = reward > 0
            self._look(observation)
            if self._image == old_image:
                break
        return ended

    def _look(self, seen: Any) -> None:
        image = seen["image"]
        self._image = image.tobytes()

        carrying = ""
        if self.world.carrying is not None:
            carrying = f"{self.world.carrying.color} {self.world.carrying.type}"
        x, y = self.world.agent_pos
        self._view = View(image.tolist(), int(x), int(y), int(self.world.agent_dir), carrying)


def _name_kind(pattern: str) -> str:
    if pattern.startswith("You are carrying"):
        return "key" if pattern.endswith(" key.") else "carry"
    if " open door" in pattern:
        return "open"
    if "right in front" in pattern:
        return "face"
    return "see"
