"""Plays a household: finds a thing, treats it at a station, and leaves it where it belongs."""

import re
from collections.abc import Iterator, Sequence

from rsso_dspy.explorer.worlds.world import Deed, Fact, Habit, View, Wording, World

_WORDING = Wording(
    {
        "seen": "{} is in sight at {}",
        "been": "{} was visited",
        "shut": "{} is shut",
        "here": "one stands at {}",
        "held": "{} is in hand",
        "ready": "{} is ready",
        "left": "{} was left at {}",
        "place": "{} is a place",
    },
    name=r"[a-z]+ \d+",
)
"""Of the player's notes."""
_LISTED = re.compile(r"\ban? ([a-z]+ \d+)")
_SEEN = re.compile(r"(?:on|in) the ([a-z]+ \d+), you see ([^.]*)|the ([a-z]+ \d+) is open\. in it, you see ([^.]*)")
_SHUT = re.compile(r"the ([a-z]+ \d+) is closed")
_STATIONS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
_STATES = {"clean": "clean", "hot": "heat", "cool": "cool"}
_LIGHT = re.compile(r"(?:look at|examine) (?:the |some |an? )?(\w+) (?:under|with) the (\w+)")
_TREATED = re.compile(r"\b(clean|heat|cool) (?:the |some |an? )?(\w+) and put it (?:in|on) (?:the |an? )?(\w+)")
_STATED = re.compile(r"\bput (?:the |some |an? )?(clean|hot|cool) (\w+) (?:in|on) (?:the |an? )?(\w+)")
_TWO = re.compile(r"\b(?:put|find) two (\w+?)s? (?:and put them )?(?:in|on) (?:the |an? )?(\w+)")
_PLAIN = re.compile(r"\bput (?:the |some |an? )?(\w+) (?:in|on) (?:the |an? )?(\w+)")
_WORDS = re.compile(r"[a-z]+(?: \d+)?")


class _Errand:
    """What a task asks for. ``verb``: clean, heat, cool, light or empty."""

    def __init__(self, task: str):
        self.thing = self.place = self.verb = ""
        self.count = 1
        text = task.lower()
        if match := _LIGHT.search(text):
            self.verb, self.thing, self.place = "light", match[1], match[2]
        elif match := _TREATED.search(text):
            self.verb, self.thing, self.place = match[1], match[2], match[3]
        elif match := _STATED.search(text):
            self.verb, self.thing, self.place = _STATES[match[1]], match[2], match[3]
        elif match := _TWO.search(text):
            self.count, self.thing, self.place = 2, match[1], match[2]
        elif match := _PLAIN.search(text):
            self.thing, self.place = match[1], match[2]


def _is_kind(name: str, kind: str) -> bool:
    return bool(kind) and name.rpartition(" ")[0] == kind


def _update(facts: frozenset[Fact], action: str, answer: str) -> frozenset[Fact]:
    found = set(facts)
    if not action:
        return frozenset(("place", name) for name in _LISTED.findall(answer))
    verb, _, rest = action.partition(" ")
    if action.startswith("go to ") and answer:
        found = {fact for fact in found if fact[0] != "here"} | {("here", rest[3:]), ("been", rest[3:])}
    if verb in ("take", "put", "move") and (match := re.match(r"(\w+ \d+) (?:from|in/on|to) (\w+ \d+)", rest)):
        thing, place = match.groups()
        found -= {("seen", thing, place), ("held", thing), ("left", thing, place)}
        found.add(("held", thing) if verb == "take" else ("left", thing, place))
    if verb in ("clean", "heat", "cool"):
        found.add(("ready", " ".join(rest.split()[:2])))
    for match in _SEEN.finditer(answer):
        place, listed = match[1] or match[3], match[2] or match[4]
        found = {fact for fact in found if not (fact[0] == "seen" and fact[2] == place)} - {("shut", place)}
        found |= {("seen", name, place) for name in _LISTED.findall(listed)}
    if shut := _SHUT.search(answer):
        found.add(("shut", shut[1]))
    if verb == "open":
        found.discard(("shut", rest))
    elif verb == "close":
        found.add(("shut", rest))
    return frozenset(found)


def _propose(view: View) -> Iterator[tuple[str, str]]:
    errand = _Errand(view.task)
    held = next((fact[1] for fact in view.select("held")), "")
    if not held:
        yield from ((action, errand.thing) for action in _fetch(view, errand))
    elif not _is_kind(held, errand.thing):
        yield from ((action, "") for action in _leave(view, held, ""))
    elif errand.verb == "light":
        yield from ((action, errand.place) for action in _go_to_light(view, errand))
    elif errand.verb and not view.holds("ready", held):
        station = _STATIONS[errand.verb]
        for place in _list_places(view, station):
            yield from ((action, errand.verb) for action in _approach(view, place))
            yield f"{errand.verb} {held} with {place}", errand.verb
    else:
        yield from ((action, errand.place) for action in _leave(view, held, errand.place))


