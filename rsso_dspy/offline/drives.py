"""What a task asks for, and what a sane player of text games would do next: one function per drive, each yields
proposals with a weight.

All weights are on one scale: 1 passes the time, 3 explores, 6 does what the task says, 9 answers the world's question.
Goals are read sentence by sentence with general patterns; no places of particular things and no solutions are known.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from rsso_dspy.offline.commands import normalize_words
from rsso_dspy.offline.grammar import extract_content_words
from rsso_dspy.offline.scene import Scene, VisibleThing

KINDS: dict[str, tuple[str, ...]] = {
    "plant": ("tree", "plant"),
    "animal": (
        *("egg", "baby", "hatchling", "juvenile", "adult", "bee", "butterfly", "moth", "ant", "dragonfly", "spider"),
        *("frog", "toad", "turtle", "tortoise", "snake", "crocodile", "chameleon", "parrot", "bird", "jay", "dove"),
        *("mouse", "rat", "rabbit", "hedgehog", "beaver", "wolf", "bear", "lion", "elephant"),
    ),
}
KINDS["living"] = KINDS["plant"] + KINDS["animal"]
"""Kind that a task asks for, to words that name things of that kind."""

STAGES = ("seed", "egg", "seedling", "baby", "hatchling", "juvenile", "adult", "reproducing")
"""Stages of a life, earliest first."""

SCENERY = frozenset({"agent", "air", "ground", "painting", "picture", "drawing", "axe"})
"""Things that are always there and never matter."""

_SENTENCES = re.compile(r"(?<!\d)\.\s*|\.\s+|\n")
_FOCUS = re.compile(r"\bfocus on (?:the |an? )?(.+?)(?:,|$)")
_DELIVER = re.compile(r"\b(?:move|place|put) (?:it|them) (?:to|in|into) the (.+?)(?: in the (.+?))?(?:,|$)")
_PLACES = re.compile(r"\b(?:in|around|near|to) the '?([a-z]+(?: room| studio)?)'?(?= location|\.|,|$)")
_OUTSIDE = re.compile(r"\blocated (outside|inside)\b")
_LIMIT = re.compile(r"\b(above|below|over|under|greater than|less than) (-?\d+(?:\.\d+)?)")


@dataclass(frozen=True, slots=True)
class FocusTarget:
    """Something to focus on. `any_of` are words one of which must be in its name, `all_of` words that all must."""

    name: str
    all_of: frozenset[str] = frozenset()
    any_of: frozenset[str] = frozenset()
    last: bool = False
    """Whether it comes only after everything else."""

    def is_matched_by(self, name: str) -> bool:
        """Whether a thing of this name is meant. The last word of the name must be asked for (a seed jar is no seed),
        unless it is a mere label ("inclined plane B")."""
        found = extract_content_words(name)
        if self.any_of:
            return bool(self.any_of & found)
        head = re.split(r" (?:with|in) ", name)[0].split()[-1:]
        asked = not head or len(head[0]) < 2 or extract_content_words(head[0]) <= self.all_of
        return bool(self.all_of) and self.all_of <= found and asked


@dataclass(frozen=True, slots=True)
class ConditionalEnding:
    """One of several conditional endings: "if ... above 50 ..., focus on the red box"."""

    condition: str
    container: str
    deliver: bool
    """Whether the thing must be put in it, instead of focusing on it."""

    def is_met_by(self, reading: float) -> bool | None:
        """Whether a reading meets the condition; None when it is not about a number."""
        if not (match := _LIMIT.search(self.condition)):
            return None
        return (reading > float(match[2])) == (match[1] in ("above", "over", "greater than"))


@dataclass(frozen=True)
class TaskGoals:
    """The goals of a task. Every part may be empty."""

    text: str
    vocabulary: frozenset[str]
    places: tuple[str, ...]
    targets: tuple[FocusTarget, ...]
    choices: tuple[ConditionalEnding, ...]
    box: str
    box_room: str
    stages_of: str
    measured: str
    rivals: tuple[str, ...]
    """Names of the things to compare."""
    tools: tuple[str, ...]


@lru_cache(maxsize=256)
def parse_task_goals(task: str) -> TaskGoals:
    """The goals in a task description."""
    text = " ".join(task.lower().replace("task description:", " ").split())
    change = r"\bto (?:boil|melt|freeze|cool|heat|combust|change the state of matter of) (.+?)[.,]"
    measure = r"\bmeasure the (?:temperature|melting point|boiling point) of (.+?)(?:,|\.| which| is)"
    measured = _find_first(measure, text)
    box, box_room = _find_delivery(text)
    rivals = (re.findall(r"\(([^()]+, [^()]+)\)", text) or [""])[0].split(",")
    return TaskGoals(
        text=text,
        vocabulary=extract_content_words(text),
        places=_find_places(text),
        targets=tuple(_find_focus_targets(text, _find_first(change, text))),
        choices=tuple(_find_conditional_endings(text)),
        box=box,
        box_room=box_room,
        stages_of=_find_first(r"\blife stages? of (?:the |an? )?(.+?)(?: plant)?[.,]", text),
        measured=measured,
        rivals=tuple(normalize_words(part) for part in rivals if part),
        tools=("thermometer",) if measured or "temperature" in text else (),
    )


def _find_first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return normalize_words(match.group(1)) if match else ""


def _find_places(text: str) -> tuple[str, ...]:
    found = [normalize_words(name) for name in (*_PLACES.findall(text), *_OUTSIDE.findall(text))]
    return tuple(dict.fromkeys(name for name in found if name not in ("substance", "environment", "thing", "task")))


def _find_focus_targets(text: str, substance: str) -> list[FocusTarget]:
    """Unconditional things to focus on, in the order in which they are asked for."""
    found = []
    kind = _find_first(r"\bfind (?:a\(n\)|an?) (.+?)[.,]", text)
    for sentence in _SENTENCES.split(text):
        if sentence.lstrip().startswith("if "):
            continue
        last = bool(re.search(r"when you are done|after completing|to complete the task", sentence))
        for match in _FOCUS.finditer(sentence):
            found.append(_build_focus_target(normalize_words(match.group(1)), kind, substance, last))
    return [target for target in found if target.all_of or target.any_of]


def _build_focus_target(name: str, kind: str, substance: str, last: bool) -> FocusTarget:
    if name in ("thing", "it") and kind:
        name = kind
    if name in ("substance", "it") and substance:
        name = substance
    subject, _, _ = name.partition(" with ")
    if "life stage" in name:
        return FocusTarget(name)
    words = subject.split()
    kinds = next((KINDS[word] for word in words if word in KINDS and len(words) <= 2), None)
    if kinds and words[-1] in (*KINDS, "thing"):
        return FocusTarget(subject, any_of=frozenset().union(*map(extract_content_words, kinds)), last=last)
    return FocusTarget(subject, all_of=extract_content_words(subject) - {"grown"}, last=last)


def _find_conditional_endings(text: str) -> list[ConditionalEnding]:
    found = []
    for sentence in _SENTENCES.split(text):
        if sentence.lstrip().startswith("if "):
            condition, _, rest = sentence.lstrip().partition(",")
            focus = _FOCUS.search(rest)
            if end := focus or _DELIVER.search(rest):
                found.append(ConditionalEnding(condition, normalize_words(end[1]), deliver=focus is None))
    return found


def _find_delivery(text: str) -> tuple[str, str]:
    """The box that something has to be moved to, and its room."""
    for sentence in _SENTENCES.split(text):
        if not sentence.lstrip().startswith("if ") and (match := _DELIVER.search(sentence)):
            return normalize_words(match[1]), normalize_words(match[2] or "")
    return "", ""


@dataclass(frozen=True, slots=True)
class ActionProposal:
    action: str
    weight: float
    why: str


_OPEN, _NAMED, _UNSEEN = 4.6, 5.6, 5.2
"""Weights of curiosity, high so that much of a first attempt goes into looking around."""

Drive = Callable[[Scene, TaskGoals], Iterator[ActionProposal]]


def answer_question(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Answer which of several actions was meant: prefer one that the task mentions, else the first."""
    for index, (number, text) in enumerate(scene.options):
        weight = 90 + 0.1 * len(extract_content_words(text) & goals.vocabulary) - 0.05 * index
        if goals.stages_of:
            weight -= 5 * _rank_option_stage(scene, text)
        yield ActionProposal(number, weight, f"the world asks which one is meant, and I mean {text}")


