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
_TEMPLATE_LINES = actions.ACTION_TEMPLATES.partition("Templates:\n")[2].splitlines()
TEMPLATES = {line.split()[0]: line for line in reversed(_TEMPLATE_LINES)}
"""First word to the first template that begins with it."""
TARGET = re.compile(r"focus on (?:the |an? |a\(n\) )?(.+?)(?=[.,]| with | from |$)", re.I)

_TEXTS = read_texts(__package__)
_PATTERNS = _TEXTS["patterns"]
EVENTS = re.compile("|".join(_PATTERNS["events"]))
GOAL = re.compile("|".join(_PATTERNS["goal"]))
SHAPES = re.compile("|".join(_PATTERNS["shapes"]))
_WORDS = _TEXTS["words"]
SMALL = frozenset(_WORDS["small"])
TALK = frozenset(_WORDS["talk"])
CLASSES = frozenset(_WORDS["classes"])
UNTOLD = frozenset(_WORDS["untold"])


@lru_cache(maxsize=64)
def parse_focus_targets(task: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The required focus targets of a task, in its order, and alternatives, of which the agent must find the right
    one."""
    required: dict[str, None] = {}
    verdicts: dict[str, None] = {}
    for sentence in re.split(r"(?<=[.!?])\s+", task):
        targets = verdicts if re.match(r"if\b", sentence, re.I) else required
        for match in TARGET.finditer(sentence):
            target = match.group(1).strip().lower()
            targets[target] = None
    return tuple(required), tuple(verdicts)


@lru_cache(maxsize=64)
def parse_goal_things(task: str) -> tuple[str, ...]:
    names = []
    for match in GOAL.finditer(task):
        name = match.group(1).strip().lower()
        if name not in CLASSES and len(name.split()) <= 4:
            names.append(name)
    return tuple(dict.fromkeys(names))


def is_open_ended(target: str) -> bool:  # whether it refers to things that it does not name
    return target in CLASSES or "life stage" in target or "living" in target


def is_name_match(name: str, target: str) -> bool:
    """Return whether an object may be a target: the words of one name are among those of the other."""
    name_words = set(name.split())
    target_words = set(target.split())
    return name_words <= target_words or target_words <= name_words


def is_wrong_focus(task: str, name: str, substances: frozenset[str]) -> bool:
    """Return whether the task certainly does not ask for a focus on an object of this name. A referring target may be
    anything; `the substance` may be any visible one, because a substance changes its name with its state."""
    required, verdicts = parse_focus_targets(task)
    if not required and not verdicts:
        return False

    targets = [target for target in (*required, *verdicts) if target != "substance"]
    if any(is_open_ended(target) for target in targets):
        return False

    if "substance" in required:
        targets += parse_goal_things(task)
        if name in substances:
            targets.append(name)
    return not any(is_name_match(name, target) for target in targets)


@lru_cache(maxsize=4096)
def is_mentioned(task: str, name: str) -> bool:
    """Return whether the task mentions a thing: it contains the thing's name, or the name contains its subject."""
    if name in UNTOLD or not name:
        return False
    if _contains(task.lower(), name):
        return True
    required, _ = parse_focus_targets(task)
    things = [thing for thing in (*required, *parse_goal_things(task)) if not is_open_ended(thing)]
    return any(_contains(name, thing) for thing in things)


def _contains(text: str, words: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(words)}(?!\w)", text) is not None


@lru_cache(maxsize=16384)
def find_task_things(task: str, text: str) -> tuple[str, ...]:
    names = []
    for piece in PIECES.split(text):
        phrase = ARTICLES.sub("", piece.strip(), count=1)
        name = TAIL.sub("", phrase).strip()
        if is_mentioned(task, name.lower()):
            names.append(name)
    return tuple(dict.fromkeys(names))


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
    rooms = ROOM.findall(look)
    switches = DEVICE.findall(things)
    return RoomView(
        room=rooms[0] if rooms else "",
        named=find_task_things(task, things),
        closed=CLOSED.findall(things),
        devices=[name for name, _ in switches],
        running=[name for name, state in switches if state == "on"],
        doors=DOORS.findall(ways),
    )


@lru_cache(maxsize=16384)
def parse_event(answer: str) -> tuple[str, ...]:
    """Parse the event in an answer into its kind and words; empty for other answers."""
    match = EVENTS.match(answer)
    if match is None:
        return ()
    words = [group for group in match.groups() if group]
    return (match.lastgroup or "", *words)


def name_newest(names: Iterable[str], most: int = MOST) -> Words | None:
    return name_all(list(dict.fromkeys(names))[-most:])


class Episode(lessons.Episode):
    @cached_property
    def views(self) -> list[RoomView]:
        looks = [state.look for state in self.states]
        return [parse_room_view(self.task, look) for look, _ in groupby(looks) if look]

    @cached_property
    def latest_views(self) -> dict[str, RoomView]:
        return {view.room: view for view in self.views if view.room}

    def list_events(self, *kinds: str) -> list[tuple[int, tuple[str, ...]]]:
        """Return the events of these kinds: the number of the step, and the words of the event."""
        events = []
        for number, state in enumerate(self.states[1:]):
            event = parse_event(state.observation)
            if event and event[0] in kinds:
                events.append((number, event[1:]))
        return events

    def get_view(self, number: int) -> RoomView:
        return parse_room_view(self.task, self.states[number].look)

    # What mistakes go by.

    @property
    def is_unknown(self) -> bool:
        return self.answer == actions.NOT_KNOWN

    @property
    def was_asked(self) -> bool:
        return self.states[-2].observation.startswith(actions.AMBIGUOUS)

    @property
    def is_repeated(self) -> bool:
        """A repeated action without a visible change; waiting is exempt."""
        if len(self.steps) < 2:
            return False
        action = self.newest.action
        is_again = action == self.steps[-2].action and action not in ("", "wait", "wait1")
        return is_again and self.states[-1] == self.states[-2]

    @property
    def is_sentence(self) -> bool:
        words = self.newest.action.split()
        if not self.is_unknown or not words:
            return False
        first_word = words[0]
        is_long = len(words) > LONGEST_ACTION
        return is_long or first_word in TALK or not first_word.rstrip(".,:;").isalpha()

    @property
    def is_unknown_place(self) -> bool:
        """A destination that is not a room or has no door; the parser knows only some of these."""
        if NO_WAY.match(self.answer):
            return True
        return self.is_unknown and PLACES.match(self.newest.action) is not None

    @property
    def unknown_form(self) -> Words | None:
        """The action with letters for its names: ``connect X to Y``."""
        if not self.is_unknown or not self.newest.action:
            return None

        verb, *rest = self.newest.action.split()
        letters = iter("XYZ")
        words = [verb.strip(".,:;")]
        was_name = False
        for word in rest:
            is_name = word not in SMALL
            if not is_name:
                words.append(word)
            elif not was_name:
                words.append(next(letters, "..."))
            was_name = is_name
        return {"form": " ".join(words)}

    @property
    def known_form(self) -> Words | None:
        if not SHAPES.fullmatch(self.newest.action):
            return None
        return self.unknown_form

    @property
    def wrong_form(self) -> Words | None:
        form = self.unknown_form
        first_word = self.newest.action.partition(" ")[0]
        template = TEMPLATES.get(first_word)
        if form is None or not template:
            return None
        return {**form, "template": template}

    @property
    def is_wrong_focus(self) -> bool:
        event = parse_event(self.answer)
        if not event or event[0] != "focus":
            return False
        name = event[1].lower()
        sight = self.states[-1].look + self.states[-1].inventory
        substances = frozenset(substance.lower() for substance in SUBSTANCE.findall(sight))
        return is_wrong_focus(self.task, name, substances)

    # What progress goes by.

    @property
    def new_devices(self) -> Words | None:
        """The fixed devices of a newly entered room; they are the same in every episode."""
        view = self.get_view(-1)
        if not MOVES.match(self.answer) or not view.devices:
            return None
        for number in range(1, len(self.states) - 1):
            if self.get_view(number).room == view.room:
                return None
        return {"room": view.room, "devices": ", ".join(sorted(set(view.devices)))}

    def name_by_room(self, list_names: Callable[[RoomView], Sequence[str]]) -> Words | None:
        """Such things, as they were last seen in each room."""
        names = []
        for room, view in self.latest_views.items():
            for name in list_names(view):
                names.append(f"{name} ({room})")
        return name_newest(names)

    @property
    def focused(self) -> Words | None:
        return name_newest(words[0] for _, words in self.list_events("focus"))

    @property
    def mixtures(self) -> Words | None:
        return name_newest(words[0] for _, words in self.list_events("product"))

    @property
    def texts_read(self) -> Words | None:
        return name_newest(" ".join(words[0].split()) for _, words in self.list_events("text"))

    @property
    def things_carried(self) -> Words | None:
        return name_newest(find_task_things(self.task, self.states[-1].inventory))

    @property
    def running(self) -> Words | None:
        return self.name_by_room(lambda view: view.running)

    @property
    def closed(self) -> Words | None:
        return self.name_by_room(lambda view: view.closed)

    @property
    def rooms_seen(self) -> Words | None:
        return name_newest(self.latest_views, 2 * MOST)

    @cached_property
    def focused_on(self) -> set[str]:
        return {words[0].lower() for _, words in self.list_events("focus")}

    @property
    def unfocused_targets(self) -> Words | None:
        """The task's targets without a focus; a collective target is dropped after any focus."""
        required, _ = parse_focus_targets(self.task)
        names = []
        for target in required:
            if not self._is_focus_done(target):
                names.append(f"the {target}" if target in CLASSES else target)
        return name_newest(names)

    def _is_focus_done(self, target: str) -> bool:
        if is_open_ended(target):
            number = re.match(r"\d+", target)
            required_count = int(number[0]) if number else 1
            return len(self.focused_on) >= required_count
        if target == "substance":
            return bool(self.focused_on)
        return any(is_name_match(name, target) for name in self.focused_on)

    @property
    def verdict_targets(self) -> Words | None:
        """The alternative targets, until one of them has been focused on."""
        _, verdicts = parse_focus_targets(self.task)
        if self.focused_on & set(verdicts):
            return None
        return name_newest(verdicts)

    @property
    def things_seen(self) -> Words | None:
        """Where each thing was last seen, except the inventory."""
        places = {name: view.room for view in self.views for name in view.named}
        carried = find_task_things(self.task, self.states[-1].inventory)
        names = []
        for name, room in places.items():
            if room and name not in carried:
                names.append(f"{name} ({room})")
        return name_newest(names)

    @property
    def things_moved(self) -> Words | None:
        """The last moves of things that the task names, or into them."""
        places: dict[str, str] = {}
        for _, (what, where) in self.list_events("to", "into"):
            places.pop(what, None)
            if where == "inventory":
                continue
            if is_mentioned(self.task, what.lower()) or is_mentioned(self.task, where.lower()):
                places[what] = where
        return name_newest(f"{what} to the {where}" for what, where in places.items())

    @property
    def measurements(self) -> Words | None:
        values: dict[str, str] = {}
        for number, (degrees,) in self.list_events("degrees"):
            match = MEASURED.match(self.steps[number].action)
            if match is not None:
                name = match[1]
                values.pop(name, None)  # the newest stands last
                values[name] = degrees
        return name_newest(f"{name} {degrees} degrees celsius" for name, degrees in values.items())

    @property
    def broken(self) -> Words | None:
        names = []
        for number, words in self.list_events("broken"):
            room = self.get_view(number + 1).room
            names.append(f"{words[0]} ({room})")
        return name_newest(names)

    @property
    def rooms_unseen(self) -> Words | None:
        """Rooms behind doors that were never entered."""
        doors = [door for view in self.latest_views.values() for door in view.doors]
        unseen = [room for room in doors if room not in self.latest_views]
        return name_newest(unseen, 2 * MOST)


LESSONS = LessonTable(__package__, Episode)