def _fetch(view: View, errand: _Errand) -> Iterator[str]:
    """Fetch the nearest thing of the kind that is not in its place, or search for one."""
    brought = {fact[1] for fact in view.select("left") if _is_kind(fact[2], errand.place)}
    for _, thing, place in view.select("seen"):
        if _is_kind(thing, errand.thing) and thing not in brought:
            yield from _approach(view, place)
            yield f"take {thing} from {place}"
    yield from _search(view, errand.thing)


def _go_to_light(view: View, errand: _Errand) -> Iterator[str]:
    for _, lamp, place in view.select("seen"):
        if _is_kind(lamp, errand.place):
            yield from _approach(view, place)
            yield f"use {lamp}"
    yield from _search(view, errand.place)


def _leave(view: View, held: str, kind: str) -> Iterator[str]:
    """Leave the thing in hand at a place of a kind, or anywhere if none is named; a place that was used before comes
    first."""
    used = [fact[2] for fact in view.select("left")]
    for place in sorted(_list_places(view, kind), key=lambda name: name not in used):
        yield from _approach(view, place)
        if view.holds("shut", place):
            yield f"open {place}"
        yield f"put {held} in/on {place}"


def _search(view: View, kind: str) -> Iterator[str]:
    """Go to the next place to search: first those that advice names with the thing, then in random order. Closed places
    stay closed until the player is told to open things."""
    here = next((fact[1] for fact in view.select("here")), "")
    opens = "open closed" in view.habits
    if opens and here and view.holds("shut", here):
        yield f"open {here}"
    likely = _list_likely(view.told, kind)
    order = sorted(_list_places(view, ""), key=lambda name: (_rank(name, likely), view.draw(name)))
    for place in order:
        if not view.holds("been", place) or (opens and view.holds("shut", place)):
            yield f"go to {place}"
    for place in sorted(order, key=lambda name: view.draw(f"{here} {name}")):
        yield f"go to {place}"  # once more, at random


def _list_likely(told: str, kind: str) -> list[str]:
    """Places that advice names in one clause with the kind of thing, in order."""
    found: list[str] = []
    for clause in re.split(r"[.;\n]", told):
        if re.search(rf"\b{kind}\b", clause):
            found += re.findall(r"(?:in|on|at|to|from) (?:the |an? )?([a-z]+(?: \d+)?)", clause)
    return found


def _rank(place: str, likely: Sequence[str]) -> int:
    """0 for a place that is named, 1 for one whose kind is named, 2 for others."""
    kinds = {name.split()[0] for name in likely}
    return 0 if place in likely else 1 if place.split()[0] in kinds else 2


def _approach(view: View, place: str) -> Iterator[str]:
    if not view.holds("here", place):
        yield f"go to {place}"


def _list_places(view: View, kind: str) -> list[str]:
    return [fact[1] for fact in view.select("place") if not kind or _is_kind(fact[1], kind)]


def _passed_closed(deeds: Sequence[Deed]) -> bool:
    """Whether places were found closed and not opened."""
    shut = {name for deed in deeds for name in _SHUT.findall(deed.answer)}
    return bool(shut - {deed.action.removeprefix("open ") for deed in deeds})


def _remember(task: str, deeds: Sequence[Deed]) -> list[str]:
    """Advice on where things of the task were seen, and where they were not."""
    errand = _Errand(task)
    wanted = {errand.thing} | ({errand.place} if errand.verb == "light" else set())
    found = dict[str, str]()
    for deed in deeds:
        for match in _SEEN.finditer(deed.answer):
            for name in _LISTED.findall(match[2] or match[4]):
                found.setdefault(name, match[1] or match[3])
    return [
        f"The {name} is at {place}: go to {place} for the {name.split()[0]}."
        for name, place in sorted(found.items())
        if name.split()[0] in wanted
    ]


WORLD = World(
    "household",
    re.compile(
        r"looking quickly around you|you arrive at \w+ \d|take object from place"
        r"|(?:take|clean|heat|cool|put|move) \w+ \d+ (?:from|with|in/on|to) \w+ \d|go to \w+ \d|you pick up the \w+ \d"
    ),
    _WORDING,
    _update,
    _propose,
    (
        Habit(
            "open closed",
            r"open (?:it|what|them|every|each|all|the|closed)|(?:^|\n)\W*open \w+",
            "Open what is closed, and look into it.",
            _passed_closed,
        ),
    ),
    _remember,
)
