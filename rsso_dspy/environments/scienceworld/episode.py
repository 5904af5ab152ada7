"""What an episode of ScienceWorld says of itself: the targets and things of its task, its events, how far it has come.

The conditions of progress lessons return their words or None. All are recomputed after every step, so parsed texts are
cached.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from typing import NamedTuple

from rsso_dspy.environments import benchmark
from rsso_dspy.environments.scienceworld import actions

LessonWords = dict[str, str] | None
EpisodeEvent = tuple[int, tuple[str, ...]]
"""The number of a step, and the words of its event."""

MOST = 8
"""Maximum entries of a lesson; the newest are kept."""
ROOM = re.compile(r"called the (.+?)\.")
DOORS = re.compile(r"A door to the (.+?) \(")
CLOSED = re.compile(r"The ([^.\n]+?) door is closed")
DEVICE = re.compile(r"^\s*(?:an? |the )?([^,\n]+), which is turned (on|off)", re.M)
PIECES = re.compile(r"[,.:()\n\t]+")
ARTICLES = re.compile(r"(?:containing )?(?:an? |the )?(?:substance called )?", re.I)
TAIL = re.compile(r" (?:in the|which|with an?|currently|is:?$).*")
OPTION = re.compile(r"^(\d+):\t(.*)$", re.M)
WHERE = re.compile(r" \([^()]*\)")
EVENTS = re.compile(
    r"You focus on the (?P<focus>.+)\.$"
    r"|You move the (?P<moved>.+?) to the (?P<to>.+)\.$"
    r"|You pour the (?P<poured>.+?) into the (?P<into>.+)\.$"
    r"|the thermometer measures a temperature of (?P<degrees>-?[\d.]+) degrees"
    r"|The (?P<broken>.+) appears broken"
    r"|The (?P<opened>.+) is now open"
    r"|Inside the (?P<inside>.+?) is"
    r"|(?P<product>.+? mix to produce .+?)\.?$"
    r"|The .+ reads:\s*(?P<text>.+)",
    re.S,
)
MEASURED = re.compile(r"use .+? on (.+)")


class RoomView(NamedTuple):
    """The content of the surroundings."""

    room: str
    named: tuple[str, ...]
    """Things named in the task."""
    closed: tuple[str, ...]
    devices: tuple[str, ...]
    running: tuple[str, ...]
    doors: tuple[str, ...]


@lru_cache(maxsize=16384)
def parse_room_view(task: str, look: str) -> RoomView:
    room = ROOM.search(look)
    things, _, ways = look.partition("You also see:")
    switches = DEVICE.findall(things)
    return RoomView(
        room.group(1) if room else "",
        find_task_things(task, things),
        tuple(dict.fromkeys(CLOSED.findall(things))),
        tuple(dict.fromkeys(name for name, _ in switches)),
        tuple(dict.fromkeys(name for name, state in switches if state == "on")),
        tuple(DOORS.findall(ways)),
    )


@lru_cache(maxsize=16384)
def find_task_things(task: str, text: str) -> tuple[str, ...]:
    """Return the things of a listing that the task names."""
    found = (TAIL.sub("", ARTICLES.sub("", piece.strip(), count=1)).strip() for piece in PIECES.split(text))
    return tuple(dict.fromkeys(name for name in found if is_mentioned(task, name.lower())))


@lru_cache(maxsize=16384)
def parse_event(answer: str) -> tuple[str, ...]:
    """Parse the event in an answer into its kind and words; empty for other answers."""
    match = EVENTS.match(answer)
    if not match:
        return ()
    return (match.lastgroup or "", *(word for word in match.groups() if word is not None))


class Episode(benchmark.Episode):
    """An episode so far, with its events."""

    @cached_property
    def views(self) -> list[RoomView]:
        """Return the entries that differ from their predecessor."""
        looks: list[str] = []
        for state in self.states:
            if not looks or state.look != looks[-1]:
                looks.append(state.look)
        return [parse_room_view(self.task, look) for look in looks]

    @cached_property
    def latest_views(self) -> dict[str, RoomView]:
        """Return what was last seen in each room."""
        return {seen.room: seen for seen in self.views if seen.room}

    @cached_property
    def events(self) -> dict[str, list[EpisodeEvent]]:
        """Return the events by kind, with their steps."""
        found: dict[str, list[EpisodeEvent]] = {}
        for number, state in enumerate(self.states):
            if (what := parse_event(state.observation)) and number:
                found.setdefault(what[0], []).append((number - 1, what[1:]))
        return found

    def list_events(self, *kinds: str) -> list[EpisodeEvent]:
        return sorted(one for kind in kinds for one in self.events.get(kind, ()))

    def get_action(self, number: int) -> str:
        """Return the action of a step, even if it was chosen by number."""
        action, asked = self.steps[number].action, self.states[number].observation
        if action.isdigit() and asked.startswith(actions.AMBIGUOUS):
            action = next((text for choice, text in OPTION.findall(asked) if choice == action), action)
        return WHERE.sub("", action)

    @property
    def is_unknown(self) -> bool:
        """Whether the parser did not know the newest action."""
        return self.answer == actions.NOT_KNOWN

    def get_room(self, number: int) -> str:
        return parse_room_view(self.task, self.states[number + 1].look).room


def join_names(names: Iterable[str], most: int = MOST) -> LessonWords:
    """Return the newest names, without duplicates."""
    listed = list(dict.fromkeys(names))[-most:]
    return {"names": ", ".join(listed)} if listed else None


def list_event_names(kind: str) -> Callable[[Episode], LessonWords]:
    """Build the condition that events of a kind happened; the first words of each are its name."""
    return lambda episode: join_names(words[0] for _, words in episode.list_events(kind))


def list_by_room(list_names: Callable[[RoomView], Sequence[str]]) -> Callable[[Episode], LessonWords]:
    """Build the condition that such things were last seen in some room."""
    return lambda episode: join_names(
        f"{name} ({room})" for room, view in episode.latest_views.items() for name in list_names(view)
    )


def list_unfocused_targets(episode: Episode) -> LessonWords:
    """Return the task's targets without a focus; a collective target is dropped after any focus."""
    done = {words[0].lower() for _, words in episode.list_events("focus")}
    given = parse_focus_targets(episode.task).given
    left = [target for target in given if not _is_focus_done(target, done)]
    return join_names(f"the {target}" if target in CLASSES else target for target in left)


