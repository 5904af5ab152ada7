"""How facts and actions are worded, domain by domain: the texts of AgentBoard's PDDL games, to the last blank.

Objects stand in the order of the arguments. Some sentences mislead, and are kept: in barman, `holding` names the hand
and not what it holds, and `pour-shaker-to-shot` has the drink before the glass.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rsso_dspy.environments.pddl.strips import Fact

CHECK = "check valid actions"
LOOK = "look around"
GOAL = "The goal is to satisfy the following conditions: "


@dataclass(frozen=True, eq=False)
class Phrases:
    """The wording of one domain."""

    facts: Mapping[str, str]
    """Predicate to sentence, ``{}`` for each argument; one without a sentence is said as it is written."""
    actions: Mapping[str, str]
    differences: bool = False
    """Whether only what became true is said after the first observation."""

    def say_fact(self, fact: Fact) -> str:
        predicate, *arguments = fact
        return self.facts.get(predicate, _write_plainly(predicate, arguments)).format(*arguments)

    def say_action(self, name: str, arguments: Iterable[str]) -> str:
        listed = list(arguments)
        return self.actions.get(name, _write_plainly(name, listed)).format(*listed)

    def list_sentences(self, facts: Iterable[Fact]) -> list[str]:
        """Sentences of facts, in order: the first letter large, all others small."""
        return sorted(self.say_fact(fact).capitalize() for fact in facts)

    def say_goal(self, facts: Iterable[Fact]) -> str:
        return GOAL + ", ".join(sorted(self.say_fact(fact) for fact in facts))


def _write_plainly(name: str, arguments: list[str]) -> str:
    return " ".join([name, *("{}" for _ in arguments)])


GRIPPER = Phrases(
    facts={
        "ball": "{} is a ball. ",
        "gripper": "{} is a gripper. ",
        "at-robby": "Robby is at {}. ",
        "at": "{} is at {}. ",
        "free": "{} is free. ",
        "carry": "{} is carrying {}. ",
    },
    actions={"move": "Move from {} to {}. ", "pick": "Pick up {} at {} with arm {}. "},
)
BLOCKWORLD = Phrases(
    facts={
        "on": "{} is on {}.",
        "clear": "The {} is clear.",
        "arm-empty": "Your arm is empty.",
        "holding": "You are holding {}. ",
        "on-table": "{} is on the table.",
    },
    actions={
        "pickup": "Pickup {}.",
        "putdown": "Putdown {}.",
        "stack": "Stack {} on {}.",
        "unstack": "Unstack {} from {}.",
    },
)
_POUR = "from a shot glass {} with {} to a %s shaker {} with hand {} from level {} to level {}"
BARMAN = Phrases(
    facts={
        "ontable": "{} is on the table. ",
        "holding": "You are holding {}. ",
        "empty": "{} is empty. ",
        "contains": "{} contains {}. ",
        "clean": "{} is clean. ",
        "used": "Pour {} from a shot glass to a used shaker {}",
        "dispenses": "{} dispenses {}. ",
        "shaker-empty-level": "{} is at empty level {}. ",
        "shaker-level": "{} is at level {}. ",
        "next": "level {} is next to level {}. ",
        "unshaked": "{} is unshaked. ",
        "shaked": "{} is shaked. ",
        "cocktail-part1": "{} part1 ingredient is {}. ",
        "cocktail-part2": "{} part2 ingredient is {}. ",
    },
    actions={
        "grasp": "{} grasp {}. ",
        "leave": "{} leave {}. ",
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
)
TYREWORLD = Phrases(
    facts={
        "isopen": "{} is open.",
        "closed": "{} is closed.",
        "have": "You have {}.",
        "in": "{} is in {}.",
        "loose": "The nut {} on the hub {} is loose.",
        "tight": "The nut {} on the hub {} is tight.",
        "unlocked": "{} is unlocked.",
        "on-ground": "Hub {} is on the ground.",
        "not-on-ground": "Hub {} is not on the ground.",
        "inflated": "Wheel {} is inflated.",
        "not-inflated": "Wheel {} is not inflated.",
        "fastened": "Hub {} is fastened.",
        "unfastened": "Hub {} is unfastened.",
        "free": "{} is free. ",
        "on": "{} is on {}.",
        "intact": "Wheel {} is intact.",
    },
    actions={
        "open": "Open {}.",
        "close": "Close {}.",
        "fetch": "Fetch {} from {}.",
        "put-away": "Put-away {} in {}.",
        "loosen": "Loosen the nut {} on the hub {}.",
        "tighten": "Tighten the nut {} on the hub {}.",
        "jack-up": "jack-up the hub {}.",
        "jack-down": "Jack-down the hub {}.",
        "undo": "Undo the fastening of the nut {} on the hub {}.",
        "do-up": "Do-up the nut {} on the hub {}.",
        "remove-wheel": "Remove-wheel {} from the hub {}.",
        "put-on-wheel": "put-on-wheel {} on the hub {}.",
        "inflate": "Inflate the wheel {}.",
    },
    differences=True,
)

PHRASES = {"gripper": GRIPPER, "blockworld": BLOCKWORLD, "barman": BARMAN, "tyreworld": TYREWORLD}
"""By domain."""
