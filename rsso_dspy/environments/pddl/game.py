"""One problem played in texts: what AgentBoard's PDDL games say, and how they count.

    game = Game(load_domain("gripper"), problem)
    game.first                                   # the first observation
    game.step("Pick up ball1 at rooma with arm left.")
    game.list_actions()

Lists that AgentBoard prints in the order of a set are sorted here: the same game says the same in every process.
"""

from dataclasses import dataclass
from functools import cache
from importlib import resources

from rsso_dspy.environments.pddl.grounding import World
from rsso_dspy.environments.pddl.phrases import CHECK, LOOK, PHRASES
from rsso_dspy.environments.pddl.reader import read_domain
from rsso_dspy.environments.pddl.strips import Domain, Problem
from rsso_dspy.environments.pddl.wording import read_action

_NO_EFFECT = "The action is not valid and therefore takes no effect. Please "
NOT_AN_ACTION = f"{_NO_EFFECT}check valid actions."
NOT_POSSIBLE = f"{_NO_EFFECT}remember to satisfy the restriction of actions. You can also check valid actions."
WON = " The goal is satisfied."


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one text."""

    observation: str
    valid: bool


@cache
def load_domain(name: str) -> Domain:
    """One of the domains that are played."""
    file = f"{name}.pddl"
    return read_domain(resources.files(__package__).joinpath("domains", file).read_text(encoding="utf-8"), file)


class Game:
    """One episode. `progress`: the largest share of the goal that held after any action; 0 before the first one, even
    where a part of the goal holds from the start."""

    def __init__(self, domain: Domain, problem: Problem):
        self.world = World(domain, problem)
        self.phrases = PHRASES[domain.name]
        self.goal = self.phrases.say_goal(literal.fact for literal in problem.goal)
        self.state = self.world.start
        self.first = self._describe_all()
        self.progress = 0.0
        self.won = False
        self._arities = {each.name: len(each.parameters) for each in domain.actions.values()}

    def list_actions(self) -> list[str]:
        """What is offered now, sorted: actions whose objects all differ, and the questions that may be asked."""
        phrases = [
            self.phrases.say_action(each.name, each.arguments)
            for each in self.world.list_applicable(self.state)
            if each.distinct
        ]
        return sorted({*phrases, CHECK, *([LOOK] if self.phrases.differences else [])})

    def step(self, text: str) -> Answer:
        """Take one text as it was written."""
        asked = text.lower()
        if "check" in asked:
            return Answer(f"Valid actions are: {', '.join(self.list_actions())}", True)
        if LOOK in asked:
            return Answer(self._describe_all(), True)
        applicable = {each.name for each in self.world.list_applicable(self.state)}
        arities = {name: self._arities[name] for name in applicable}
        action = read_action(text, arities, self.world.problem.objects)
        if action is None:
            return Answer(NOT_AN_ACTION, False)
        after = self.world.apply(self.state, *action)
        if after == self.state:
            return Answer(NOT_POSSIBLE, False)
        before, self.state = self.state, after
        reached = self.world.count_reached(after)
        self.progress = max(self.progress, reached / len(self.world.goal_bits))
        self.won = reached == len(self.world.goal_bits)
        told = self._describe_new(before) if self.phrases.differences else self._describe_all()
        return Answer(told + WON if self.won else told, True)

    def _describe_all(self) -> str:
        return " ".join(self.phrases.list_sentences(self.world.list_facts(self.state)))

    def _describe_new(self, before: int) -> str:
        return " ".join(self.phrases.list_sentences(self.world.list_bits(self.state & ~before)))