def list_verdict_targets(episode: Episode) -> LessonWords:
    """Return the alternative targets, until one of them has been focused on."""
    done = {words[0].lower() for _, words in episode.list_events("focus")}
    verdicts = parse_focus_targets(episode.task).verdicts
    return None if done & set(verdicts) else join_names(verdicts)


def list_seen_things(episode: Episode) -> LessonWords:
    """Return where each thing was last seen, except the inventory."""
    places: dict[str, str] = {}
    for view in episode.views:
        for name in view.named:
            places[name] = view.room
    carried_now = find_task_things(episode.task, episode.states[-1].inventory)
    return join_names(f"{name} ({room})" for name, room in places.items() if room and name not in carried_now)


def list_moved_things(episode: Episode) -> LessonWords:
    """Return the last moves of things that the task names, or into them."""
    places: dict[str, str] = {}
    for _, (what, where) in episode.list_events("to", "into"):
        places.pop(what, None)
        if where != "inventory" and any(is_mentioned(episode.task, one.lower()) for one in (what, where)):
            places[what] = where
    return join_names(f"{what} to the {where}" for what, where in places.items())


def list_measurements(episode: Episode) -> LessonWords:
    """Return the newest measurement of each thing."""
    values: dict[str, str] = {}
    for number, (degrees,) in episode.list_events("degrees"):
        if match := MEASURED.match(episode.get_action(number)):
            values.pop(match.group(1), None)
            values[match.group(1)] = degrees
    return join_names(f"{name} {degrees} degrees celsius" for name, degrees in values.items())


def list_unsearched_containers(episode: Episode) -> LessonWords:
    """Return opened containers whose content was neither looked at nor listed in their room."""
    places: dict[str, str] = {}
    looked_into = {words[0]: number for number, words in episode.list_events("inside")}
    for number, (name,) in episode.list_events("opened"):
        look = episode.states[number + 1].look
        shown = f"In the {name} is:" in look or f"On the {name} is:" in look or f"{name} (containing" in look
        searched = name == "door" or shown or looked_into.get(name, -1) > number
        places[name] = "" if searched else episode.get_room(number)
    return join_names(f"{name} ({room})" for name, room in places.items() if room)


