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


COMMON = (
    "Each action is one line in the form of a template, with objects under the names that the observations give them. "
    "An action whose conditions are not met takes no effect and costs a step, and so does a question."
)
_QUESTIONS = "check valid actions"

_HELP = {
    "gripper": (
        "move: the robot goes from the room it is in to another one, with what it carries.\n"
        "pick up: takes a ball of the room the robot is in with an arm that is free. An arm carries one ball.\n"
        "drop: leaves a carried ball in the room the robot is in, and the arm is free again.",
        "move from ROOM to ROOM\npick up BALL at ROOM with arm ARM\ndrop BALL ROOM ARM",
    ),
    "blockworld": (
        "pickup: takes a clear block from the table; unstack: takes a clear block from the block it stands on. Either "
        "needs an empty arm.\n"
        "putdown: puts the held block on the table; stack: puts it on a clear block.",
        "pickup BLOCK\nputdown BLOCK\nstack BLOCK on BLOCK\nunstack BLOCK from BLOCK",
    ),
    "barman": (
        "grasp, leave: a hand takes a shot glass or the shaker from the table, or puts it back. A hand holds one.\n"
        "fill-shot: fills a clean, empty glass in one hand from a dispenser; refill-shot: an empty glass that held the "
        "same before. The other hand has to be empty, as it has for cleaning and shaking.\n"
        "empty-shot: pours a glass away; clean-shot: cleans an empty glass of what was in it.\n"
        "pour-shot-to-clean-shaker: pours a glass into a clean, empty shaker; pour-shot-to-used-shaker: adds to what "
        "is in it. Each raises its level by one.\n"
        "shake: makes the cocktail of its part1 and part2 ingredient, both in the shaker.\n"
        "pour-shaker-to-shot: pours it into a clean, empty glass, and the level falls by one. The drink is named "
        "before the glass.\n"
        "empty-shaker, clean-shaker: make the shaker ready for the next cocktail.",
        "left grasp CONTAINER\nright grasp CONTAINER\nleft leave CONTAINER\nright leave CONTAINER\n"
        "fill-shot glass SHOT with INGREDIENT with HAND and HAND holding DISPENSER\n"
        "refill-shot SHOT with INGREDIENT with HAND and HAND holding DISPENSER\n"
        "use hand HAND to empty-shot glass SHOT with beverage BEVERAGE\n"
        "clean-shot glass SHOT with BEVERAGE with hand HAND holding shot glass and HAND\n"
        "pour-shot-to-clean-shaker from a shot glass SHOT with INGREDIENT to a clean shaker SHAKER with hand HAND "
        "from level LEVEL to level LEVEL\n"
        "pour-shot-to-used-shaker from a shot glass SHOT with INGREDIENT to a used shaker SHAKER with hand HAND "
        "from level LEVEL to level LEVEL\n"
        "shake a cocktail COCKTAIL with ingredient PART1 and ingredient PART2 in a shaker SHAKER with hand HAND "
        "and hand HAND\n"
        "pour-shaker-to-shot to a shot glass BEVERAGE the ingredient SHOT with hand HAND from shaker SHAKER "
        "from level LEVEL to level LEVEL\n"
        "use hand HAND to empty-shaker SHAKER with ingredient COCKTAIL from level LEVEL to level LEVEL\n"
        "use hand HAND and hand HAND to clean-shaker SHAKER\nlook around",
    ),
    "tyreworld": (
        "open, close: a container that is not locked; fetch, put-away: only while it is open.\n"
        "loosen, tighten: a nut, with the wrench, while its hub is on the ground.\n"
        "jack-up: raises a hub with the jack, which stays under it until jack-down.\n"
        "undo, do-up: takes a loose nut off a raised hub, or puts it on, with the wrench.\n"
        "remove-wheel, put-on-wheel: on a raised hub whose nut is off.\n"
        "inflate: an intact wheel, with the pump.",
        "open CONTAINER\nclose CONTAINER\nfetch THING from CONTAINER\nput-away THING in CONTAINER\n"
        "loosen the nut NUT on the hub HUB\ntighten the nut NUT on the hub HUB\njack-up the hub HUB\n"
        "jack-down the hub HUB\nundo the fastening of the nut NUT on the hub HUB\ndo-up the nut NUT on the hub HUB\n"
        "remove-wheel WHEEL from the hub HUB\nput-on-wheel WHEEL on the hub HUB\ninflate the wheel WHEEL\nlook around",
    ),
}

ACTION_TEMPLATES = {
    domain: f"{COMMON}\n{told}\nTemplates:\n{forms}\n{_QUESTIONS}" for domain, (told, forms) in _HELP.items()
}
"""By domain."""
