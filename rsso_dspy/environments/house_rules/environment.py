"""A repository with rules of its house as an `Environment`: a request, and one command line for each step of it.
Nothing is executed: `rules.py` says what a command line comes to. A trial ends with the first refusal, or when as many
lines were given as the request has steps."""

from collections.abc import Sequence

from rsso_dspy.environments import Goal, Transition, lessons, require_played
from rsso_dspy.environments.house_rules.rules import (
    ALL_DONE,
    DONE_SO_FAR,
    NOT_ASKED,
    TOO_MUCH,
    Attempt,
    Repository,
)
from rsso_dspy.environments.house_rules.tasks import get_request, make_table
from rsso_dspy.environments.lessons import LessonTable, TaughtEnvironment, Words, read_texts
from rsso_dspy.records import State, Variant

TEMPLATES: str = read_texts(__package__)["templates"]["all"]
REFUSED_THE_ACTION = {NOT_ASKED, TOO_MUCH}
"""Answers to commands that keep all rules, and do not do what is asked."""

START = "You are at the root of the repository. Nothing was run yet."


class Episode(lessons.Episode):
    """The conditions of the lessons in `data/texts.toml`: what became of the newest command line."""

    @property
    def kept(self) -> Words | None:
        return self._quote() if self.answer in (ALL_DONE, DONE_SO_FAR) else None

    @property
    def not_asked(self) -> Words | None:
        return self._quote() if self.answer in REFUSED_THE_ACTION else None

    @property
    def not_understood(self) -> Words | None:
        return self._quote() if not self.newest.understood else None

    @property
    def refused(self) -> Words | None:
        return None if self.kept or self.not_asked or self.not_understood else self._quote()

    def _quote(self) -> Words:
        return {"line": self.newest.action.strip(), "told": self.answer.rstrip(".")}


LESSONS = LessonTable(__package__, Episode)


class HouseRules(TaughtEnvironment):
    """One request at a time, and as many command lines as its solution has steps."""

    teaches = LESSONS
    action_templates = TEMPLATES
    knows_all_verbs = False

    def __init__(self, repository: Repository):
        self.repository = repository
        self.table = make_table(repository)
        self.verbs = repository.programs  # with which a command line may begin
        self.attempt: Attempt | None = None
        self._lines = 0

    def reset(self, variant: Variant) -> State:
        request = get_request(variant, self.repository)
        self.attempt = Attempt(self.repository, request)
        self.task = request.text
        self._variant = variant
        self._lines = 0
        return State(START, "", "")

    def step(self, action: str) -> Transition:
        attempt = require_played(self.attempt)
        old_score = attempt.score
        verdict = attempt.run(action)
        self._lines += 1
        is_over = self._lines == len(attempt.request.steps)
        return Transition(
            state=State(verdict.answer, "", ""),
            action=action,
            reward=attempt.score - old_score,
            score=attempt.score,
            understood=verdict.is_understood,
            done=verdict.is_refused or is_over or attempt.is_done,
        )

    def _list_goals(self) -> Sequence[Goal]:
        attempt = require_played(self.attempt)
        return [Goal("step", number < attempt.done, True) for number, _ in enumerate(attempt.request.steps)]