def list_unseen_rooms(episode: Episode) -> LessonWords:
    """Return rooms behind doors that were never entered."""
    ways = dict.fromkeys(door for view in episode.latest_views.values() for door in view.doors)
    return join_names((room for room in ways if room not in episode.latest_views), 2 * MOST)


def _is_focus_done(target: str, focused_on: set[str]) -> bool:
    if not is_open_ended(target):
        return any(is_name_match(name, target) for name in focused_on) or (target == "substance" and bool(focused_on))
    count = re.match(r"\d+", target)
    return len(focused_on) >= (int(count.group()) if count else 1)


TARGET = re.compile(r"focus on (?:the |an? |a\(n\) )?(.+?)(?=[.,]| with | from |$)", re.I)
GOAL = re.compile(
    r"(?:boil|freeze|melt|grow|find|state of matter of|point of|temperature of|life stages of|create(?: the substance)?"
    r"|trait in) (?:the |an? |a\(n\) )?'?([^'.,]+?)'?(?=[.,]| with | from | which |$)",
    re.I,
)
CLASSES = frozenset({"thing", "substance", "animal"})
"""Targets that refer to something else."""
NEVER = frozenset({"air", "agent", "door", "outside", "ground", "inventory", "nothing", "soil"})
"""Names that fit things in every room, or none."""
ROOMS = frozenset(
    {"hallway", "kitchen", "bathroom", "living room", "bedroom", "workshop", "art studio", "greenhouse", "foundry"}
)


class FocusTargets(NamedTuple):
    """The focus targets of a task."""

    given: tuple[str, ...]
    """Required targets, in the task's order."""
    verdicts: tuple[str, ...]
    """Alternatives, of which the agent must find the right one."""


@lru_cache(maxsize=64)
def parse_focus_targets(task: str) -> FocusTargets:
    given: dict[str, None] = {}
    verdicts: dict[str, None] = {}
    for sentence in re.split(r"(?<=[.!?])\s+", task):
        for match in TARGET.finditer(sentence):
            (verdicts if re.match(r"if\b", sentence, re.I) else given)[match.group(1).strip().lower()] = None
    return FocusTargets(tuple(given), tuple(verdicts))


@lru_cache(maxsize=64)
def parse_goal_things(task: str) -> tuple[str, ...]:
    """Return the things that the task is about."""
    found = (match.group(1).strip().lower() for match in GOAL.finditer(task))
    return tuple(dict.fromkeys(name for name in found if name not in CLASSES and len(name.split()) <= 4))


def is_open_ended(target: str) -> bool:
    """Return whether a target refers to things that it does not name."""
    return target in CLASSES or "life stage" in target or "living" in target


def is_name_match(name: str, target: str) -> bool:
    """Return whether an object may be a target: the words of one name are among those of the other."""
    ours, theirs = set(name.split()), set(target.split())
    return ours <= theirs or theirs <= ours


def is_wrong_focus(task: str, name: str, substances: frozenset[str]) -> bool:
    """Return whether the task certainly does not ask for a focus on an object of this name.

    A referring target may be anything; `the substance` may be any visible one, because a substance changes its name
    with its state.
    """
    given, verdicts = parse_focus_targets(task)
    asked = [target for target in (*given, *verdicts) if target != "substance"]
    if not (given or verdicts) or any(map(is_open_ended, asked)):
        return False
    if "substance" in given:
        asked += parse_goal_things(task)
        if name in substances:
            return False
    return not any(is_name_match(name, target) for target in asked)


@lru_cache(maxsize=4096)
def is_mentioned(task: str, name: str) -> bool:
    """Return whether the task mentions a thing: it contains the thing's name, or the name contains its subject."""
    if name in NEVER or name in ROOMS or not name:
        return False
    about = [
        target for target in (*parse_focus_targets(task).given, *parse_goal_things(task)) if not is_open_ended(target)
    ]
    return _has_words(name, task.lower()) or any(_has_words(one, name) for one in about)


def _has_words(words: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None
