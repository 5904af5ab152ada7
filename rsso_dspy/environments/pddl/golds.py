"""The shipped lengths of plans, and whether the search still finds them."""

from collections.abc import Iterator, Mapping

from rsso_dspy.environments.golds import GoldCheck, check_lengths
from rsso_dspy.environments.pddl.game import Game, load_domain
from rsso_dspy.environments.pddl.generator import find_any_plan
from rsso_dspy.environments.pddl.grounding import World
from rsso_dspy.environments.pddl.tasks import TABLE, get_gold_length, list_made, load_setup
from rsso_dspy.errors import GoldUnknown
from rsso_dspy.records import Variant


def find_solution(variant: Variant) -> tuple[str, ...]:
    """The actions of the shipped plan, as the game offers them. Raises ``GoldUnknown`` for AgentBoard's problems."""
    if variant not in list_made(variant.task):
        raise GoldUnknown(f"no plan of {variant.key} is shipped: it is one of AgentBoard's problems")
    game = Game(load_domain(variant.task), load_setup(variant))
    plan = find_any_plan(game.world)
    assert plan is not None, "every problem that is shipped was solved"
    return tuple(game.phrases.say_action(each.name, each.arguments).rstrip(". ") for each in plan)


class GoldLengths:
    """Lengths of the problems that were made here; AgentBoard's have none, and `GOLD_OF_FILES` in its place."""

    def shipped_lengths(self) -> Mapping[Variant, int]:
        return {variant: get_gold_length(variant) for task in TABLE.tasks() for variant in list_made(task)}

    def recompute_lengths(self, sample: int | None = None, seed: int = 0) -> Iterator[GoldCheck]:
        return check_lengths(self.shipped_lengths(), _compute_length, sample, seed)


def _compute_length(variant: Variant) -> int:
    return len(find_any_plan(World(load_domain(variant.task), load_setup(variant))) or ())
