"""Reads the history region into a scene: where the player is, what is there, what was tried and with what effect.

The window shows its first state in full and of later ones what is new, so a scene is put together turn by turn and
starts afresh in every room. What has left the window is remembered through the notes in the last reasoning:
``Notes: searched: kitchen, hallway; doors: workshop; seen: thermometer in kitchen; plan step: 3.``
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rsso_dspy.offline.commands import normalize_words
from rsso_dspy.offline.prompt import Turn

_ROOM = re.compile(r"(?:room|location) is called (?:the )?([a-z ]+)|you (?:teleport|move) to the ([a-z ]+)\.", re.I)
_DOOR = re.compile(r"\ba door to the ([a-z ]+?)(?= ?\(|$|\.|,)")
_OPTION = re.compile(r"^(\d+):\s*(.+)$", re.M)
_TAKEN = re.compile(r"you move the (.+?) to the (.+?)\.")
_HEAD = re.compile(r" \(|\.|, (?:which|currently|with)\b|:")
_FAILED = re.compile(
    r"no known action|unknown action|not clear how|can't|cannot|already|isn't|is not|doesn't|no items|only one thing"
    r"|not able|unable|nothing happens|must be|appears to be (?:no|in)|too (?:large|heavy)|not a container",
    re.I,
)
_HELD = " in your inventory"
_CARRY = re.compile(r"^you carry(?::| nothing)", re.I)
"""Begins a line that lists everything carried, separated by semicolons."""
_NOTES = "Notes: "
_LISTS = ("searched", "doors", "focused", "did", "failed")
_LONGEST = 14
"""Maximum entries of each list of the notes."""


@dataclass
class Notebook:
    """Things worth remembering. Lists are in the order of discovery."""

    searched: list[str] = field(default_factory=list)
    """Rooms that were entered."""
    doors: list[str] = field(default_factory=list)
    """Rooms known but not entered."""
    seen: dict[str, str] = field(default_factory=dict)
    """Thing that matters, to the room where it was seen."""
    focused: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    """Actions other than travel that had an effect and should not be repeated."""
    failed: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    """Readings and the like: name to value."""
    plan: int = 0
    """Number of steps taken of the plan from an earlier attempt."""

    @classmethod
    def parse(cls, reasoning: str) -> "Notebook":
        """The notes in a reasoning; empty ones when there are none."""
        notes = cls()
        text = reasoning.rpartition(_NOTES)[2] if _NOTES in reasoning else ""
        for part in text.split("\n", 1)[0].rstrip(". ").split("; "):
            kind, _, rest = part.partition(": ")
            values = [value for value in rest.split(", ") if value]
            if kind in _LISTS:
                setattr(notes, kind, values)
            elif kind == "seen":
                notes.seen = dict(value.rsplit(" in ", 1) for value in values if " in " in value)
            elif kind == "facts":
                notes.facts = dict(value.split(" = ", 1) for value in values if " = " in value)
            elif kind == "plan step" and rest.isdigit():
                notes.plan = int(rest)
        return notes

    def to_sentence(self) -> str:
        """One sentence, empty parts left out, each part bounded."""
        parts = [f"{kind}: {', '.join(values)}" for kind in _LISTS if (values := getattr(self, kind)[-_LONGEST:])]
        if self.seen:
            parts.append("seen: " + ", ".join(f"{name} in {room}" for name, room in [*self.seen.items()][-_LONGEST:]))
        if self.facts:
            parts.append("facts: " + ", ".join(f"{name} = {value}" for name, value in self.facts.items()))
        if self.plan:
            parts.append(f"plan step: {self.plan}")
        return f"{_NOTES}{'; '.join(parts)}." if parts else ""


@dataclass(frozen=True, slots=True)
class VisibleThing:
    """Something visible. ``inside`` is what holds it, empty when it stands in the room; ``line`` the line that names
    it."""

    name: str
    line: str
    inside: str = ""
    held: bool = False

    @property
    def closed(self) -> bool:
        return f"{self.name} door is closed" in self.line

    @property
    def off(self) -> bool:
        return re.search(re.escape(self.name) + r", which is (?:turned off|deactivated)", self.line) is not None


@dataclass
class Scene:
    """The present situation as the history shows it. Made for one request, then dropped."""

    turns: Sequence[Turn]
    notes: Notebook
    room: str = ""
    things: dict[str, VisibleThing] = field(default_factory=dict)
    doors: list[str] = field(default_factory=list)
    options: list[tuple[str, str]] = field(default_factory=list)
    """Number and text, when the world asks which of several actions was meant."""
    failed: set[str] = field(default_factory=set)
    """Actions of the window that had no effect."""
    done: list[str] = field(default_factory=list)
    """Actions of the window, oldest first."""

    @property
    def last_observation(self) -> str:
        return self.turns[-1].seen if self.turns else ""

    @property
    def last_action(self) -> str:
        """The last action, empty at the start."""
        return self.done[-1] if self.done else ""

    @property
    def held(self) -> list[str]:
        return [thing.name for thing in self.things.values() if thing.held]


def build_scene(turns: Sequence[Turn]) -> Scene:
    """The scene at the end of these steps."""
    reasoning = next((turn.thought for turn in reversed(turns) if turn.thought), "")
    present = Scene(turns, Notebook.parse(reasoning))
    for index, turn in enumerate(turns):
        seen, shown = _split_observation(turn.seen)
        text = turn.seen.lower()
        if rooms := [a or b for a, b in _ROOM.findall(text)]:
            _enter_room(present, normalize_words(rooms[-1]))
        for what, where in _TAKEN.findall(seen.lower()):
            _update_thing_place(present, normalize_words(what), normalize_words(where))
        for line in shown:
            _add_shown_line(present, line)
        if any(_CARRY.match(line) for line in turn.seen.splitlines()):
            _drop_not_carried(present, shown)
        present.doors += [door for name in _DOOR.findall(text) if (door := normalize_words(name)) not in present.doors]
        if index:
            present.done.append(normalize_words(turns[index - 1].action))
            if is_failure(seen):
                present.failed.add(present.done[-1])
    if "ambiguous request" in present.last_observation.lower():
        present.options = list(find_options(present.last_observation).items())
    return present


def is_failure(seen: str) -> bool:
    """Whether the observation says that the action had no effect."""
    return _FAILED.search(seen) is not None and "ambiguous request" not in seen.lower()


def find_options(question: str) -> dict[str, str]:
    """Number to text of the actions among which the world asks to choose."""
    return {number: normalize_words(text) for number, text in _OPTION.findall(question)}


def find_rooms(text: str) -> list[str]:
    """Rooms that a text shows: where the player is and the doors."""
    lowered = text.lower()
    return [normalize_words(name) for found in _ROOM.findall(lowered) for name in found if name] + [
        normalize_words(name) for name in _DOOR.findall(lowered)
    ]


def _split_observation(text: str) -> tuple[str, list[str]]:
    """The sentence that answers an action, and the lines that show things."""
    answer, shown = [], []
    listing = False
    for line in text.splitlines():
        lowered = line.strip().lower().rstrip(",")
        if not lowered or lowered.startswith("you also see:"):
            continue
        if lowered.startswith(("you also observe", "in your inventory, you see")):
            listing = True
        elif _CARRY.match(lowered):
            things = lowered.partition(":")[2].rstrip(".").split(";")
            shown += [f"{thing.strip()}{_HELD}" for thing in things if thing.strip()]
        elif listing or line.startswith(("\t", " ", "- ")):
            shown.append(lowered.lstrip("- "))
        else:
            answer.append(line)
    return "\n".join(answer), shown


def _enter_room(present: Scene, room: str) -> None:
    if room and room != present.room:
        present.room = room
        present.doors = []
        # A thing that looked the same in the room before is not shown again, so fixtures may still be here; but to
        # believe that costs more failed actions than it saves.
        present.things = {name: thing for name, thing in present.things.items() if thing.held}


def _drop_not_carried(present: Scene, shown: list[str]) -> None:
    """Where a turn lists all that is carried, nothing else is."""
    listed = [line.replace(_HELD, "").strip(" .,") for line in shown if _HELD in line]
    carried = {name for line in listed for name, _ in _parse_contents(line)}
    present.things = {
        name: thing for name, thing in present.things.items() if not thing.held or name in carried
    }  # fmt: skip


def _update_thing_place(present: Scene, what: str, where: str) -> None:
    line = present.things[what].line if what in present.things else what
    present.things[what] = VisibleThing(what, line, "" if where == "inventory" else where, where == "inventory")


def _add_shown_line(present: Scene, line: str) -> None:
    if _DOOR.match(line) or _ROOM.search(line) or line.startswith("you "):
        return
    held = _HELD in line
    line = line.replace(_HELD, "").strip(" .,")
    for name, inside in _parse_contents(line):
        old = present.things.get(name)
        present.things[name] = VisibleThing(name, line, inside, held or bool(old and old.held and inside == ""))


@lru_cache(maxsize=4096)
def _parse_contents(line: str) -> tuple[tuple[str, str], ...]:
    """(name, container) of everything named in one line, outermost first."""
    head = _read_thing_name(_HEAD.split(line, maxsplit=1)[0])
    if not head or len(head) > 60:
        return ()
    found = [(head, "")]
    inner = re.search(r"\b(?:on|in) the [a-z0-9 ]+ is: (.*)$", line) or re.search(
        r"\((?:containing|contains) (.*)\)", line
    )
    for part in _split_at_commas(inner[1] if inner else ""):
        for name, inside in _parse_contents(part.strip(" .")):
            if name not in ("nothing", "on", "off"):
                found.append((name, inside or head))
    return tuple(found)


def _read_thing_name(text: str) -> str:
    """The name by which a thing is called in an action."""
    name = normalize_words(text)
    for prefix in ("substance called ", "unknown substance called "):
        name = name.removeprefix(prefix)
    if name.startswith("recipe titled"):
        return "recipe"
    return "" if name.startswith(("which is", "nothing")) else name


def _split_at_commas(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]
