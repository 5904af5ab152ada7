"""What can be learned from an episode of ScienceWorld without a model: the conditions of its lessons, see `LessonTable`
(after OmniReflect, section 2.1.2, whose patterns are for other environments). All conditions are computed after every
step, so parsed texts are cached."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple

from rsso_dspy.environments import lessons
from rsso_dspy.environments.lessons import LessonTable, Words, name_all, read_texts
from rsso_dspy.environments.scienceworld import actions

MOST = 8  # maximum entries of a lesson; the newest are kept
LONGEST_ACTION = 12  # maximum words of an action; more are a sentence
ROOM = re.compile(r"called the (.+?)\.")
DOORS = re.compile(r"A door to the (.+?) \(")
CLOSED = re.compile(r"The ([^.\n]+?) door is closed")
DEVICE = re.compile(r"^\s*(?:an? |the )?([^,\n]+), which is turned (on|off)", re.M)
PIECES = re.compile(r"[,.:()\n\t]+")
ARTICLES = re.compile(r"(?:containing )?(?:an? |the )?(?:substance called )?", re.I)
TAIL = re.compile(r" (?:in the|which|with an?|currently|is:?$).*")
SUBSTANCE = re.compile(r"substance called ([^,.()\n]+)")
MOVES = re.compile(r"You (?:move|teleport) to the")
MEASURED = re.compile(r"use .+? on (.+)")
PLACES = re.compile(r"(?:go|walk|teleport)\b|move (?:to|into|through)\b")
NO_WAY = re.compile(r"It'?s not clear how to (?:get there|go to)")
TEMPLATES = {line.split()[0]: line for line in actions.ACTION_TEMPLATES.partition("Templates:\n")[2].splitlines()[::-1]}
"""First word to the first template that begins with it."""
TARGET = re.compile(r"focus on (?:the |an? |a\(n\) )?(.+?)(?=[.,]| with | from |$)", re.I)

_TEXTS = read_texts(__package__)
EVENTS, GOAL, SHAPES = (re.compile("|".join(_TEXTS["patterns"][name])) for name in ("events", "goal", "shapes"))
SMALL, TALK, CLASSES, UNTOLD = (frozenset(_TEXTS["words"][name]) for name in ("small", "talk", "classes", "untold"))


@lru_cache(maxsize=64)
def parse_focus_targets(task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The required focus targets of a task, in its order, and alternatives, of which the agent must find the right
    one."""
    required: dict[str, None] = {}
    verdicts: dict[str, None] = {}
    for sentence in re.split(r"(?<=[.!?])\s+", task):
        for match in TARGET.finditer(sentence):
            targets = verdicts if re.match(r"if\b", sentence, re.I) else required
            targets[match.group(1).strip().lower()] = None
    return tuple(required), tuple(verdicts)


@lru_cache(maxsize=64)
def parse_goal_things(task: str) -> tuple[str, ...]:
    things = (match.group(1).strip().lower() for match in GOAL.finditer(task))
    return tuple(dict.fromkeys(name for name in things if name not in CLASSES and len(name.split()) <= 4))


def is_open_ended(target: str) -> bool:  # whether it refers to things that it does not name
    return target in CLASSES or "life stage" in target or "living" in target


def is_name_match(name: str, target: str) -> bool:
    """Return whether an object may be a target: the words of one name are among those of the other."""
    return set(name.split()) <= set(target.split()) or set(target.split()) <= set(name.split())


def is_wrong_focus(task: str, name: str, substances: frozenset[str]) -> bool:
    """Return whether the task certainly does not ask for a focus on an object of this name. A referring target may be
    anything; `the substance` may be any visible one, because a substance changes its name with its state."""
    required, verdicts = parse_focus_targets(task)
    targets = [target for target in (*required, *verdicts) if target != "substance"]
    if not (required or verdicts) or any(map(is_open_ended, targets)):
        return False
    if "substance" in required:
        targets += [*parse_goal_things(task), *substances & {name}]
    return not any(is_name_match(name, target) for target in targets)


@lru_cache(maxsize=4096)
def is_mentioned(task: str, name: str) -> bool:
    """Return whether the task mentions a thing: it contains the thing's name, or the name contains its subject."""
    if name in UNTOLD or not name:
        return False
    things = (*parse_focus_targets(task)[0], *parse_goal_things(task))
    pairs = [(name, task.lower()), *((thing, name) for thing in things if not is_open_ended(thing))]
    return any(re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) for words, text in pairs)


