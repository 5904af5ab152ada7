"""How facts and actions are worded, domain by domain: the texts of AgentBoard's PDDL games, to the last blank; and how
an action is read out of a text.

Objects stand in the order of the arguments. Some sentences mislead, and are kept: in barman, `holding` names the hand
and not what it holds, and `pour-shaker-to-shot` has the drink before the glass.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

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
    differences: bool = False
    """Whether only what became true is said after the first observation."""

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


_GRIPPER = Phrases(
    facts={
        "ball": "{} is a ball. ", "gripper": "{} is a gripper. ", "at-robby": "Robby is at {}. ", "at": "{} is at {}. ",
        "free": "{} is free. ", "carry": "{} is carrying {}. ",
    },
    actions={
        "move": "Move from {} to {}. ", "pick": "Pick up {} at {} with arm {}. ",
    },
)  # fmt: skip
_BLOCKWORLD = Phrases(
    facts={
        "on": "{} is on {}.", "clear": "The {} is clear.", "arm-empty": "Your arm is empty.",
        "holding": "You are holding {}. ", "on-table": "{} is on the table.",
    },
    actions={
        "pickup": "Pickup {}.", "putdown": "Putdown {}.", "stack": "Stack {} on {}.", "unstack": "Unstack {} from {}.",
    },
)  # fmt: skip
_POUR = "from a shot glass {} with {} to a %s shaker {} with hand {} from level {} to level {}"
_BARMAN = Phrases(
    facts={
        "ontable": "{} is on the table. ", "holding": "You are holding {}. ", "empty": "{} is empty. ",
        "contains": "{} contains {}. ", "clean": "{} is clean. ",
        "used": "Pour {} from a shot glass to a used shaker {}", "dispenses": "{} dispenses {}. ",
        "shaker-empty-level": "{} is at empty level {}. ", "shaker-level": "{} is at level {}. ",
        "next": "level {} is next to level {}. ", "unshaked": "{} is unshaked. ", "shaked": "{} is shaked. ",
        "cocktail-part1": "{} part1 ingredient is {}. ", "cocktail-part2": "{} part2 ingredient is {}. ",
    },
    actions={
        "grasp": "{} grasp {}. ", "leave": "{} leave {}. ",
        "fill-shot": "fill-shot glass {} with {} with {} and {} holding {}. ",
        "refill-shot": "refill-shot {} with {} with {} and {} holding {}. ",
        "empty-shot": "use hand {} to empty-shot glass {} with beverage {}. ",
        "clean-shot": "clean-shot glass {} with {} with hand {} holding shot glass and {}. ",
        "pour-shot-to-clean-shaker": f"pour-shot-to-clean-shaker {_POUR % 'clean'}",
        "pour-shot-to-used-shaker": f"pour-shot-to-used-shaker {_POUR % 'used'}",
        "shake": "shake a cocktail {} with ingredient {} and ingredient {} in a shaker {} with hand {} and hand {}",
        "pour-shaker-to-shot": "pour-shaker-to-shot to a shot glass {} the ingredient {} with hand {} from shaker {} "
            "from level {} to level {}",
        "empty-shaker": "use hand {} to empty-shaker {} with ingredient {} from level {} to level {}.",
        "clean-shaker": "use hand {} and hand {} to clean-shaker {}",
    },
    differences=True,
)  # fmt: skip
_TYREWORLD = Phrases(
    facts={
        "isopen": "{} is open.", "closed": "{} is closed.", "have": "You have {}.", "in": "{} is in {}.",
        "loose": "The nut {} on the hub {} is loose.", "tight": "The nut {} on the hub {} is tight.",
        "unlocked": "{} is unlocked.", "on-ground": "Hub {} is on the ground.",
        "not-on-ground": "Hub {} is not on the ground.", "inflated": "Wheel {} is inflated.",
        "not-inflated": "Wheel {} is not inflated.", "fastened": "Hub {} is fastened.",
        "unfastened": "Hub {} is unfastened.", "free": "{} is free. ", "on": "{} is on {}.",
        "intact": "Wheel {} is intact.",
    },
    actions={
        "open": "Open {}.", "close": "Close {}.", "fetch": "Fetch {} from {}.", "put-away": "Put-away {} in {}.",
        "loosen": "Loosen the nut {} on the hub {}.", "tighten": "Tighten the nut {} on the hub {}.",
        "jack-up": "jack-up the hub {}.", "jack-down": "Jack-down the hub {}.",
        "undo": "Undo the fastening of the nut {} on the hub {}.", "do-up": "Do-up the nut {} on the hub {}.",
        "remove-wheel": "Remove-wheel {} from the hub {}.", "put-on-wheel": "put-on-wheel {} on the hub {}.",
        "inflate": "Inflate the wheel {}.",
    },
    differences=True,
)  # fmt: skip

PHRASES = {"gripper": _GRIPPER, "blockworld": _BLOCKWORLD, "barman": _BARMAN, "tyreworld": _TYREWORLD}
"""By domain."""

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
