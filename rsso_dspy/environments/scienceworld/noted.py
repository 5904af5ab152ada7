"""How far an episode has come, told from what was seen: conditions of the progress lessons, each of which returns its
words or None. All are computed anew after every step, so what is read of one text is kept."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from rsso_dspy.environments.scienceworld import actions, tasktext
from rsso_dspy.trajectory import State, Step

Found = dict[str, str] | None
Event = tuple[int, tuple[str, ...]]
"""The number of a step, and the words of what happened in it."""

MOST = 8
"""Entries of one lesson at most, the newest."""
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


class Sight(NamedTuple):
    """What the surroundings show."""

    room: str
    named: tuple[str, ...]
    """Things that the task names."""
    closed: tuple[str, ...]
    devices: tuple[str, ...]
    running: tuple[str, ...]
    doors: tuple[str, ...]


@lru_cache(maxsize=16384)
def sight(task: str, look: str) -> Sight:
    room = ROOM.search(look)
    things, _, ways = look.partition("You also see:")
    switches = DEVICE.findall(things)
    return Sight(
        room.group(1) if room else "",
        named(task, things),
        tuple(dict.fromkeys(CLOSED.findall(things))),
        tuple(dict.fromkeys(name for name, _ in switches)),
        tuple(dict.fromkeys(name for name, state in switches if state == "on")),
        tuple(DOORS.findall(ways)),
    )


@lru_cache(maxsize=16384)
def named(task: str, text: str) -> tuple[str, ...]:
    """The things in a listing that the task names."""
    found = (TAIL.sub("", ARTICLES.sub("", piece.strip(), count=1)).strip() for piece in PIECES.split(text))
    return tuple(dict.fromkeys(name for name in found if tasktext.names(task, name.lower())))


@lru_cache(maxsize=16384)
def event(answer: str) -> tuple[str, ...]:
    """What an answer says has happened: its kind and its words; empty when it is none of the kinds."""
    match = EVENTS.match(answer)
    if not match:
        return ()
    return (match.lastgroup or "", *(word for word in match.groups() if word is not None))


@dataclass
class Episode:
    """An episode as far as it went, and what happened in it."""

    task: str
    states: Sequence[State]
    steps: Sequence[Step]

    @property
    def step(self) -> Step:
        return self.steps[-1]

    @property
    def answer(self) -> str:
        return self.states[-1].observation

    @cached_property
    def sights(self) -> list[Sight]:
        """Those that differ from the one before."""
        looks: list[str] = []
        for state in self.states:
            if not looks or state.look != looks[-1]:
                looks.append(state.look)
        return [sight(self.task, look) for look in looks]

    @cached_property
    def latest(self) -> dict[str, Sight]:
        """Room to what was seen there last."""
        return {seen.room: seen for seen in self.sights if seen.room}

    @cached_property
    def events(self) -> dict[str, list[Event]]:
        """Kind to what of it happened, and in which step."""
        found: dict[str, list[Event]] = {}
        for number, state in enumerate(self.states):
            if (what := event(state.observation)) and number:
                found.setdefault(what[0], []).append((number - 1, what[1:]))
        return found

    def of(self, *kinds: str) -> list[Event]:
        return sorted(one for kind in kinds for one in self.events.get(kind, ()))

    def action(self, number: int) -> str:
        """What was done in a step, also when it was chosen by its number."""
        action, asked = self.steps[number].action, self.states[number].observation
        if action.isdigit() and asked.startswith(actions.AMBIGUOUS):
            action = next((text for choice, text in OPTION.findall(asked) if choice == action), action)
        return WHERE.sub("", action)

    def room(self, number: int) -> str:
        return sight(self.task, self.states[number + 1].look).room


def focused(episode: Episode) -> Found:
    return _all(words[0] for _, words in episode.of("focus"))


def to_focus(episode: Episode) -> Found:
    """Targets of the task that were not focused on. One that stands for several things is left out once any was."""
    done = {words[0].lower() for _, words in episode.of("focus")}
    given = tasktext.targets(episode.task).given
    left = [target for target in given if not _done(target, done)]
    return _all(f"the {target}" if target in tasktext.CLASSES else target for target in left)


def verdict(episode: Episode) -> Found:
    """Targets that depend on what is found out, while none of them was focused on."""
    done = {words[0].lower() for _, words in episode.of("focus")}
    verdicts = tasktext.targets(episode.task).verdicts
    return None if done & set(verdicts) else _all(verdicts)


def seen(episode: Episode) -> Found:
    """Where each thing was seen last, less what is carried."""
    places: dict[str, str] = {}
    for view in episode.sights:
        for name in view.named:
            places[name] = view.room
    carried_now = named(episode.task, episode.states[-1].inventory)
    return _all(f"{name} ({room})" for name, room in places.items() if room and name not in carried_now)


def carried(episode: Episode) -> Found:
    return _all(named(episode.task, episode.states[-1].inventory))


def moved(episode: Episode) -> Found:
    """Where things that the task names, or into which of those, were moved last."""
    places: dict[str, str] = {}
    for _, (what, where) in episode.of("to", "into"):
        places.pop(what, None)
        if where != "inventory" and any(tasktext.names(episode.task, one.lower()) for one in (what, where)):
            places[what] = where
    return _all(f"{what} to the {where}" for what, where in places.items())


def measured(episode: Episode) -> Found:
    """The newest value of each thing."""
    values: dict[str, str] = {}
    for number, (degrees,) in episode.of("degrees"):
        if match := MEASURED.match(episode.action(number)):
            values.pop(match.group(1), None)
            values[match.group(1)] = degrees
    return _all(f"{name} {degrees} degrees celsius" for name, degrees in values.items())


def told(episode: Episode) -> Found:
    return _all(" ".join(words[0].split()) for _, words in episode.of("text"))


def made(episode: Episode) -> Found:
    return _all(words[0] for _, words in episode.of("product"))


def running(episode: Episode) -> Found:
    return _all(f"{name} ({room})" for room, view in episode.latest.items() for name in view.running)


def broken(episode: Episode) -> Found:
    return _all(f"{words[0]} ({episode.room(number)})" for number, words in episode.of("broken"))


def unsearched(episode: Episode) -> Found:
    """Containers that were opened, and whose content was neither looked at nor stands in the listing of their room."""
    places: dict[str, str] = {}
    looked_into = {words[0]: number for number, words in episode.of("inside")}
    for number, (name,) in episode.of("opened"):
        shown = name == "door" or _shown(name, episode.states[number + 1].look) or looked_into.get(name, -1) > number
        places[name] = "" if shown else episode.room(number)
    return _all(f"{name} ({room})" for name, room in places.items() if room)


def closed(episode: Episode) -> Found:
    return _all(f"{name} ({room})" for room, view in episode.latest.items() for name in view.closed)


def rooms(episode: Episode) -> Found:
    return _all(episode.latest, 2 * MOST)


def other_rooms(episode: Episode) -> Found:
    """Rooms that doors lead to, none of which was entered."""
    ways = dict.fromkeys(door for view in episode.latest.values() for door in view.doors)
    return _all((room for room in ways if room not in episode.latest), 2 * MOST)


def _all(names: Iterable[str], most: int = MOST) -> Found:
    """The newest of the names, each once."""
    listed = list(dict.fromkeys(names))[-most:]
    return {"names": ", ".join(listed)} if listed else None


def _done(target: str, focused_on: set[str]) -> bool:
    if not tasktext.open_ended(target):
        return any(tasktext.fits(name, target) for name in focused_on) or (target == "substance" and bool(focused_on))
    count = re.match(r"\d+", target)
    return len(focused_on) >= (int(count.group()) if count else 1)


def _shown(container: str, look: str) -> bool:
    return f"In the {container} is:" in look or f"On the {container} is:" in look or f"{container} (containing" in look