@lru_cache(maxsize=16384)
def find_task_things(task: str, text: str) -> tuple[str, ...]:
    pieces = (ARTICLES.sub("", piece.strip(), count=1) for piece in PIECES.split(text))
    names = (TAIL.sub("", piece).strip() for piece in pieces)
    return tuple(dict.fromkeys(name for name in names if is_mentioned(task, name.lower())))


class RoomView(NamedTuple):
    room: str
    named: Sequence[str]  # things named in the task
    closed: Sequence[str]
    devices: Sequence[str]
    running: Sequence[str]
    doors: Sequence[str]


@lru_cache(maxsize=16384)
def parse_room_view(task: str, look: str) -> RoomView:
    things, _, ways = look.partition("You also see:")
    room = next(iter(ROOM.findall(look)), "")
    switches = DEVICE.findall(things)
    devices = [name for name, _ in switches]
    running = [name for name, state in switches if state == "on"]
    return RoomView(room, find_task_things(task, things), CLOSED.findall(things), devices, running, DOORS.findall(ways))


@lru_cache(maxsize=16384)
def parse_event(answer: str) -> tuple[str, ...]:
    """Parse the event in an answer into its kind and words; empty for other answers."""
    match = EVENTS.match(answer)
    return (match.lastgroup or "", *filter(None, match.groups())) if match else ()


def name_newest(names: Iterable[str], most: int = MOST) -> Words | None:
    return name_all(list(dict.fromkeys(names))[-most:])


