"""A PDDL problem as an `Environment`: what AgentBoard's PDDL games say, to the last blank; how an action is read out of
a text; what an episode teaches. Objects stand in the order of the arguments. Some sentences mislead, and are kept: in
barman, `holding` names the hand and not what it holds, and `pour-shaker-to-shot` has the drink before the glass. The
score is the progress rate, of 100: 100 when the goal is satisfied and never before. Lists that AgentBoard prints in the
order of a set are sorted here: the same game says the same in every process."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from rsso_dspy.environments import Goal, Transition, lessons, require_played
from rsso_dspy.environments.lessons import LessonTable, TaughtEnvironment, Words, read_data, read_texts
from rsso_dspy.environments.pddl.strips import Domain, Fact, Problem, World
from rsso_dspy.environments.pddl.tasks import TABLE, load_domain, load_setup
from rsso_dspy.records import SOLVED_SCORE, State, Step, Variant

CHECK = "check valid actions"
LOOK = "look around"
GOAL = "The goal is to satisfy the following conditions: "
_NO_EFFECT = "The action is not valid and therefore takes no effect. Please "
NOT_AN_ACTION = f"{_NO_EFFECT}check valid actions."
NOT_POSSIBLE = f"{_NO_EFFECT}remember to satisfy the restriction of actions. You can also check valid actions."
WON = " The goal is satisfied."


@dataclass(frozen=True, eq=False)
class Phrases:
    facts: Mapping[str, str]  # predicate to sentence, `{}` for each argument
    actions: Mapping[str, str]
    differences: bool = False  # whether only what became true is said after the first observation

    def say_fact(self, fact: Fact) -> str:
        return _fill(self.facts, fact)

    def say_action(self, name: str, arguments: Iterable[str]) -> str:
        return _fill(self.actions, (name, *arguments))

    def describe(self, facts: Iterable[Fact]) -> str:
        """Sentences of facts, in order: the first letter large, all others small."""
        sentences = [self.say_fact(fact).capitalize() for fact in facts]
        return " ".join(sorted(sentences))

    def say_goal(self, facts: Iterable[Fact]) -> str:
        conditions = [self.say_fact(fact) for fact in facts]
        return GOAL + ", ".join(sorted(conditions))


def _fill(sentences: Mapping[str, str], words: Fact) -> str:
    name, *arguments = words
    if name not in sentences:
        return " ".join(words)
    return sentences[name].format(*arguments)


PHRASES = {domain: Phrases(**row) for domain, row in read_data(__package__, "data/phrases.toml").items()}  # by domain


def split_words(text: str) -> list[str]:
    """Words in lower case: punctuation stands apart, hyphens and underscores do not."""
    return re.findall(r"[\w-]+", text.lower())


def read_action(text: str, arities: Mapping[str, int], objects: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Name and objects of the action that a text asks for. ``arities``: the actions that can be taken now, with how
    many objects they take. None when it names none of them, or too few objects."""
    words = split_words(text)
    name = next((word for word in words if word in arities), None)
    if name is None:
        return None

    arity = arities[name]
    arguments = [word for word in words if word in objects]
    if len(arguments) < arity:
        return None
    return name, tuple(arguments[:arity])


_TEXTS = read_texts(__package__)
_TEMPLATES: Mapping[str, str] = _TEXTS["templates"]
COMMON = _TEMPLATES["all"]
ACTION_TEMPLATES = {domain: f"{COMMON}\n{_TEMPLATES[domain]}" for domain in PHRASES}  # by domain

_NEEDS: Mapping[str, str] = _TEXTS["needs"]  # what each action needs
_UNDOES = {
    "is at": ("pick",),
    "is on": ("unstack", "remove-wheel"),
    "contains": ("empty-shot", "pour-shot-to-clean-shaker", "pour-shot-to-used-shaker"),
    "is in": ("fetch",),
    "is tight": ("loosen",),
}
"""What a condition says to the actions that end it, for worlds that tell only what became true."""

_TOOLS = {"wrench": " is on | is tight", "jack": " is on | is tight", "pump": " is inflated"}
"""What a condition says that a tool is needed for."""

_TOLD_BY_DIFFERENCES = re.compile(r"Handempty |Hub ")
_BALL = re.compile(r"\b(drop)\b.*?\b(ball\w*)\b.*?\b(room\w*)\b")
_ON = re.compile(r"^(\S+) is on (\S+?)\.$")
_AT = re.compile(r"(\w+) is at (\w+)\.")


