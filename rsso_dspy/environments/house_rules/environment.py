"""A repository with rules of its house as an `Environment`: a request, and one command line for each step of it.
Nothing is executed: `rules.py` says what a command line comes to. A trial ends with the first refusal, or when as many
lines were given as the request has steps."""

from collections.abc import Sequence

from rsso_dspy.environments import Goal, Transition, lessons, require_played
from rsso_dspy.environments.house_rules.rules import Attempt, Repository
from rsso_dspy.environments.house_rules.tasks import get_request, make_table
from rsso_dspy.environments.lessons import LessonTable, TaughtEnvironment, read_texts
from rsso_dspy.records import State, Variant

LESSONS = LessonTable(__package__, lessons.Episode)
TEMPLATES: str = read_texts(__package__)["templates"]["all"]
START = "You are at the root of the repository. Nothing was run yet."


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
        before = attempt.score
        verdict = attempt.run(action)
        self._lines += 1
        is_over = self._lines == len(attempt.request.steps)
        return Transition(
            state=State(verdict.answer, "", ""),
            action=action,
            reward=attempt.score - before,
            score=attempt.score,
            understood=verdict.is_understood,
            done=verdict.is_refused or is_over or attempt.is_done,
        )

    def _list_goals(self) -> Sequence[Goal]:
        attempt = require_played(self.attempt)
        return [Goal("step", number < attempt.done, True) for number, _ in enumerate(attempt.request.steps)]
