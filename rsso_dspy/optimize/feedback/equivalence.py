"""The judge of equivalence: its answer against the words of the skills that the library held when it was asked."""

import re
from collections.abc import Iterator

from rsso_dspy.environments.grammar import words
from rsso_dspy.optimize.feedback.call import Call, results
from rsso_dspy.optimize.feedback.wording import FEW, NEARLY_ALL, share

_ENTRY = re.compile(r"^(\d+)\. (.*(?:\n(?!\d+\. ).*)*)", re.M)


def equivalence(call: Call) -> Iterator[str]:
    """Near-duplicates that were kept, distinct skills that were lost, numbers that do not exist."""
    library = {int(number): text for number, text in _ENTRY.findall(call.read("library"))}
    given = list(call.outputs.get("equivalent") or ())
    inside = [number for number in given if number in library]
    yield f"The new skill was called {f'the same as number {inside[0]}' if inside else 'new'}."
    yield from _outside(given, library)
    new = call.read("new_skill")
    yield from _lost(new, {number: library[number] for number in inside}) if inside else _kept(new, library)
    yield from results(call.trials)


def _outside(given: list[int], library: dict[int, str]) -> Iterator[str]:
    if outside := [number for number in given if number not in library]:
        yield f"There is no skill number {outside[0]}. Only give numbers that stand in the library."


def _kept(new: str, library: dict[int, str]) -> Iterator[str]:
    if twin := next((number for number, known in library.items() if _twins(new, known)), None):
        yield f"Number {twin} says the same in nearly the same words: the library now holds one skill twice."
        yield "Always call two skills the same when their targets and steps say the same in other words."


def _lost(new: str, chosen: dict[int, str]) -> Iterator[str]:
    if all(share(new, known) < FEW for known in chosen.values()):
        number, known = max(chosen.items(), key=lambda entry: share(new, entry[1]))
        common = len(words(new) & words(known))
        yield f"The new skill shares {common} of its {len(words(new))} words with number {number}: a skill was lost."
        yield "Only call skills the same when their object, place and result are the same."


def _twins(one: str, other: str) -> bool:
    """Nearly the same words, and in the steps no word on either side that the other side has another one for: skills
    that differ in the object alone share nearly all their words and are two."""
    ours, theirs = words(_steps(one)), words(_steps(other))
    return share(one, other) >= NEARLY_ALL and (ours <= theirs or theirs <= ours)


def _steps(skill: str) -> str:
    return skill.partition("Instructions:")[2] or skill
