"""Judges the writers of memories of entries by their inputs and outputs.

Texts are named by their numbers: a quoted text would reach the proposer as advice.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rsso_dspy.environments.grammar import extract_content_words
from rsso_dspy.optimize.feedback.predictor_call import PredictorCall, report_results
from rsso_dspy.optimize.feedback.remarks import Advice

LONGEST = 300
"""Maximum characters of a text: two or three sentences."""
KNOWN = ("known_insights", "known_workflows", "playbook", "cheatsheet")
WRITTEN = {"insight_edits": 4, "workflows": 3, "strategies": 3, "new_bullets": 5, "new_cheatsheet": 40}
WRITTEN |= {"never": 10, "always": 10}
"""Output field to the maximum number of texts that it asks for."""
WHOLE = ("new_cheatsheet", "never", "always")
"""Fields that contain known texts together with new ones."""


def judge_memory_writer(call: PredictorCall) -> Iterator[str]:
    """Judge an answer against what was known already, the number of texts asked for, and the trials around the call."""
    for field, most in WRITTEN.items():
        texts = [text for text in map(_read_text, _list_items(call.outputs.get(field))) if text]
        if len(texts) > most:
            yield f"It gave {len(texts)} texts where {most} are asked for at most."
            yield Advice("Only give what matters most.")
        if long := [str(number) for number, text in enumerate(texts, 1) if len(text) > LONGEST]:
            yield f"Longer than {LONGEST} characters: text {', '.join(long)}."
            yield Advice("Keep every text to one or two short sentences.")
        if field not in WHOLE:
            yield from _report_repeats(texts, call)
    yield from report_results(call.trials)


def _report_repeats(texts: Sequence[str], call: PredictorCall) -> Iterator[str]:
    """Report texts that repeat what was known, or each other."""
    known = [line for name in KNOWN for line in call.get_input(name).splitlines() if extract_content_words(line)]
    again = [
        str(number)
        for number, text in enumerate(texts, 1)
        if any(call.wording.is_same_text(text, other) for other in (*known, *texts[: number - 1]))
    ]
    if again:
        yield f"Said already: text {', '.join(again)}."
        yield Advice("Only write what is not known already, each thing once.")


def _list_items(value: Any) -> Sequence[Any]:
    return value.splitlines() if isinstance(value, str) else value if isinstance(value, Sequence) else ()


def _read_text(item: Any) -> str:
    """The words of an entry, which is a text or an object."""
    if isinstance(item, str):
        return item
    get = item.get if isinstance(item, Mapping) else lambda key: getattr(item, key, None)
    return next((str(get(key)) for key in ("text", "content", "description") if get(key)), "")
