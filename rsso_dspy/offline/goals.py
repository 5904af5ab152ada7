"""What a task asks for: read sentence by sentence with general patterns. No places of particular things and no
solutions are known."""

import re
from dataclasses import dataclass
from functools import lru_cache

from rsso_dspy.environments.scienceworld.actions import normalize_words
from rsso_dspy.offline.advice import find_words

_PLANTS = "tree plant"
_ANIMALS = (
    "egg baby hatchling juvenile adult bee butterfly moth ant dragonfly spider frog toad turtle tortoise snake "
    "crocodile chameleon parrot bird jay dove mouse rat rabbit hedgehog beaver wolf bear lion elephant"
)
KINDS = {"plant": find_words(_PLANTS), "animal": find_words(_ANIMALS), "living": find_words(f"{_PLANTS} {_ANIMALS}")}
"""Kind that a task asks for, to words that name things of that kind."""
SCENERY = frozenset({"agent", "air", "ground", "painting", "picture", "drawing", "axe"})
"""Things that are always there and never matter."""

_SENTENCES = re.compile(r"(?<!\d)\.\s*|\.\s+|\n")
_FOCUS = re.compile(r"\bfocus on (?:the |an? )?(?:life stages? of (?:the |an? )?)?(.+?)(?:,|$)")
_DELIVER = re.compile(r"\b(?:move|place|put) (?:it|them) (?:to|in|into) the (.+?)(?: in the .+?)?(?:,|$)")
_PLACES = re.compile(r"\b(?:located|(?:in|around|near|to) the) '?([a-z]+(?: room| studio)?)'?(?= location|\.|,|$)")
_FOUND = re.compile(r"\bfind (?:a\(n\)|an?) (.+?)[.,]")
_CHANGED = re.compile(r"\bto (?:boil|melt|freeze|cool|heat|combust|change the state of matter of) (.+?)[.,]")
_LAST = re.compile(r"when you are done|after completing|to complete the task")


@dataclass(frozen=True, slots=True)
class Target:
    """Something to focus on: all of the words must be in its name, or one of them."""

    name: str
    words: frozenset[str]
    any_of: bool = False
    last: bool = False
    """Whether it comes only after everything else."""

    def is_matched_by(self, name: str) -> bool:
        found = find_words(name)
        return bool(self.words & found) if self.any_of else self.words <= found


@dataclass(frozen=True)
class Goals:
    """The goals of a task. Every part may be empty."""

    words: frozenset[str]
    places: tuple[str, ...]
    targets: tuple[Target, ...]
    endings: tuple[tuple[str, str], ...]
    """Verb and thing of what ends the task: focus on a box, or move what was focused on to it. One of several is
    right."""
    compares: bool
    """Whether the target is told from others of its kind, so that a look around is worth while."""


@lru_cache(maxsize=256)
def parse_goals(task: str) -> Goals:
    text = " ".join(task.lower().split())
    kind, changed = (match[1] if (match := each.search(text)) else "" for each in (_FOUND, _CHANGED))
    targets, endings = [], []
    for sentence in _SENTENCES.split(text):
        conditional = sentence.lstrip().startswith("if ")
        for name in map(normalize_words, _FOCUS.findall(sentence)):
            if conditional:
                endings.append(("focus", name))
            else:
                meant = {"thing": kind or name, "substance": changed or name, "it": kind or changed or name}
                targets.append(_make_target(meant.get(name, name), _LAST.search(sentence) is not None))
        endings += [("move", normalize_words(name)) for name in _DELIVER.findall(sentence)]
    return Goals(
        find_words(text),
        tuple(dict.fromkeys(map(normalize_words, _PLACES.findall(text)))),
        tuple(target for target in targets if target.words),
        tuple(dict.fromkeys(endings)),
        "with the" in text and any(target.any_of for target in targets),
    )


def _make_target(name: str, last: bool) -> Target:
    subject = name.partition(" with ")[0]
    *first, head = subject.split() or [""]
    kind = next((KINDS[word] for word in (head, *first) if word in KINDS), None) if len(first) < 2 else None
    if kind and head in (*KINDS, "thing"):
        return Target(subject, kind, any_of=True, last=last)
    return Target(subject, find_words(subject) - {"grown"}, last=last)
