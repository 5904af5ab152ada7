"""The writer of constitutions: a module that turns play into rules (OmniReflect, sections 2.1.1 and 3).

ConstitutionWriter()(play, known=Constitution()).lessons
"""

import re
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.memory.constitution import CATEGORIES, Constitution, PartialEpisode, select_category_examples
from rsso_dspy.memory.texts import clean_text
from rsso_dspy.programs.render import render_recent_steps, tell_outcome
from rsso_dspy.records import Category, Lesson
from rsso_dspy.signatures import ErrorRule, SummarizeConstitution, WriteRules

Categories = tuple[Category, ...]

_SENTENCES = re.compile(r"(?<=[.!?])\s+")


class ConstitutionWriter(dspy.Module):
    def __init__(self) -> None:
        super().__init__()
        self.write = dspy.Predict(WriteRules)
        self.summarize = dspy.Predict(SummarizeConstitution)

    def forward(
        self, play: PartialEpisode, known: Constitution, examples: str = "", categories: Categories = CATEGORIES
    ) -> dspy.Prediction:
        """Write the rules of these categories that an episode so far teaches beyond the known ones; if it is over
        (``play.ended``), by its outcome too. `examples` are stretches of play with the rules drawn from them. Returns a
        prediction with ``lessons`` and the answered rules. Raises `AdapterParseError` if the answer cannot be read."""
        answer = self.write(
            **_override_signature(self.write, categories),
            outcome="" if play.ended is None else tell_outcome(play.ended),
            examples=select_category_examples(examples, categories),
            task=play.task,
            known_rules=[*known.items, *(rule.lesson.line for rule in known.select_rules("progress"))],
            transcript=render_recent_steps(play.states, play.steps, play.render),
        )
        return dspy.Prediction(**dict(answer.items()), lessons=list_lessons(answer))

    def shorten(self, known: Constitution, categories: Categories = CATEGORIES) -> dspy.Prediction:
        """Summarize the lasting rules of these categories. Returns and raises the same as a call of the module."""
        gathered: dict[str, Any] = {}
        if "abstract" in categories:
            gathered["gathered_abstract_rules"] = [rule.lesson.text for rule in known.select_rules("abstract")]
        if "error" in categories:
            gathered["gathered_error_rules"] = [
                ErrorRule(mistake=rule.lesson.text, solution=rule.lesson.solution)
                for rule in known.select_rules("error")
            ]
        answer = self.summarize(**_override_signature(self.summarize, categories), **gathered)
        return dspy.Prediction(**dict(answer.items()), lessons=list_lessons(answer))


def _override_signature(predictor: dspy.Predict, categories: Categories) -> dict[str, type[dspy.Signature]]:
    signature = select_category_fields(predictor.signature, categories)
    return {} if signature is predictor.signature else {"signature": signature}


@lru_cache(maxsize=64)
def select_category_fields(signature: type[dspy.Signature], categories: Categories) -> type[dspy.Signature]:
    """Remove the fields of other categories, and the sentences that begin with their names, from the signature. Other
    sentences of compiled instructions stay. Cached, because building a signature class is expensive."""
    others = [category for category in CATEGORIES if category not in categories]
    fields = [name for category in others for name in (f"{category}_rules", f"gathered_{category}_rules")]
    if not any(name in signature.fields for name in fields):
        return signature
    for name in fields:
        signature = signature.delete(name)
    about = tuple(f"{category} rules " for category in others)
    told = [part for part in _SENTENCES.split(signature.instructions) if not part.lower().startswith(about)]
    asked: type[dspy.Signature] = signature.with_instructions(" ".join(told))
    return asked


def list_lessons(answer: dspy.Prediction) -> list[Lesson]:
    """Return the lessons in an answer of the writer or the summarizer, without empty entries."""
    found = [Lesson("abstract", clean_text(text)) for text in answer.get("abstract_rules") or ()]
    found += [
        Lesson("error", clean_text(rule.mistake), clean_text(rule.solution)) for rule in answer.get("error_rules") or ()
    ]
    found += [Lesson("progress", clean_text(text)) for text in answer.get("progress_rules") or ()]
    return [lesson for lesson in found if lesson.text]
