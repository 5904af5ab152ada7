"""Carries out actions under the interface `complete`: tries several wordings and resolves questions.

An action is first tried as written. An unknown input is free, so other wordings (`repairs.py`) cost nothing; the list
of all valid actions, which is expensive, comes last. A question (`questions.py`) is answered with the number of the
chosen option. Any other action cancels the question, which takes a moment, and is carried out.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rsso_dspy.environments.scienceworld import actions, repairs
from rsso_dspy.environments.scienceworld.questions import Question, is_question

_NOTHING = re.compile(
    r"It'?s not clear|I'?m not sure how|Nothing happens|You (?:are|must|need)\b|There(?:'s| is| are) (?:no|nothing)\b"
    r"|.{0,80}\b(?:can'?t|cannot|isn'?t|doesn'?t|must be|appears to be (?:no|in))\b"
    r"|.{0,80}\b(?:is|are) (?:already|not|no longer)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of an action: the text sent and the answer."""

    sent: str
    answer: str
    asks: Question | None = None
    """The question in the answer, if any."""


@dataclass(frozen=True, slots=True)
class Parser:
    """The simulator's interface for actions. ``act`` sends a text and returns the answer; ``sights`` returns the
    current surroundings and inventory; ``valid`` lists all valid actions."""

    act: Callable[[str], str]
    sights: Callable[[], tuple[str, str]]
    valid: Callable[[], Sequence[str]]

    def take(self, said: str, asked: Question | None) -> Done:
        """Carry out an actor's answer, given the open question."""
        if asked is not None:
            number = asked.choose(said)
            if number is not None:
                return self._answered(number, self.act(number))
            back = self.act(actions.CANCEL)
            if _says_no_action(said):
                return Done(actions.CANCEL, back)
        return self._try(said)

    def _try(self, said: str) -> Done:
        if actions.is_task_reset(said):
            return Done(said, actions.NOT_KNOWN)
        answer = self.act(said)
        if answer != actions.NOT_KNOWN:
            return self._answered(said, answer)
        look, inventory = self.sights()
        tried = {said}
        for wording in repairs.wordings(said, f"{look} {inventory}"):
            if actions.is_task_reset(wording):
                continue
            tried.add(wording)
            answer = self.act(wording)
            if answer != actions.NOT_KNOWN:
                return self._answered(wording, answer, said)
        valid = self.valid()
        equal = next(
            (found for wording in (said, *tried) if (found := actions.find_equal_action(wording, valid))), None
        )
        return Done(said, answer) if equal is None else self._answered(equal, self.act(equal), said)

    def _answered(self, sent: str, answer: str, said: str = "") -> Done:
        """Return the result of an answer; a question with a known answer is answered at once."""
        if not is_question(answer):
            return Done(sent, answer)
        question = Question(answer, *self.sights())
        number = "0" if question.idle else (question.find_described(said) if said and not said.isdigit() else None)
        if number is None:
            return Done(sent, question.tell(), question)
        return replace(self._answered("", self.act(number)), sent=sent)


def _says_no_action(said: str) -> bool:
    """Return whether an answer is empty, cancels the question, or is a number without an option."""
    return re.fullmatch(r"[\W_]*(?:cancel|none|blank|neither|nothing)?[\W_]*|\D{0,12}\d+\W*", said) is not None


def did_nothing(answer: str) -> bool:
    """Return whether an answer says that an understood action had no effect."""
    return "\n" not in answer.strip() and _NOTHING.match(answer) is not None
