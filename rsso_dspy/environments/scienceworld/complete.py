"""An action of an actor under the interface `complete`: tried in several wordings, and answers to questions understood.

Whatever an actor says is tried as it is first. An input that the parser does not know is free, so other wordings
(`repairs.py`) cost nothing; the list of all valid actions, which is dear, comes last. A question (`questions.py`) is
answered with the number of the option that was meant. Another action takes the question back, which takes a moment, and
is carried out.
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
    """What came of an action: the text that was sent, and the answer."""

    sent: str
    answer: str
    asks: Question | None = None
    """The question that it is answered with."""


@dataclass(frozen=True, slots=True)
class Parser:
    """The simulator as far as actions go. ``act`` sends a text and gives the answer; ``sights`` gives surroundings and
    inventory as they are now; ``valid`` lists all valid actions."""

    act: Callable[[str], str]
    sights: Callable[[], tuple[str, str]]
    valid: Callable[[], Sequence[str]]

    def take(self, said: str, asked: Question | None) -> Done:
        """Carry out what was said, given the question that is open."""
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
        """What an answer comes to; a question whose answer is known already is answered."""
        if not is_question(answer):
            return Done(sent, answer)
        question = Question(answer, *self.sights())
        number = "0" if question.idle else (question.choose(said) if said and not said.isdigit() else None)
        if number is None:
            return Done(sent, question.tell(), question)
        return replace(self._answered("", self.act(number)), sent=sent)


def _says_no_action(said: str) -> bool:
    """An empty answer, one that takes the question back, or a number that is no option."""
    return re.fullmatch(r"[\W_]*(?:cancel|none|blank|neither|nothing)?[\W_]*|\D{0,12}\d+\W*", said) is not None


def did_nothing(answer: str) -> bool:
    """Whether an answer says that the action, though understood, had no effect."""
    return "\n" not in answer.strip() and _NOTHING.match(answer) is not None