class Episode(lessons.Episode):
    @cached_property
    def conditions(self) -> list[str]:
        """The sentences of the goal, as observations have them."""
        conditions = []
        for sentence in self.task.removeprefix(GOAL).split(", "):
            if words := sentence.split():
                conditions.append(" ".join(words).capitalize())
        return conditions

    @property
    def says_everything(self) -> bool:
        return not _TOLD_BY_DIFFERENCES.search(self.states[0].observation)

    def find_verb(self, step: Step) -> str:
        words = split_words(step.action)
        return next((word for word in words if word in _NEEDS), "")

    def took_effect(self, number: int) -> bool:
        step = self.steps[number]
        text = step.action.lower()
        is_question = "check" in text or LOOK in text
        answer = self.states[number + 1].observation
        return step.understood and not is_question and bool(answer)

    @property
    def is_effective(self) -> bool:
        return self.took_effect(len(self.steps) - 1)

    @cached_property
    def reached(self) -> list[str]:
        """Conditions that hold, as far as was said."""
        holding = self._find_conditions(self.states[0].observation)
        for number, step in enumerate(self.steps):
            is_look = LOOK in step.action.lower()
            if not is_look and not self.took_effect(number):
                continue

            confirmed = self._find_conditions(self.states[number + 1].observation)
            if not self.says_everything and not is_look:
                confirmed |= {condition for condition in holding if not self._is_undone(condition, step)}
            holding = confirmed
        return [condition for condition in self.conditions if condition in holding]

    def _find_conditions(self, observation: str) -> set[str]:
        return {condition for condition in self.conditions if condition in observation}

    def _is_undone(self, condition: str, step: Step) -> bool:
        verb = self.find_verb(step)
        if not any(phrase in condition and verb in verbs for phrase, verbs in _UNDOES.items()):
            return False

        words = split_words(condition)
        things = {words[0], *words[2:3]}
        return not things.isdisjoint(split_words(step.action))

    @property
    def missing(self) -> list[str]:
        return [condition for condition in self.conditions if condition not in self.reached]

    @property
    def done(self) -> Words | None:
        return {"names": " ".join(self.reached)} if self.reached else None

    @property
    def left(self) -> Words | None:
        return {"names": " ".join(self.missing)} if self.missing else None

    @property
    def need(self) -> Words | None:
        verb = self.find_verb(self.newest)
        return {"verb": verb, "need": _NEEDS[verb]} if verb else None

    @property
    def is_repeated_in_vain(self) -> bool:
        if len(self.steps) < 2:
            return False

        previous, newest = self.steps[-2:]
        is_understood = previous.understood or newest.understood
        return not is_understood and previous.action == newest.action

    @cached_property
    def reached_before(self) -> list[str]:
        return Episode(self.task, self.states[:-1], self.steps[:-1]).reached

    @property
    def undoing(self) -> Words | None:
        """A condition of the goal held, and does no longer."""
        if not self.is_effective or len(self.steps) < 2:
            return None

        lost = set(self.reached_before) - set(self.reached)
        return {"verb": self.find_verb(self.newest)} if lost else None

    @property
    def is_circle(self) -> bool:
        """Everything is again as it was before."""
        observations = [state.observation for state in self.states[:-1]]
        return self.says_everything and self.is_effective and self.answer in observations

    @property
    def is_wrong_room(self) -> bool:
        """A ball was dropped where the goal does not want it."""
        match = _BALL.search(self.action)
        if match is None or not self.is_effective:
            return False

        _, ball, room = match.groups()
        goals = [condition for condition in self.conditions if condition.startswith(f"{ball.capitalize()} ")]
        return bool(goals) and not any(f"{room}." in goal for goal in goals)

    @property
    def is_wrong_order(self) -> bool:
        """A block was stacked on one that does not stand where it shall."""
        if self.find_verb(self.newest) != "stack" or not self.is_effective:
            return False

        words = split_words(self.newest.action)
        below = next((word for word in reversed(words) if f"on {word}." in self.answer), "")

        matches = [_ON.match(condition) for condition in self.missing]
        misplaced = [match[1].lower() for match in matches if match]
        return below in misplaced

    @property
    def is_half_empty(self) -> bool:
        """A room was left with one ball and a free arm, while another ball that belongs elsewhere stayed there."""
        if self.find_verb(self.newest) != "move" or not self.is_effective:
            return False

        last_view = self._find_last_view()
        if last_view.count(" is carrying ") != 1 or " is free." not in last_view:
            return False

        places = dict(_AT.findall(last_view))
        misplaced = {condition.partition(" ")[0] for condition in self.missing}
        return any(room == places["Robby"] and name in misplaced for name, room in places.items())

    def _find_last_view(self) -> str:
        """The newest observation, before the last one, that tells where the robot is; empty if none does."""
        for state in reversed(self.states[:-1]):
            if "Robby is at " in state.observation:
                return state.observation
        return ""

    @property
    def unneeded(self) -> Words | None:
        """What was fetched, if no condition that is left calls for it."""
        if self.find_verb(self.newest) != "fetch":
            return None
        fetched = re.search(r"You have ([\w-]+)\.", self.answer)
        if fetched is None:
            return None

        thing = fetched[1]
        use = _TOOLS.get(thing, rf"\b{thing}\b")
        if re.search(use, " ".join(self.missing), re.I):
            return None
        return {"thing": thing}

    @property
    def is_served_in_vain(self) -> bool:
        """A drink was poured that no condition of the goal asks for there."""
        if self.find_verb(self.newest) != "pour-shaker-to-shot" or not self.is_effective:
            return False
        return set(self.reached) <= set(self.reached_before)


