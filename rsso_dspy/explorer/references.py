"""Resolves a noun phrase of advice: a name, a sort of thing, what the task names, or something named before.

A phrase that cannot be resolved ("it" at the beginning of a text, "the container") means nothing here.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rsso_dspy.explorer import wordings
from rsso_dspy.explorer.clauses import Mention
from rsso_dspy.explorer.commands import TRAVEL, Command, command, extract_content_words, normalize_words
from rsso_dspy.explorer.goals import TaskGoals
from rsso_dspy.explorer.relevance import find_target_things, list_ingredients
from rsso_dspy.explorer.scene_parser import Scene
from rsso_dspy.explorer.vocabulary import COOLERS, HEATERS, KINDS, VESSELS

_ROOM_WORDS = 3
"""Maximum words in the name of a room."""


@dataclass(frozen=True)
class Situation:
    """The situation that the prompt shows: the task, and the player's place after its actions."""

    goals: TaskGoals
    scene: Scene

    @cached_property
    def done(self) -> tuple[Command, ...]:
        """Actions with an effect in this trial, as far as history and notes show them."""
        scene, notes = self.scene, self.scene.notes
        texts = [*notes.did, *(text for text in scene.done if text not in scene.failed)]
        texts += [f"focus on {name}" for name in notes.focused]
        texts += [f"teleport to {room}" for room in notes.searched]
        texts += [f"pick up {name}" for name in scene.held]
        texts += ["read recipe"] * ("recipe" in notes.facts)
        found = (command(text) for text in dict.fromkeys(texts) if text not in notes.failed)
        return tuple(each for each in found if each is not None)


def is_meant(phrase: str, name: str, here: Situation, mentions: Sequence[Mention] = (), past: bool = False) -> bool:
    """Whether the phrase means a thing or room of this name. With ``past``, used things are judged by their sort alone:
    a vessel that was empty is no longer empty."""
    wanted = normalize_words(phrase)
    if not wanted or not name:
        return not wanted
    if past and wanted in (wordings.CLOSED, wordings.UNSEEN_ROOM, wordings.OTHER_ROOM):
        return True
    if past and wanted == wordings.EMPTY_VESSEL:
        return name in VESSELS
    found = extract_content_words(name)
    return any(found == words or (words and words <= found) for words in _list_meanings(wanted, here, mentions, name))


def list_named_things(phrase: str, here: Situation, mentions: Sequence[Mention] = ()) -> list[str]:
    """Things in sight that the phrase means, in its order; none for "anything", which orders nothing in particular."""
    if normalize_words(phrase) == wordings.ANYTHING:
        return []
    named = [name for name in here.scene.things if is_meant(phrase, name, here, mentions)]
    order = re.split(r" or | and ", normalize_words(phrase))
    return sorted(named, key=lambda name: next((n for n, part in enumerate(order) if _has(name, part)), len(order)))


def _has(name: str, part: str) -> bool:
    return extract_content_words(part) <= extract_content_words(name)


def list_named_rooms(phrase: str, here: Situation, mentions: Sequence[Mention] = ()) -> list[str]:
    """Rooms that the phrase names, in its order."""
    wanted, scene = normalize_words(phrase), here.scene
    known = dict.fromkeys([*here.goals.places, *scene.doors, *scene.notes.doors, *scene.notes.searched])
    if wanted in (wordings.UNSEEN_ROOM, wordings.OTHER_ROOM, wordings.TASK_ROOM) or wordings.is_pronoun(wanted):
        return [name for name in known if is_meant(wanted, name, here, mentions)]
    words = wanted.split()
    return [wanted] if len(words) <= _ROOM_WORDS else []


def _list_meanings(wanted: str, here: Situation, mentions: Sequence[Mention], name: str) -> Iterable[frozenset[str]]:
    """Sets of words; a name is meant if it contains all words of one set."""
    goals, scene = here.goals, here.scene
    if wordings.is_placeholder(wanted):
        return _recall_mention(wanted, here, mentions, name)
    if wanted == wordings.ANYTHING:
        return [extract_content_words(name)]
    if wanted == wordings.CLOSED:
        return _words_of(each.name for each in scene.things.values() if each.closed and not each.held)
    if wanted == wordings.EMPTY_VESSEL:
        return _words_of(each.name for each in scene.things.values() if each.empty and each.name in VESSELS)
    if wanted == wordings.UNSEEN_ROOM:
        return _words_of(room for room in (*scene.doors, *scene.notes.doors) if room not in scene.notes.searched)
    if wanted == wordings.OTHER_ROOM:
        return [] if name == scene.room else [extract_content_words(name)]
    sorts = {
        wordings.TASK_SUBSTANCE: lambda: [goals.substance or goals.product],
        wordings.TASK_PRODUCT: lambda: [goals.product],
        wordings.TASK_CONTAINER: lambda: [goals.box, *(each.container for each in goals.choices)],
        wordings.TASK_ROOM: lambda: [*goals.places, goals.box_room],
        wordings.INGREDIENTS: lambda: list_ingredients(scene, goals) if goals.product else [],
        wordings.TASK_THING: lambda: _list_targets(here),
        wordings.HEATER: lambda: HEATERS,
        wordings.COOLER: lambda: COOLERS,
    }
    if wanted in sorts:
        return _words_of(sorts[wanted]())
    if wanted in KINDS or wanted.removesuffix(" thing") in KINDS:
        return _words_of(KINDS[wanted.removesuffix(" thing")])
    return _words_of(part for half in wanted.split(" or ") for part in half.split(" and "))


def _list_targets(here: Situation) -> list[str]:
    """Things in sight that the task says to focus on and that nobody has focused on yet, and what it makes."""
    pending = [
        target for target in here.goals.targets
        if not any(target.is_matched_by(name) for name in here.scene.notes.focused)
    ]  # fmt: skip
    return [thing.name for target in pending[:1] for thing in find_target_things(here.scene, target)]


def _recall_mention(wanted: str, here: Situation, mentions: Sequence[Mention], name: str) -> Iterable[frozenset[str]]:
    """What was named last in the same line: a room for "there" and "that location", else a thing. Where a step that was
    taken chose one of a sort, that one."""
    head = wanted.split()[-1]
    room = head in ("there", "location", "room", "place")
    fitting = [each for each in mentions if _is_room(each) == room and not wordings.is_pronoun(each.phrase)]
    if not fitting:
        named = here.goals.substance if wanted == "substance" else ""
        return _words_of([named])
    last = fitting[-1]
    if last.command and last.part:
        for done in reversed(here.done):
            if done.verb == last.command.verb and all(
                is_meant(getattr(last.command, part), getattr(done, part), here, mentions[:-1], past=True)
                for part in ("thing", "place")
            ):
                return _words_of([getattr(done, last.part)])
    return _list_meanings(normalize_words(last.phrase), here, mentions[: list(mentions).index(last)], name)


def _is_room(mention: Mention) -> bool:
    if mention.command is not None:
        return mention.command.verb in TRAVEL
    return mention.phrase in (wordings.TASK_ROOM, wordings.UNSEEN_ROOM)


def _words_of(names: Iterable[str]) -> list[frozenset[str]]:
    return [words for name in names if name and (words := extract_content_words(name))]
