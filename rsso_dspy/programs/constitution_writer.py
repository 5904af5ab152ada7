"""The writer of constitutions as a module of its own: play in, rules out (OmniReflect, sections 2.1.1 and 3).

writer = ConstitutionWriter()
with dspy.context(lm=my_lm):
    writer(play, known=Constitution()).lessons
"""

from typing import Any

import dspy

from rsso_dspy.memory.constitution import Constitution, Play
from rsso_dspy.memory.constitution.rules import CATEGORIES, said
from rsso_dspy.programs.asking import Categories, asking_for, examples_of
from rsso_dspy.programs.transcript import stretch
from rsso_dspy.signatures import ErrorRule, SummarizeConstitution, WriteRules
from rsso_dspy.trajectory import Lesson


class ConstitutionWriter(dspy.Module):
    """Writes rules while an agent plays, and makes gathered rules a compact rule book."""

    def __init__(self) -> None:
        super().__init__()
        self.write = dspy.Predict(WriteRules)
        self.summarize = dspy.Predict(SummarizeConstitution)

    def forward(
        self, play: Play, known: Constitution, examples: str = "", categories: Categories = CATEGORIES
    ) -> dspy.Prediction:
        """Distil what an episode so far teaches beyond the rules that stand. `examples` are stretches of play with the
        rules drawn from them; of other `categories` than these nothing is asked. Returns a prediction with ``lessons``
        (list of `Lesson`) and the rules as they were answered. Raises `AdapterParseError` when the answer cannot be
        read."""
        answer = self.write(
            **_ask_for(self.write, categories),
            examples=examples_of(examples, categories),
            task=play.task,
            known_rules=describe_rules(known),
            transcript=stretch(play.states, play.steps),
        )
        return dspy.Prediction(**dict(answer.items()), lessons=list_lessons(answer))

    def shorten(self, known: Constitution, categories: Categories = CATEGORIES) -> dspy.Prediction:
        """Summarize the lasting rules of these categories. Returns and raises what a call of the module does."""
        gathered: dict[str, Any] = {}
        if "abstract" in categories:
            gathered["gathered_abstract_rules"] = [rule.lesson.text for rule in known.of("abstract")]
        if "error" in categories:
            gathered["gathered_error_rules"] = [
                ErrorRule(mistake=rule.lesson.text, solution=rule.lesson.solution) for rule in known.of("error")
            ]
        answer = self.summarize(**_ask_for(self.summarize, categories), **gathered)
        return dspy.Prediction(**dict(answer.items()), lessons=list_lessons(answer))


def _ask_for(predictor: dspy.Predict, categories: Categories) -> dict[str, type[dspy.Signature]]:
    """How a call is told that not every category is asked for."""
    signature = asking_for(predictor.signature, categories)
    return {} if signature is predictor.signature else {"signature": signature}


def describe_rules(known: Constitution) -> str:
    """All rules that stand, for who is to write no rule twice."""
    progress = f"Noted progress in this task:\n{known.progress}" if known.progress else ""
    return "\n\n".join(part for part in (known.text, progress) if part)


def list_lessons(answer: dspy.Prediction) -> list[Lesson]:
    """What a rule writer or a summarizer answered; entries that say nothing are left out."""
    found = [Lesson("abstract", said(text)) for text in answer.get("abstract_rules") or ()]
    found += [Lesson("error", said(rule.mistake), said(rule.solution)) for rule in answer.get("error_rules") or ()]
    found += [Lesson("progress", said(text)) for text in answer.get("progress_rules") or ()]
    return [lesson for lesson in found if lesson.text]
