"""Reads what a task asks for, and the turns into a scene: where the player is, what is there, what was tried and with
what effect. What has left the prompt's window is remembered through the notes in the last thought: ``Notes: searched:
kitchen, hallway; doors: workshop; seen: thermometer in kitchen; plan step: 3.``"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from rsso_dspy.offline.advice import find_words, normalize_words
from rsso_dspy.offline.prompt import Turn

_PLANTS = "tree plant"
_ANIMALS = (
    "egg baby hatchling juvenile adult bee butterfly moth ant dragonfly spider frog toad turtle tortoise snake "
    "crocodile chameleon parrot bird jay dove mouse rat rabbit hedgehog beaver wolf bear lion elephant"
)
KINDS = {"plant": find_words(_PLANTS), "animal": find_words(_ANIMALS), "living": find_words(f"{_PLANTS} {_ANIMALS}")}
STAGES = ("seed", "egg", "seedling", "baby", "hatchling", "juvenile", "adult", "reproducing")  # earliest first
_SCENERY = frozenset({"agent", "air", "ground", "painting", "picture", "drawing", "axe"})  # always there, never matters

_SENTENCES = re.compile(r"(?<!\d)\.\s*|\.\s+|\n")
_FOCUS = re.compile(r"\bfocus on (?:the |an? )?(.+?)(?:,|$)")
_LIFE = re.compile(r"\blife stages? of (?:the |an? )?(.+?)(?: plant)?[.,]")
_DELIVER = re.compile(r"\b(?:move|place|put) (?:it|them) (?:to|in|into) the (.+?)(?: in the .+?)?(?:,|$)")
_PLACES = re.compile(r"\b(?:located|(?:in|around|near|to) the) '?([a-z]+(?: room| studio)?)'?(?= location|\.|,|$)")
_FOUND = re.compile(r"\bfind (?:a\(n\)|an?) (.+?)[.,]")
_CHANGED = re.compile(r"\bto (?:boil|melt|freeze|cool|heat|combust|change the state of matter of) (.+?)[.,]")
_LAST = re.compile(r"when you are done|after completing|to complete the task")

_ROOM = re.compile(r"(?:room|location) is called (?:the )?([a-z ]+)|you (?:teleport|move) to the ([a-z ]+)\.", re.I)
_DOOR = re.compile(r"\ba door to the ([a-z ]+?)(?= ?\(|$|\.|,)", re.I)
_OPTION = re.compile(r"^(\d+):\s*(.+)$", re.M)
_TAKEN = re.compile(r"you move the (.+?) to the (.+?)\.", re.I)
_FAILED = re.compile(
    r"no known action|unknown action|not clear how|can't|cannot|already|isn't|is not|doesn't|no items|only one thing"
    r"|not able|unable|nothing happens|must be|appears to be (?:no|in)|too (?:large|heavy)|not a container",
    re.I,
)
_PARTS = re.compile(r" \((?:containing|contains) |\.? ?\b(?:on|in) the [^:,(]+ is: |[,()]|\. ")
_NO_PART_OF_NAME = re.compile(r"^(?:unknown )?substance called | titled .*")
_NO_THING = re.compile(r"^(?:which|that|currently|with|nothing|titled)\b| door is ")
_ENTRY = ("\t", " ", "- ")  # beginnings of lines that list things
_HELD = " in your inventory"
_NOTES = "Notes: "
_KINDS = ("searched", "doors", "seen", "focused", "did", "failed", "plan step")
_LONGEST = 14  # maximum entries of each kind of notes


@dataclass(frozen=True, slots=True)
class Target:
    """Something to focus on: all of the words must be in its name, or one of them."""

    name: str
    words: frozenset[str]
    any_of: bool = False
    last: bool = False  # whether it comes only after everything else

    def is_matched_by(self, name: str) -> bool:
        """Whether a thing of this name is meant. The last word of its name must be asked for (a seed jar is no seed),
        unless it is a label ("inclined plane b")."""
        words = find_words(name)
        if self.any_of:
            return bool(self.words & words)

        subject = name.partition(" with ")[0].partition(" in ")[0]
        head = subject.rpartition(" ")[2]
        is_label = len(head) == 1
        return self.words <= words and (is_label or find_words(head) <= self.words)


class Goals(NamedTuple):  # of a task; no places of particular things and no solutions are known
    words: frozenset[str]
    places: tuple[str, ...]
    targets: tuple[Target, ...]
    endings: tuple[tuple[str, str], ...]  # verb and thing of what may end the task: focus on a box, or move to it
    stages_of: frozenset[str]  # the words of a living thing whose stages are to be focused on, in their order
    compares: bool  # whether the target is told from others of its kind, so that a look around is worth while


@lru_cache(maxsize=256)
def parse_goals(task: str) -> Goals:
    """The goals of a task, read sentence by sentence."""
    text = " ".join(task.lower().split())
    kind = _find_first(_FOUND, text)
    changed = _find_first(_CHANGED, text)
    life = _find_first(_LIFE, text)

    targets = []
    endings = []
    for sentence in _SENTENCES.split(text):
        is_condition = sentence.lstrip().startswith("if ")
        is_last = _LAST.search(sentence) is not None
        for name in map(normalize_words, _FOCUS.findall(sentence)):
            if is_condition:
                endings.append(("focus", name))
            elif "life stage" not in name:
                meant = _resolve_name(name, kind, changed)
                targets.append(_make_target(meant, is_last))
        for name in map(normalize_words, _DELIVER.findall(sentence)):
            endings.append(("move", name))

    places = map(normalize_words, _PLACES.findall(text))
    has_kind = any(target.any_of for target in targets)
    return Goals(
        words=find_words(text),
        places=tuple(dict.fromkeys(places)),
        targets=tuple(target for target in targets if target.words),
        endings=tuple(dict.fromkeys(endings)),
        stages_of=find_words(life),
        compares="with the" in text and has_kind,
    )


def _find_first(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


def _resolve_name(name: str, kind: str, changed: str) -> str:
    """What a name stands for: "it" and the like for what the task says to find or to change."""
    if name == "thing":
        return kind or name
    if name == "substance":
        return changed or name
    if name == "it":
        return kind or changed or name
    return name


def _make_target(name: str, last: bool) -> Target:
    subject = name.partition(" with ")[0]
    words = subject.split() or [""]
    kind = _find_kind(words)
    if kind and words[-1] in (*KINDS, "thing"):
        return Target(subject, kind, any_of=True, last=last)
    return Target(subject, find_words(subject) - {"grown"}, last=last)


def _find_kind(words: Sequence[str]) -> frozenset[str] | None:
    """The words of a kind that a name of one or two words says, sooner by its last word than by its first."""
    if len(words) > 2:
        return None
    for word in reversed(words):
        if word in KINDS:
            return KINDS[word]
    return None


Notes = dict[str, list[str]]  # what is worth remembering, by kind; entries of `seen` are a thing and its room


class Thing(NamedTuple):
    name: str
    held: bool = False
    closed: bool = False


@dataclass
class Scene:
    turns: Sequence[Turn]
    notes: Notes
    room: str = ""
    things: dict[str, Thing] = field(default_factory=dict)
    doors: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)  # number to text, where the world asks which one was meant
    failed: set[str] = field(default_factory=set)  # actions in sight that had no effect
    done: list[str] = field(default_factory=list)  # actions in sight, oldest first

    @property
    def last_action(self) -> str:
        return self.done[-1] if self.done else ""


def read_notes(thought: str) -> Notes:
    notes: Notes = {kind: [] for kind in _KINDS}
    text = thought.partition(_NOTES)[2].split("\n", 1)[0]
    for part in text.rstrip(". ").split("; "):
        kind, _, entries = part.partition(": ")
        if kind in notes:
            notes[kind] = entries.split(", ")
    return notes


def write_notes(notes: Notes) -> str:
    parts = []
    for kind, entries in notes.items():
        if entries:
            newest = entries[-_LONGEST:]
            parts.append(f"{kind}: {', '.join(newest)}")
    return f"{_NOTES}{'; '.join(parts)}." if parts else ""


def build_scene(turns: Sequence[Turn]) -> Scene:
    """The scene at the end of these steps."""
    thoughts = [turn.thought for turn in turns if turn.thought]
    notes = read_notes(thoughts[-1] if thoughts else "")
    scene = Scene(turns, notes)

    for index, turn in enumerate(turns):
        lines = turn.seen.splitlines()
        answer = "\n".join(line for line in lines if not line.startswith(_ENTRY))
        _enter_room(scene, turn.seen)
        _take_things(scene, answer)
        _add_listed_things(scene, lines)
        _add_doors(scene, turn.seen)

        if index:
            action = normalize_words(turns[index - 1].action)
            scene.done.append(action)
            if is_failure(answer):
                scene.failed.add(action)

    scene.options = find_options(turns[-1].seen)
    return scene


def _enter_room(scene: Scene, seen: str) -> None:
    """Note the room of an observation. What was in another room, and is not carried, is left there."""
    rooms = _find_entered_rooms(seen)
    if rooms and rooms[-1] != scene.room:
        scene.room = rooms[-1]
        scene.doors = []
        scene.things = {name: thing for name, thing in scene.things.items() if thing.held}


def _take_things(scene: Scene, answer: str) -> None:
    for thing, place in _TAKEN.findall(answer):
        name = normalize_words(thing)
        scene.things[name] = Thing(name, held=place == "inventory")


def _add_listed_things(scene: Scene, lines: Sequence[str]) -> None:
    for line in lines:
        if line.lower().startswith("you carry:"):
            carried = line.partition(":")[2].rstrip(".")
            for part in carried.split(";"):
                _add_things(scene, part.strip().lower() + _HELD)
        elif line.startswith(_ENTRY):
            _add_things(scene, line.strip("- \t").lower())


def _add_doors(scene: Scene, seen: str) -> None:
    scene.doors += [door for door in _find_doors(seen) if door not in scene.doors]


def is_failure(seen: str) -> bool:
    """Whether the observation says that the action had no effect."""
    return _FAILED.search(seen) is not None and "ambiguous request" not in seen.lower()


def find_options(question: str) -> dict[str, str]:
    """Number to text of the actions among which the world asks to choose."""
    return {number: normalize_words(text) for number, text in _OPTION.findall(question)}


def find_rooms(text: str) -> list[str]:
    """Rooms that a text shows: where the player is and the doors."""
    return [*_find_entered_rooms(text), *_find_doors(text)]


def _find_entered_rooms(text: str) -> list[str]:
    return [normalize_words(called or reached) for called, reached in _ROOM.findall(text)]


def _find_doors(text: str) -> list[str]:
    return [normalize_words(room) for room in _DOOR.findall(text)]


def _add_things(scene: Scene, line: str) -> None:
    if _DOOR.match(line) or _ROOM.search(line) or line.startswith("you "):
        return
    for name in find_names(line.replace(_HELD, "")):
        if find_words(name) & _SCENERY:
            continue
        was_held = name in scene.things and scene.things[name].held
        scene.things[name] = Thing(
            name,
            held=was_held or _HELD in line,
            closed=f"{name} door is closed" in line,
        )


@lru_cache(maxsize=4096)
def find_names(line: str) -> tuple[str, ...]:
    """Everything named in one line, by the name that an action takes."""
    names = []
    for part in _PARTS.split(line):
        thing = part.strip(" .")
        if _NO_THING.search(thing):
            continue
        name = _NO_PART_OF_NAME.sub("", normalize_words(thing))
        if 0 < len(name) <= 60:
            names.append(name)
    return tuple(dict.fromkeys(names))
