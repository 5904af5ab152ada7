"""Parses what a task text asks for, sentence by sentence, with general patterns."""

import re
from dataclasses import dataclass, field
from functools import lru_cache

from rsso_dspy.explorer.commands import extract_content_words, normalize_words
from rsso_dspy.explorer.vocabulary import CRAFTS, KINDS

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
        above = match.group(1) in ("above", "over", "greater than")
        return (reading > float(match.group(2))) == above


@dataclass(frozen=True)
class TaskGoals:
    """The goals of a task. Every part may be empty."""

    text: str
    vocabulary: frozenset[str]
    places: tuple[str, ...] = ()
    targets: tuple[FocusTarget, ...] = ()
    choices: tuple[ConditionalEnding, ...] = ()
    box: str = ""
    box_room: str = ""
    crafts: tuple[str, ...] = ()
    """Craft verbs the task contains (boil, freeze, ...)."""
    substance: str = ""
    product: str = ""
    """What is to be made by mixing."""
    growing: str = ""
    """The plant whose seeds are needed."""
    stages_of: str = ""
    measured: str = ""
    rivals: tuple[str, ...] = ()
    """Names of the things to compare."""
    tools: tuple[str, ...] = field(default=())


@lru_cache(maxsize=256)
def parse_task_goals(task: str) -> TaskGoals:
    """The goals in a task description."""
    text = " ".join(task.lower().replace("task description:", " ").split())
    substance = _find_first(
        r"\bto (?:boil|melt|freeze|cool|heat|combust|change the state of matter of) (.+?)[.,]", text
    )
    measured = _find_first(
        r"\bmeasure the (?:temperature|melting point|boiling point) of (.+?)(?:,|\.| which| is)", text
    )
    return TaskGoals(
        text=text,
        vocabulary=extract_content_words(text),
        places=_find_places(text),
        targets=tuple(_find_focus_targets(text, substance)),
        choices=tuple(_find_conditional_endings(text)),
        box=_find_delivery(text)[0],
        box_room=_find_delivery(text)[1],
        crafts=tuple(verb for verb in CRAFTS if re.search(rf"\b{verb}(?:ing)?\b", text)),
        substance=substance or measured,
        product=_find_first(r"\bto (?:use chemistry to )?(?:create|make) (?:the substance )?'?(.+?)'?[.,]", text),
        growing=_find_first(r"\bgrow (?:an? )?(.+?)(?: plant)?(?: from seed)?[.,]", text)
        or _find_first(r"\btrait in (?:the )?(.+?) plant", text),
        stages_of=_find_first(r"\blife stages? of (?:the |an? )?(.+?)(?: plant)?[.,]", text),
        measured=measured,
        rivals=tuple(
            normalize_words(part) for part in (re.findall(r"\(([^()]+, [^()]+)\)", text) or [""])[0].split(",") if part
        ),
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
        for match in _FOCUS.finditer(sentence):
            name = normalize_words(match.group(1))
            last = bool(re.search(r"when you are done|after completing|to complete the task", sentence))
            found.append(_build_focus_target(name, kind, substance, last))
    return [target for target in found if target.all_of or target.any_of]


def _build_focus_target(name: str, kind: str, substance: str, last: bool) -> FocusTarget:
    if name in ("thing", "it") and kind:
        name = kind
    if name in ("substance", "it") and substance:
        name = substance
    subject, _, _ = name.partition(" with ")
    if "life stage" in name:
        return FocusTarget(name)
    kinds = next((KINDS[word] for word in subject.split() if word in KINDS and len(subject.split()) <= 2), None)
    if kinds and subject.split()[-1] in (*KINDS, "thing"):
        return FocusTarget(
            subject, any_of=frozenset().union(*(extract_content_words(each) for each in kinds)), last=last
        )
    return FocusTarget(subject, all_of=extract_content_words(subject) - {"grown"}, last=last)


def _find_conditional_endings(text: str) -> list[ConditionalEnding]:
    found = []
    for sentence in _SENTENCES.split(text):
        if sentence.lstrip().startswith("if "):
            condition, _, rest = sentence.lstrip().partition(",")
            focus, deliver = _FOCUS.search(rest), _DELIVER.search(rest)
            if focus or deliver:
                name = focus.group(1) if focus else deliver.group(1) if deliver else ""
                found.append(ConditionalEnding(condition, normalize_words(name), deliver=focus is None))
    return found


def _find_delivery(text: str) -> tuple[str, str]:
    for sentence in _SENTENCES.split(text):
        if not sentence.lstrip().startswith("if ") and (match := _DELIVER.search(sentence)):
            return normalize_words(match.group(1)), normalize_words(match.group(2) or "")
    return "", ""
