"""How facts and actions are worded, domain by domain: the texts of AgentBoard's PDDL games, to the last blank; and how
an action is read out of a text. Objects stand in the order of the arguments. Some sentences mislead, and are kept: in
barman, `holding` names the hand and not what it holds, and `pour-shaker-to-shot` has the drink before the glass."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from rsso_dspy.environments.lessons import read_data, read_texts
from rsso_dspy.environments.pddl.strips import Fact

CHECK = "check valid actions"
LOOK = "look around"
GOAL = "The goal is to satisfy the following conditions: "
_NO_EFFECT = "The action is not valid and therefore takes no effect. Please "
NOT_AN_ACTION = f"{_NO_EFFECT}check valid actions."
NOT_POSSIBLE = f"{_NO_EFFECT}remember to satisfy the restriction of actions. You can also check valid actions."
WON = " The goal is satisfied."


@dataclass(frozen=True, eq=False)
class Phrases:
    """The wording of one domain."""

    facts: Mapping[str, str]
    """Predicate to sentence, ``{}`` for each argument; one without a sentence is said as it is written."""
    actions: Mapping[str, str]
    differences: bool = False  # whether only what became true is said after the first observation

    def say_fact(self, fact: Fact) -> str:
        return _fill(self.facts, fact)

    def say_action(self, name: str, arguments: Iterable[str]) -> str:
        return _fill(self.actions, (name, *arguments))

    def list_sentences(self, facts: Iterable[Fact]) -> list[str]:
        """Sentences of facts, in order: the first letter large, all others small."""
        return sorted(self.say_fact(fact).capitalize() for fact in facts)

    def say_goal(self, facts: Iterable[Fact]) -> str:
        return GOAL + ", ".join(sorted(self.say_fact(fact) for fact in facts))


def _fill(sentences: Mapping[str, str], words: Fact) -> str:
    return sentences[words[0]].format(*words[1:]) if words[0] in sentences else " ".join(words)


PHRASES = {domain: Phrases(**row) for domain, row in read_data(__package__, "data/phrases.toml").items()}  # by domain
_APART = re.compile(r"[\[\](){}<>;@#$%&?!\"“”«»]|\.\.\.|--|[:,](?!\d)|\.(?=[\])}>\"'\s]|$)|``|''|…")
_ENDING = re.compile(r"(?:'(?:s|m|d|ll|re|ve)?|n't|')$")


def split_words(text: str) -> list[str]:
    """Words in lower case, as the usual tokenizer of the games splits them: punctuation stands apart, hyphens and
    underscores do not."""
    return [bare for word in _APART.sub(" ", text.lower()).split() if (bare := _ENDING.sub("", word))]


def read_action(text: str, arities: Mapping[str, int], objects: Collection[str]) -> tuple[str, tuple[str, ...]] | None:
    """Name and objects of the action that a text asks for. ``arities``: the actions that can be taken now, with how
    many objects they take. None when it names none of them, or too few objects."""
    words = split_words(text)
    name = next((word for word in words if word in arities), None)
    named = [word for word in words if word in objects]
    if name is None or len(named) < arities[name]:
        return None
    return name, tuple(named[: arities[name]])


_TEMPLATES: Mapping[str, str] = read_texts(__package__)["templates"]
COMMON = _TEMPLATES["all"]
ACTION_TEMPLATES = {domain: f"{COMMON}\n{_TEMPLATES[domain]}" for domain in PHRASES}  # by domain