LESSONS = LessonTable(__package__, Episode)


class Game:
    """One episode. `progress`: the largest share of the goal that held after any action; 0 before the first one, even
    where a part of the goal holds from the start."""

    def __init__(self, domain: Domain, problem: Problem):
        self.world = World(domain, problem)
        self.phrases = PHRASES[domain.name]
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
        texts = {CHECK}
        if self.phrases.differences:
            texts.add(LOOK)
        for ground in self.world.list_applicable(self.state):
            if len(set(ground.arguments)) == len(ground.arguments):
                texts.add(self.phrases.say_action(ground.name, ground.arguments))
        return sorted(texts)

    def step(self, text: str) -> tuple[str, bool]:
        """Take one text as it was written; the observation, and whether it was a valid action."""
        question = text.lower()
        if "check" in question:
            return f"Valid actions are: {', '.join(self.list_actions())}", True
        if LOOK in question:
            return self._describe_all(), True

        arities = {ground.name: len(ground.arguments) for ground in self.world.list_applicable(self.state)}
        action = read_action(text, arities, self.world.problem.objects)
        if action is None:
            return NOT_AN_ACTION, False

        old_state = self.state
        self.state = self.world.apply(old_state, *action)
        if self.state == old_state:
            return NOT_POSSIBLE, False

        reached = self.world.list_reached(self.state)
        share = sum(reached) / len(reached)
        self.progress = max(self.progress, share)

        if self.phrases.differences:
            observation = self.phrases.describe(self.state - old_state)
        else:
            observation = self._describe_all()
        if all(reached):
            observation += WON
        return observation, True

    def _describe_all(self) -> str:
        return self.phrases.describe(self.state | self.world.fixed)


class PddlEnvironment(TaughtEnvironment):
    """Plays one problem after the other. ``folder``: where AgentBoard's own are, if the user has them."""

    teaches = LESSONS
    table = TABLE
    verbs = ("check", "look")
    action_templates = COMMON

    def __init__(self, folder: str | None = None):
        self._folder = folder
        self._game: Game | None = None

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises what `load_setup` raises."""
        self._game = Game(load_domain(variant.task), load_setup(variant, self._folder))
        self._variant = variant
        self.task = self._game.goal
        self.action_templates = ACTION_TEMPLATES[variant.task]
        return State(self._game.first, "", "")

    def step(self, action: str) -> Transition:
        game = require_played(self._game)
        old_points = game.points
        observation, is_valid = game.step(action)
        return Transition(
            state=State(observation, "", ""),
            action=" ".join(action.split()),
            reward=game.points - old_points,
            score=game.points,
            understood=is_valid,
            done=game.is_won,
        )

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as AgentBoard offers it: less the full stops, and the question for this very list."""
        texts = require_played(self._game).list_actions()
        return [text.rstrip(". ") for text in texts if text != CHECK]

    def _list_goals(self) -> Sequence[Goal]:
        game = require_played(self._game)
        reached = game.world.list_reached(game.state)
        goals = []
        for fact, is_met in zip(game.world.problem.goal, reached, strict=True):
            goals.append(Goal(kind=fact[0], done=is_met, required=True))
        return goals
