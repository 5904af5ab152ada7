"""Judges the check of equivalence: its answer against the words of the skills in the library at that time."""

import re
from collections.abc import Iterator

from rsso_dspy.environments.grammar import extract_content_words
from rsso_dspy.optimize.feedback.predictor_call import PredictorCall, report_results
from rsso_dspy.optimize.feedback.remarks import Advice
from rsso_dspy.optimize.feedback.wording import FEW, NEARLY_ALL, measure_overlap

_ENTRY = re.compile(r"^(\d+)\. (.*(?:\n(?!\d+\. ).*)*)", re.M)


def judge_skill_equivalence(call: PredictorCall) -> Iterator[str]:
    """Report near-duplicates that were kept, distinct skills that were lost, and numbers that do not exist."""
    library = {int(number): text for number, text in _ENTRY.findall(call.get_input("library"))}
    given = list(call.outputs.get("equivalent") or ())
    inside = [number for number in given if number in library]
    yield f"The new skill was called {f'the same as number {inside[0]}' if inside else 'new'}."
    yield from _report_unknown_numbers(given, library)
    new = call.get_input("new_skill")
    yield from (
        _report_lost_skill(new, {number: library[number] for number in inside})
        if inside
        else _report_kept_duplicate(new, library)
    )
    yield from report_results(call.trials)


def _report_unknown_numbers(given: list[int], library: dict[int, str]) -> Iterator[str]:
    if outside := [number for number in given if number not in library]:
        yield f"There is no skill number {outside[0]}."
        yield Advice("Only give numbers that stand in the library.")


def _report_kept_duplicate(new: str, library: dict[int, str]) -> Iterator[str]:
    if twin := next((number for number, known in library.items() if _is_duplicate(new, known)), None):
        yield f"Number {twin} says the same in nearly the same words: the library now holds one skill twice."
        yield Advice("Always call two skills the same when their targets and steps say the same in other words.")


def _report_lost_skill(new: str, chosen: dict[int, str]) -> Iterator[str]:
    if all(measure_overlap(new, known) < FEW for known in chosen.values()):
        number, known = max(chosen.items(), key=lambda entry: measure_overlap(new, entry[1]))
        common = len(extract_content_words(new) & extract_content_words(known))
        total = len(extract_content_words(new))
        yield f"The new skill shares {common} of its {total} words with number {number}: a skill was lost."
        yield Advice("Only call skills the same when their object, place and result are the same.")


def _is_duplicate(one: str, other: str) -> bool:
    """Whether two skills have nearly the same words, and steps in which neither side replaces a word of the other.
    Skills that differ only in the object share nearly all words, yet are two skills."""
    ours, theirs = extract_content_words(_extract_steps(one)), extract_content_words(_extract_steps(other))
    return measure_overlap(one, other) >= NEARLY_ALL and (ours <= theirs or theirs <= ours)


def _extract_steps(skill: str) -> str:
    return skill.partition("Instructions:")[2] or skill
