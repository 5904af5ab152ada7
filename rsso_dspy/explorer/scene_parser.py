"""Parses the history region into a scene: where the player is, what is there, what was tried and with what effect.

The window shows its first state in full and of later ones what is new, so a scene is put together turn by turn and
starts afresh in every room. What has left the window is remembered through the notes in the last reasoning.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from rsso_dspy.explorer.commands import normalize_words
from rsso_dspy.explorer.notes import Notebook

_MARK = re.compile(r"^(Step #?\d+:|Reasoning:|Thought:|Current subgoal:|Next action:|Action:)[ \t]*", re.M | re.I)
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


@dataclass(frozen=True, slots=True)
class HistoryTurn:
    """One state and the action that followed it."""

    seen: str
    reasoning: str
    action: str


@dataclass(frozen=True, slots=True)
class VisibleThing:
    """Something visible. ``inside`` is what holds it, empty when it stands in the room."""

    name: str
    line: str
    """The whole line that names it."""
    inside: str = ""
    held: bool = False

    @property
    def closed(self) -> bool:
        return f"{self.name} door is closed" in self.line

    @property
    def off(self) -> bool:
        return re.search(re.escape(self.name) + r", which is (?:turned off|deactivated)", self.line) is not None

    @property
    def empty(self) -> bool:
        return f"{self.name} (containing nothing" in self.line


@dataclass
class Scene:
    """The present situation as the history shows it. Made for one request, then dropped."""

    turns: list[HistoryTurn]
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
        """The observation after the last action."""
        return self.turns[-1].seen if self.turns else ""

    @property
    def last_action(self) -> str:
        """The last action, empty at the start."""
        return self.done[-1] if self.done else ""

    @property
    def held(self) -> list[str]:
        return [thing.name for thing in self.things.values() if thing.held]

    def get_thing(self, name: str) -> VisibleThing | None:
        return self.things.get(name)


def build_scene(history: str) -> Scene:
    """The scene at the end of a history window."""
    turns = _split_history(history)
    reasoning = next((turn.reasoning for turn in reversed(turns) if turn.reasoning), "")
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
        _keep_carried(present, turn.seen, shown)
        present.doors += [door for name in _DOOR.findall(text) if (door := normalize_words(name)) not in present.doors]
        if index:
            present.done.append(normalize_words(turns[index - 1].action))
            if is_failure(seen):
                present.failed.add(present.done[-1])
    if "ambiguous request" in present.last_observation.lower():
        present.options = [
            (number, normalize_words(text)) for number, text in _OPTION.findall(present.last_observation)
        ]
    return present


def is_failure(seen: str) -> bool:
    """Whether the observation says that the action had no effect."""
    return _FAILED.search(seen) is not None and "ambiguous request" not in seen.lower()


def find_rooms(text: str) -> list[str]:
    """Rooms that a text shows: where the player is and the doors."""
    lowered = text.lower()
    return [normalize_words(name) for found in _ROOM.findall(lowered) for name in found if name] + [
        normalize_words(name) for name in _DOOR.findall(lowered)
    ]


def _split_history(history: str) -> list[HistoryTurn]:
    """The window cut at its labels. A state without an action is the present one."""
    pieces = _MARK.split(history)
    turns: list[HistoryTurn] = []
    seen, reasoning, action = pieces[0].strip(), "", None
    for label, body in zip(pieces[1::2], pieces[2::2], strict=True):
        kind, text = label.lower().rstrip(":"), body.strip()
        if kind.startswith("step"):
            seen = text
        elif kind in ("reasoning", "thought"):
            reasoning = text
        elif kind.endswith("action"):
            action, _, rest = text.partition("\n")
            turns.append(HistoryTurn(seen, reasoning, action.strip()))
            seen, reasoning = rest.strip(), ""
    if seen or action is None:
        turns.append(HistoryTurn(seen, "", ""))
    return turns


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


def _keep_carried(present: Scene, seen: str, shown: list[str]) -> None:
    """Where a turn lists all that is carried, nothing else is."""
    if not any(_CARRY.match(line) for line in seen.splitlines()):
        return
    carried = {
        name for line in shown if _HELD in line for name, _ in parse_contents(line.replace(_HELD, "").strip(" .,"))
    }
    for name, thing in list(present.things.items()):
        if thing.held and name not in carried:
            del present.things[name]


def _update_thing_place(present: Scene, what: str, where: str) -> None:
    found = present.things.get(what)
    line = found.line if found else what
    present.things[what] = VisibleThing(what, line, "" if where == "inventory" else where, where == "inventory")


def _add_shown_line(present: Scene, line: str) -> None:
    if _DOOR.match(line) or _ROOM.search(line) or line.startswith("you "):
        return
    held = _HELD in line
    line = line.replace(_HELD, "").strip(" .,")
    for name, inside in parse_contents(line):
        old = present.things.get(name)
        present.things[name] = VisibleThing(name, line, inside, held or bool(old and old.held and inside == ""))


@lru_cache(maxsize=4096)
def parse_contents(line: str) -> tuple[tuple[str, str], ...]:
    """(name, container) of everything named in one line, outermost first."""
    head = normalize_thing_name(_HEAD.split(line, maxsplit=1)[0])
    if not head or len(head) > 60:
        return ()
    found = [(head, "")]
    inner = _extract_contents_text(line)
    for part in _split_at_commas(inner):
        for name, inside in parse_contents(part.strip(" .")):
            if name not in ("nothing", "on", "off"):
                found.append((name, inside or head))
    return tuple(found)


def normalize_thing_name(text: str) -> str:
    """The name by which a thing is called in an action."""
    said = normalize_words(text)
    for prefix in ("substance called ", "unknown substance called "):
        said = said.removeprefix(prefix)
    if said.startswith("recipe titled"):
        return "recipe"
    return "" if said.startswith(("which is", "nothing")) else said


def _extract_contents_text(line: str) -> str:
    """The text that lists what a thing holds: after "is:", or within its own brackets."""
    if match := re.search(r"\b(?:on|in) the [a-z0-9 ]+ is: (.*)$", line):
        return match.group(1)
    if match := re.search(r"\((?:containing|contains) (.*)\)", line):
        return match.group(1)
    return ""


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
