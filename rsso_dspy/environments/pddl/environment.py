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
        return " ".join(sorted(self.say_fact(fact).capitalize() for fact in facts))

    def say_goal(self, facts: Iterable[Fact]) -> str:
        return GOAL + ", ".join(sorted(self.say_fact(fact) for fact in facts))


def _fill(sentences: Mapping[str, str], words: Fact) -> str:
    return sentences[words[0]].format(*words[1:]) if words[0] in sentences else " ".join(words)


PHRASES = {domain: Phrases(**row) for domain, row in read_data(__package__, "data/phrases.toml").items()}  # by domain


def split_words(text: str) -> list[str]:
    """Words in lower case: punctuation stands apart, hyphens and underscores do not."""
    return re.findall(r"[\w-]+", text.lower())


def read_action(text: str, arities: Mapping[str, int], objects: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Name and objects of the action that a text asks for. ``arities``: the actions that can be taken now, with how
    many objects they take. None when it names none of them, or too few objects."""
    words = split_words(text)
    name = next((word for word in words if word in arities), None)
    arguments = [word for word in words if word in objects]
    if name is None or len(arguments) < arities[name]:
        return None
    return name, tuple(arguments[: arities[name]])


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
        sentences = self.task.removeprefix(GOAL).split(", ")
        return [" ".join(text.split()).capitalize() for text in sentences if text.strip()]

    @property
    def says_everything(self) -> bool:
        return not _TOLD_BY_DIFFERENCES.search(self.states[0].observation)

    def find_verb(self, step: Step) -> str:
        return next((word for word in split_words(step.action) if word in _NEEDS), "")

    def took_effect(self, number: int) -> bool:
        step = self.steps[number]
        answer = self.states[number + 1].observation
        text = step.action.lower()
        return step.understood and "check" not in text and LOOK not in text and bool(answer)

    is_effective = property(lambda self: self.took_effect(len(self.steps) - 1))

    @cached_property
    def reached(self) -> list[str]:
        """Conditions that hold, as far as was said."""
        holding = {text for text in self.conditions if text in self.states[0].observation}
        for number, step in enumerate(self.steps):
            is_look = LOOK in step.action.lower()
            if not is_look and not self.took_effect(number):
                continue
            confirmed = {text for text in self.conditions if text in self.states[number + 1].observation}
            if not self.says_everything and not is_look:
                confirmed |= {text for text in holding if not self._is_undone(text, step)}
            holding = confirmed
        return [text for text in self.conditions if text in holding]

    def _is_undone(self, condition: str, step: Step) -> bool:
        verb = self.find_verb(step)
        words = split_words(condition)
        ends = any(phrase in condition and verb in verbs for phrase, verbs in _UNDOES.items())
        return ends and bool({words[0], *words[2:3]} & {*split_words(step.action)})

    @property
    def need(self) -> Words | None:
        verb = self.find_verb(self.newest)
        return {"verb": verb, "need": _NEEDS[verb]} if verb else None

    @property
    def is_repeated_in_vain(self) -> bool:
        pair = self.steps[-2:]
        return len(pair) > 1 and not any(step.understood for step in pair) and pair[0].action == pair[1].action

    @cached_property
    def reached_before(self) -> list[str]:
        return Episode(self.task, self.states[:-1], self.steps[:-1]).reached

    @property
    def undoing(self) -> Words | None:
        """A condition of the goal held, and does no longer."""
        if not self.is_effective or len(self.steps) < 2:
            return None
        return {"verb": self.find_verb(self.newest)} if set(self.reached_before) - set(self.reached) else None

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
        goals = [text for text in self.conditions if text.startswith(match[2].capitalize() + " ")]
        return bool(goals) and not any(f"{match[3]}." in text for text in goals)

    @property
    def is_wrong_order(self) -> bool:
        """A block was stacked on one that does not stand where it shall."""
        if self.find_verb(self.newest) != "stack" or not self.is_effective:
            return False
        words = split_words(self.newest.action)
        below = next((word for word in reversed(words) if f"on {word}." in self.answer), "")
        matches = [_ON.match(text) for text in self.missing]
        return below in [match[1].lower() for match in matches if match]

    @property
    def is_half_empty(self) -> bool:
        """A room was left with one ball and a free arm, while another ball that belongs elsewhere stayed there."""
        observations = (state.observation for state in reversed(self.states[:-1]))
        last_view = next((text for text in observations if "Robby is at " in text), "")
        places = dict(_AT.findall(last_view))
        misplaced = {text.partition(" ")[0] for text in self.missing}
        stayed = [name for name, room in places.items() if room == places["Robby"] and name in misplaced]
        alone = last_view.count(" is carrying ") == 1 and " is free." in last_view
        return self.find_verb(self.newest) == "move" and self.is_effective and alone and bool(stayed)

    @property
    def unneeded(self) -> Words | None:
        """What was fetched, if no condition that is left calls for it."""
        fetched = re.search(r"You have ([\w-]+)\.", self.answer) if self.find_verb(self.newest) == "fetch" else None
        if fetched is None:
            return None
        use = _TOOLS.get(fetched[1], rf"\b{fetched[1]}\b")
        return None if re.search(use, " ".join(self.missing), re.I) else {"thing": fetched[1]}

    @property
    def is_served_in_vain(self) -> bool:
        """A drink was poured that no condition of the goal asks for there."""
        is_served = self.find_verb(self.newest) == "pour-shaker-to-shot" and self.is_effective
        return is_served and set(self.reached) <= set(self.reached_before)

    missing = property(lambda self: [text for text in self.conditions if text not in self.reached])
    done = property(lambda self: {"names": " ".join(self.reached)} if self.reached else None)
    left = property(lambda self: {"names": " ".join(self.missing)} if self.missing else None)


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
        applicable = ((ground.name, ground.arguments) for ground in self.world.list_applicable(self.state))
        phrases = [
            self.phrases.say_action(name, arguments)
            for name, arguments in applicable
            if len({*arguments}) == len(arguments)
        ]
        return sorted({*phrases, CHECK, *([LOOK] if self.phrases.differences else [])})

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
        self.progress = max(self.progress, sum(reached) / len(reached))
        if self.phrases.differences:
            observation = self.phrases.describe(self.state - old_state)
        else:
            observation = self._describe_all()
        return observation + WON if all(reached) else observation, True

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
        observation, valid = game.step(action)
        state = State(observation, "", "")
        score = game.points
        return Transition(
            state, " ".join(action.split()), score - old_points, score, understood=valid, done=game.is_won
        )

    def admissible_actions(self) -> Sequence[str]:
        """What can be done now, as AgentBoard offers it: less the full stops, and the question for this very list."""
        return [text.rstrip(". ") for text in require_played(self._game).list_actions() if text != CHECK]

    def _list_goals(self) -> Sequence[Goal]:
        game = require_played(self._game)
        reached = game.world.list_reached(game.state)
        return [Goal(fact[0], is_met, True) for fact, is_met in zip(game.world.problem.goal, reached, strict=True)]
