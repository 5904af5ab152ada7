"""A PDDL problem as an `Environment`: what AgentBoard's PDDL games say, and how they count. The score is the progress
rate, of 100: 100 when the goal is satisfied and never before. Lists that AgentBoard prints in the order of a set are
sorted here: the same game says the same in every process."""

from collections.abc import Sequence

from rsso_dspy.environments import Goal, Transition, require_played
from rsso_dspy.environments.lessons import TaughtEnvironment
from rsso_dspy.environments.pddl import wording
from rsso_dspy.environments.pddl.strips import Domain, Problem, World
from rsso_dspy.environments.pddl.tasks import TABLE, load_domain, load_setup
from rsso_dspy.environments.pddl.wording import CHECK, LESSONS, LOOK
from rsso_dspy.records import SOLVED_SCORE, State, Variant


class Game:
    """One episode. `progress`: the largest share of the goal that held after any action; 0 before the first one, even
    where a part of the goal holds from the start."""

    def __init__(self, domain: Domain, problem: Problem):
        self.world = World(domain, problem)
        self.phrases = wording.PHRASES[domain.name]
        self.goal = self.phrases.say_goal(problem.goal)
        self.state = self.world.start
        self.first = self._describe_all()
        self.progress = 0.0

    @property
    def is_won(self) -> bool:
        return self.progress == 1

    @property
    def points(self) -> int:
        return int(SOLVED_SCORE * self.progress + 1e-9)

    def list_actions(self) -> list[str]:
        """What is offered now, sorted: actions whose objects all differ, and the questions that may be asked."""
        applicable = self.world.list_applicable(self.state)
        phrases = [self.phrases.say_action(each.name, each.arguments) for each in applicable if each.is_distinct]
        return sorted({*phrases, CHECK, *([LOOK] if self.phrases.differences else [])})

    def step(self, text: str) -> tuple[str, bool]:
        """Take one text as it was written; the observation, and whether it was a valid action."""
        asked = text.lower()
        if "check" in asked:
            return f"Valid actions are: {', '.join(self.list_actions())}", True
        if LOOK in asked:
            return self._describe_all(), True
        arities = {each.name: len(each.arguments) for each in self.world.list_applicable(self.state)}
        action = wording.read_action(text, arities, self.world.problem.objects)
        if action is None:
            return wording.NOT_AN_ACTION, False
        before, self.state = self.state, self.world.apply(self.state, *action)
        if self.state == before:
            return wording.NOT_POSSIBLE, False
        reached = self.world.list_reached(self.state)
        self.progress = max(self.progress, sum(reached) / len(reached))
        told = self.phrases.describe(self.state - before) if self.phrases.differences else self._describe_all()
        return told + wording.WON if all(reached) else told, True

    def _describe_all(self) -> str:
        return self.phrases.describe(self.state | self.world.fixed)


class PddlEnvironment(TaughtEnvironment):
    """Plays one problem after the other. ``folder``: where AgentBoard's own are, if the user has them."""

    teaches = LESSONS
    table = TABLE
    verbs = ("check", "look")

    def __init__(self, folder: str | None = None):
        self._folder = folder
        self._game: Game | None = None

    @property
    def task(self) -> str:
        return require_played(self._game).goal

    @property
    def action_templates(self) -> str:
        return wording.COMMON if self._variant is None else wording.ACTION_TEMPLATES[self._variant.task]

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises what `load_setup` raises."""
        self._game = Game(load_domain(variant.task), load_setup(variant, self._folder))
        self._variant = variant
        return State(self._game.first, "", "")

    def step(self, action: str) -> Transition:
        game = require_played(self._game)
        before = game.points
        observation, valid = game.step(action)
        state, score = State(observation, "", ""), game.points
        return Transition(state, " ".join(action.split()), score - before, score, understood=valid, done=game.is_won)

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as AgentBoard offers it: less the full stops, and the question for this very list."""
        return [text.rstrip(". ") for text in require_played(self._game).list_actions() if text != CHECK]

    def _list_goals(self) -> Sequence[Goal]:
        game = require_played(self._game)
        reached = game.world.list_reached(game.state)
        return [Goal(fact[0], done, True) for fact, done in zip(game.world.problem.goal, reached, strict=True)]