def focus_next_target(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Focus on what the task names, in its order; on an ending only when nothing else is left."""
    done = scene.notes.focused
    target = next((each for each in goals.targets if not any(map(each.is_matched_by, done))), None)
    if target is None:
        return
    for thing in scene.things.values():
        if target.is_matched_by(thing.name) and not extract_content_words(thing.name) & SCENERY:
            weight = 0.3 if target.last else 4.0 if "with the" in goals.text and target.any_of else 6.0
            yield ActionProposal(f"focus on {thing.name}", weight, f"the task says to focus on {target.name}")


def focus_life_stages(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Focus on the stages of one life, earliest first; if the next is not there yet, wait where the last one was."""
    if not goals.stages_of:
        return
    species = extract_content_words(goals.stages_of)
    named = [thing for thing in scene.things.values() if species <= extract_content_words(thing.name)]
    living = [thing for thing in named if "dead" not in extract_content_words(thing.name) and not thing.held]
    ahead = [thing for thing in living if thing.name not in scene.notes.focused]
    for rank, thing in enumerate(sorted(ahead, key=lambda each: (_rank_thing_stage(each), each.name))[:2]):
        yield ActionProposal(
            f"focus on {thing.name}", 6.0 - 2 * rank, "it is the earliest stage of life not focused on yet"
        )
    if scene.notes.focused and not ahead:
        if living:
            yield ActionProposal("wait", 4.5, "the next stage of life has to come yet")
        for name, room in scene.notes.seen.items():
            if species <= extract_content_words(name) and room != scene.room:
                yield ActionProposal(f"teleport to {room}", 4.0, f"the {goals.stages_of} is in the {room}")


def pick_up_needed(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Pick up tools and things that must be carried."""
    wanted: list[tuple[frozenset[str], float]] = [(extract_content_words(tool), 6.5) for tool in goals.tools]
    if goals.box and scene.notes.focused:
        wanted += [(extract_content_words(name), 6.0) for name in scene.notes.focused[-1:]]
    for thing in scene.things.values():
        for need, weight in wanted:
            if need <= extract_content_words(thing.name) and not thing.held and not _is_delivered(goals, thing):
                yield ActionProposal(f"pick up {thing.name}", weight, f"the {thing.name} will be needed")


def deliver_to_box(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Bring what was focused on to the box."""
    if not goals.box or not scene.notes.focused:
        return
    subject = scene.notes.focused[-1]
    thing = scene.things.get(subject)
    if thing and _is_delivered(goals, thing):
        yield ActionProposal("wait", 1.0, "it lies where it belongs")
    elif goals.box in scene.things and thing:
        yield ActionProposal(f"move {subject} to {goals.box}", 8.0, f"the task says to move it to the {goals.box}")
    elif thing and thing.held and goals.box_room and scene.room != goals.box_room:
        yield ActionProposal(f"teleport to {goals.box_room}", 7.0, f"the {goals.box} is in the {goals.box_room}")


def measure_temperature(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Use the thermometer on what is to be measured."""
    if not goals.measured or "thermometer" not in scene.held or "reading" in scene.notes.facts:
        return
    for thing in _find_named_things(scene, goals.measured):
        yield ActionProposal(f"use thermometer on {thing.name}", 5.5, f"the task says to measure the {thing.name}")


def choose_conditional_ending(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Choose between conditional endings: by the reading if there is one, else late and by chance."""
    if not _is_every_target_done(scene, goals):
        return
    reading = scene.notes.facts.get("reading")
    for choice in goals.choices:
        if choice.container not in scene.things:
            continue
        verdict = choice.is_met_by(float(reading)) if reading else None
        weight = 7.0 if verdict else 0.3 if verdict is None else -9.0
        why = f"the reading of {reading} degrees decides it" if verdict else "nothing more can be found out, so I guess"
        if not choice.deliver:
            yield ActionProposal(f"focus on {choice.container}", weight, why)
        else:
            for thing in _find_named_things(scene, goals.measured):
                if thing.inside != choice.container:
                    yield ActionProposal(f"move {thing.name} to {choice.container}", weight, why)


def search_rooms(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Open what is closed; go where the task points, then where nobody has looked yet."""
    for thing in scene.things.values():
        if thing.closed and not thing.held:
            yield ActionProposal(f"open {thing.name}", _OPEN, f"the {thing.name} is closed")
    for room in dict.fromkeys([*goals.places, *scene.doors, *scene.notes.doors, *scene.notes.searched]):
        wanted = [
            name for name, where in scene.notes.seen.items() if where == room and _is_still_wanted(name, scene, goals)
        ]
        if room == scene.room:
            continue
        if wanted:
            yield ActionProposal(f"teleport to {room}", 4.0, f"I saw {wanted[0]} in the {room}")
        elif room not in scene.notes.searched:
            weight = _NAMED if room in goals.places else _UNSEEN
            yield ActionProposal(f"teleport to {room}", weight, f"I have not been in the {room} yet")
        elif room in scene.doors:
            yield ActionProposal(f"teleport to {room}", 0.6, f"something may have been missed in the {room}")


def pass_time(scene: Scene, goals: TaskGoals) -> Iterator[ActionProposal]:
    """Wait, for when nothing else is proposed."""
    yield ActionProposal("wait", 0.5, "nothing else offers itself")
    for name in list(scene.things)[:12]:
        if not extract_content_words(name) & SCENERY and extract_content_words(name) & goals.vocabulary:
            yield ActionProposal(f"look in {name}", 0.7, f"the {name} may hold something")
            yield ActionProposal(f"pick up {name}", 0.9, f"the task mentions {name}")


DRIVES: tuple[Drive, ...] = (
    answer_question,
    focus_next_target,
    focus_life_stages,
    pick_up_needed,
    deliver_to_box,
    measure_temperature,
    choose_conditional_ending,
    search_rooms,
    pass_time,
)


def is_noteworthy(name: str, goals: TaskGoals) -> bool:
    """Whether a thing is worth a note."""
    found = extract_content_words(name)
    return bool(found & goals.vocabulary) and not found & SCENERY


def _is_still_wanted(name: str, scene: Scene, goals: TaskGoals) -> bool:
    """A noted thing that is still to be dealt with."""
    pending = [target for target in goals.targets if not any(map(target.is_matched_by, scene.notes.focused))]
    if any(target.is_matched_by(name) and not target.last for target in pending):
        return True
    if any(extract_content_words(tool) <= extract_content_words(name) for tool in goals.tools):
        return name not in scene.held
    return _is_every_target_done(scene, goals) and any(choice.container == name for choice in goals.choices)


def _is_every_target_done(scene: Scene, goals: TaskGoals) -> bool:
    return all(target.last or any(map(target.is_matched_by, scene.notes.focused)) for target in goals.targets)


def _find_named_things(scene: Scene, name: str) -> list[VisibleThing]:
    wanted = extract_content_words(name)
    return [
        thing
        for thing in scene.things.values()
        if thing.name == name or (wanted and wanted <= extract_content_words(thing.name))
    ]


def _is_delivered(goals: TaskGoals, thing: VisibleThing) -> bool:
    return bool(goals.box) and thing.inside == goals.box


def _rank_thing_stage(thing: VisibleThing) -> int:
    """Rank of the stage of life that a thing is named with; a kind without a stage counts as grown."""
    near = re.search(rf"\b{re.escape(thing.name)} in the (\w+) stage", thing.line)
    words = (near.group(1) if near else "") or thing.name
    return next((rank for rank, stage in enumerate(STAGES) if stage in words.split()), STAGES.index("adult"))


def _rank_option_stage(scene: Scene, option: str) -> int:
    """Rank of the stage of life that an option of the world's question refers to, by the pot it names."""
    for name, thing in scene.things.items():
        if "pot" in name and not thing.inside and f"in {name}" in option:
            return next((rank for rank, stage in enumerate(STAGES) if f"{stage} stage" in thing.line), len(STAGES))
    return 0
