"""The writer of constitutions: a module that turns play into rules (OmniReflect, sections 2.1.1 and 3)."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.memory.constitution import CATEGORIES, LASTING, Constitution, PartialEpisode, select_category_examples
from rsso_dspy.memory.texts import clean_text
from rsso_dspy.playing import get_playing
from rsso_dspy.programs.render import render_recent_steps, tell_outcome
from rsso_dspy.programs.runtime import choose_retry_temperature
from rsso_dspy.records import Category, Lesson
from rsso_dspy.signatures import ErrorRule, SummarizeConstitution, WriteRules

Categories = tuple[Category, ...]

_SENTENCES = re.compile(r"(?<=[.!?])\s+")
PRIORITIES = (
    "Begin every abstract rule and every mistake by its priority and a colon: Priority 1: for what decides whether a "
    "task is solved, Priority 2: for what saves steps, Priority 3: for the rest."
)


class ConstitutionWriter(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.write = dspy.Predict(WriteRules)
        self.summarize = dspy.Predict(SummarizeConstitution)

    def forward(
        self,
        play: PartialEpisode,
        known: Constitution,
        examples: str = "",
        categories: Categories = CATEGORIES,
        priorities: bool = False,
        sample: int | None = None,
    ) -> dspy.Prediction:
        """Write the rules of these categories that an episode so far teaches beyond the known ones; if it is over
        (``play.ended``), by its outcome too. `examples` are stretches of play with the rules drawn from them. `sample`
        numbers one of several answers to the same question. Returns the answered rules, and ``lessons``, among them the
        known ones that were written again."""
        answer = _ask(
            self.write,
            categories,
            priorities,
            sample,
            outcome="" if play.ended is None else tell_outcome(play.ended),
            examples=select_category_examples(examples, categories),
            task=play.task,
            known_rules=[*known.items, *(rule.lesson.line for rule in known.select_rules("progress"))],
            transcript=render_recent_steps(play.states, play.steps, play.render),
        )
        answer.lessons = find_repeats(answer.lessons, known)
        return answer

    def shorten(
        self, known: Constitution, categories: Categories = CATEGORIES, priorities: bool = False
    ) -> dspy.Prediction:
        """Summarize the lasting rules of these categories. Returns the same as a call of the module."""
        abstract, errors = ([rule.lesson for rule in known.select_rules(category)] for category in LASTING)
        return _ask(
            self.summarize,
            categories,
            priorities,
            gathered_abstract_rules=[lesson.text for lesson in abstract],
            gathered_error_rules=[ErrorRule(mistake=lesson.text, solution=lesson.solution) for lesson in errors],
        )


def _ask(
    predictor: dspy.Predict, categories: Categories, priorities: bool, sample: int | None = None, **inputs: Any
) -> dspy.Prediction:
    signature = adapt_signature(predictor.signature, categories, priorities)
    arguments = {name: value for name, value in inputs.items() if name in signature.fields}
    if signature is not predictor.signature:
        arguments["signature"] = signature
    if sample is not None:
        arguments["config"] = _vary_answer(predictor, sample)
    answer = predictor(**arguments)
    lessons = list_lessons(answer)
    ledger = get_playing().ledger
    if ledger is not None and ledger.was_cut:  # in its last rule; a summary would lose all that it did not come to
        complete = lessons if ledger.was_trimmed else lessons[:-1]
        lessons = complete if "transcript" in inputs else []
    return dspy.Prediction(**dict(answer.items()), lessons=lessons)


_NUMBER = re.compile(r"^\W*\d{1,3}[.):]\s+")
_LABEL = re.compile(r"\b(?:mistake|instead|solution)\s*:", re.I)
_WORDS = re.compile(r"[^\W_]+")


def find_repeats(lessons: Sequence[Lesson], known: Constitution) -> list[Lesson]:
    """Return the lessons of an answer with the standing rule itself in place of one that repeats it: in other letters
    or marks, numbered, with its label (``Mistake:``), under another category, or without what to do instead. What
    repeats a note of progress as a lasting rule is left out."""
    standing = {_list_words(rule.lesson.text): rule.lesson for rule in known.rules}
    standing |= {_list_words(rule.lesson.line): rule.lesson for rule in known.rules}
    resolved = []
    for lesson in lessons:
        same = None if lesson.category == "progress" else standing.get(_list_words(lesson.line))
        if same is None:
            resolved.append(lesson)
        elif same.category != "progress":
            resolved.append(same)
    return resolved


def _list_words(line: str) -> tuple[str, ...]:
    """Return the words of a rule, in lower case, without its number and its labels."""
    return tuple(_WORDS.findall(_LABEL.sub(" ", _NUMBER.sub("", line)).lower()))


def _vary_answer(predictor: dspy.Predict, sample: int) -> dict[str, Any]:
    """Return what makes samples differ: at temperature 0 that of an actor's retries; a number if DSPy keeps answers."""
    lm = predictor.lm or dspy.settings.lm
    warmer = choose_retry_temperature(lm.model, lm.kwargs.get("temperature"), lm.kwargs.get("top_k"))
    number = {"rollout_id": (get_playing().rollout or 0) * 1000 + sample} if getattr(lm, "cache", False) else {}
    return number if warmer is None else {**number, "temperature": warmer}


@lru_cache(maxsize=64)
def adapt_signature(signature: type[dspy.Signature], categories: Categories, priorities: bool) -> type[dspy.Signature]:
    """Remove the fields of other categories, and the sentences that begin with their names, from the signature, and ask
    for priorities. Other sentences of compiled instructions stay."""
    excluded = [category for category in CATEGORIES if category not in categories]
    fields = [name for category in excluded for name in (f"{category}_rules", f"gathered_{category}_rules")]
    if not priorities and not any(name in signature.fields for name in fields):
        return signature
    for name in fields:
        signature = signature.delete(name)
    about = tuple(f"{category} rules " for category in excluded)
    sentences = [
        sentence for sentence in _SENTENCES.split(signature.instructions) if not sentence.lower().startswith(about)
    ]
    if priorities:
        sentences.append(PRIORITIES)
    adapted: type[dspy.Signature] = signature.with_instructions(" ".join(sentences))
    return adapted


def list_lessons(answer: dspy.Prediction) -> list[Lesson]:
    """Return the lessons in an answer of the writer or the summarizer, without empty entries."""
    lessons = [Lesson("abstract", clean_text(text)) for text in answer.get("abstract_rules") or ()]
    lessons += [
        Lesson("error", clean_text(rule.mistake), clean_text(rule.solution)) for rule in answer.get("error_rules") or ()
    ]
    lessons += [Lesson("progress", clean_text(text)) for text in answer.get("progress_rules") or ()]
    return [lesson for lesson in lessons if lesson.text]