class Episode(lessons.Episode):
    @cached_property
    def views(self) -> list[RoomView]:
        return [parse_room_view(self.task, look) for look, _ in groupby(state.look for state in self.states) if look]

    @cached_property
    def latest_views(self) -> dict[str, RoomView]:
        return {view.room: view for view in self.views if view.room}

    def list_events(self, *kinds: str) -> list[tuple[int, tuple[str, ...]]]:
        """Return the events of these kinds: the number of the step, and the words of the event."""
        events = enumerate(parse_event(state.observation) for state in self.states[1:])
        return [(number, event[1:]) for number, event in events if event and event[0] in kinds]

    def get_view(self, number: int) -> RoomView:
        return parse_room_view(self.task, self.states[number].look)

    # What mistakes go by.

    is_unknown = property(lambda self: self.answer == actions.NOT_KNOWN)
    was_asked = property(lambda self: self.states[-2].observation.startswith(actions.AMBIGUOUS))

    @property
    def is_repeated(self) -> bool:
        """A repeated action without a visible change; waiting is exempt."""
        pair = [step.action for step in self.steps[-2:]]
        is_again = len(pair) > 1 and pair[0] == pair[1] and pair[0] not in ("", "wait", "wait1")
        return is_again and self.states[-1] == self.states[-2]

    @property
    def is_sentence(self) -> bool:
        first, *rest = self.newest.action.split() or [""]
        is_prose = len(rest) >= LONGEST_ACTION or first in TALK or not first.rstrip(".,:;").isalpha()
        return bool(self.is_unknown and first and is_prose)

    @property
    def is_unknown_place(self) -> bool:
        """A destination that is not a room or has no door; the parser knows only some of these."""
        return bool(NO_WAY.match(self.answer) or (self.is_unknown and PLACES.match(self.newest.action)))

    @property
    def unknown_form(self) -> Words | None:
        """The action with letters for its names: ``connect X to Y``."""
        if not self.is_unknown or not self.newest.action:
            return None
        first, *rest = self.newest.action.split()
        letters = iter("XYZ")
        words = [first.strip(".,:;")]
        was_name = False
        for word in rest:
            if word in SMALL:
                words.append(word)
            elif not was_name:
                words.append(next(letters, "..."))
            was_name = word not in SMALL
        return {"form": " ".join(words)}

    known_form = property(lambda self: self.unknown_form if SHAPES.fullmatch(self.newest.action) else None)

    @property
    def wrong_form(self) -> Words | None:
        template = TEMPLATES.get(self.newest.action.partition(" ")[0], "")
        return {**self.unknown_form, "template": template} if self.unknown_form and template else None

    @property
    def is_wrong_focus(self) -> bool:
        kind, *words = parse_event(self.answer) or [""]
        substances = SUBSTANCE.findall(self.states[-1].look + self.states[-1].inventory)
        return kind == "focus" and is_wrong_focus(self.task, words[0].lower(), frozenset(map(str.lower, substances)))

    # What progress goes by.

    @property
    def new_devices(self) -> Words | None:
        """The fixed devices of a newly entered room; they are the same in every episode."""
        view = self.get_view(-1)
        is_known = any(self.get_view(number).room == view.room for number in range(1, len(self.states) - 1))
        if not MOVES.match(self.answer) or is_known or not view.devices:
            return None
        return {"room": view.room, "devices": ", ".join(sorted(set(view.devices)))}

    def name_by_room(self, list_names: Callable[[RoomView], Sequence[str]]) -> Words | None:
        """Such things, as they were last seen in each room."""
        views = self.latest_views.items()
        return name_newest(f"{name} ({room})" for room, view in views for name in list_names(view))

    focused = property(lambda self: name_newest(words[0] for _, words in self.list_events("focus")))
    mixtures = property(lambda self: name_newest(words[0] for _, words in self.list_events("product")))
    texts_read = property(lambda self: name_newest(" ".join(words[0].split()) for _, words in self.list_events("text")))
    things_carried = property(lambda self: name_newest(find_task_things(self.task, self.states[-1].inventory)))
    running = property(lambda self: self.name_by_room(lambda view: view.running))
    closed = property(lambda self: self.name_by_room(lambda view: view.closed))
    rooms_seen = property(lambda self: name_newest(self.latest_views, 2 * MOST))

    @cached_property
    def focused_on(self) -> set[str]:
        return {words[0].lower() for _, words in self.list_events("focus")}

    @property
    def unfocused_targets(self) -> Words | None:
        """The task's targets without a focus; a collective target is dropped after any focus."""
        targets = [target for target in parse_focus_targets(self.task)[0] if not self._is_focus_done(target)]
        return name_newest(f"the {target}" if target in CLASSES else target for target in targets)

    def _is_focus_done(self, target: str) -> bool:
        if is_open_ended(target):
            return len(self.focused_on) >= int("".join(re.findall(r"^\d+", target)) or 1)
        return any(target == "substance" or is_name_match(name, target) for name in self.focused_on)

    @property
    def verdict_targets(self) -> Words | None:
        """The alternative targets, until one of them has been focused on."""
        verdicts = parse_focus_targets(self.task)[1]
        return None if self.focused_on & set(verdicts) else name_newest(verdicts)

    @property
    def things_seen(self) -> Words | None:
        """Where each thing was last seen, except the inventory."""
        places = {name: view.room for view in self.views for name in view.named}
        carried = find_task_things(self.task, self.states[-1].inventory)
        return name_newest(f"{name} ({room})" for name, room in places.items() if room and name not in carried)

    @property
    def things_moved(self) -> Words | None:
        """The last moves of things that the task names, or into them."""
        places: dict[str, str] = {}
        for _, (what, where) in self.list_events("to", "into"):
            places.pop(what, None)
            if where != "inventory" and any(is_mentioned(self.task, name.lower()) for name in (what, where)):
                places[what] = where
        return name_newest(f"{what} to the {where}" for what, where in places.items())

    @property
    def measurements(self) -> Words | None:
        values: dict[str, str] = {}
        for number, (degrees,) in self.list_events("degrees"):
            if match := MEASURED.match(self.steps[number].action):
                values.pop(match[1], None)
                values[match[1]] = degrees
        return name_newest(f"{name} {degrees} degrees celsius" for name, degrees in values.items())

    @property
    def broken(self) -> Words | None:
        broken = self.list_events("broken")
        return name_newest(f"{words[0]} ({self.get_view(number + 1).room})" for number, words in broken)

    @property
    def rooms_unseen(self) -> Words | None:
        """Rooms behind doors that were never entered."""
        ways = (door for view in self.latest_views.values() for door in view.doors)
        return name_newest((room for room in ways if room not in self.latest_views), 2 * MOST)


LESSONS = LessonTable(__package__, Episode)
