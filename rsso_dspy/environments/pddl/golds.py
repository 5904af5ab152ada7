"""The shipped lengths of plans, and whether the search still finds them."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rsso_dspy.environments.pddl.game import load_domain
from rsso_dspy.environments.pddl.generator import find_length
from rsso_dspy.environments.pddl.grounding import World
from rsso_dspy.environments.pddl.tasks import TABLE, get_gold_length, list_made, load_setup
from rsso_dspy.records import Variant

__all__ = ["GoldLengths"]


@dataclass(frozen=True, slots=True)
class GoldLengthCheck:
    """A shipped length beside a fresh search."""

    variant: Variant
    shipped: int
    computed: int

    @property
    def holds(self) -> bool:
        return self.shipped == self.computed


class GoldLengths:
    """Lengths of the problems that were made here; AgentBoard's have none, and `GOLD_OF_FILES` in its place."""

    def shipped_lengths(self) -> Mapping[Variant, int]:
        return {variant: get_gold_length(variant) for task in TABLE.tasks() for variant in list_made(task)}

    def recompute(self, sample: int | None = None, seed: int = 0) -> Iterator[GoldLengthCheck]:
        shipped = self.shipped_lengths()
        chosen = list(shipped) if sample is None else random.Random(seed).sample(list(shipped), sample)
        for variant in chosen:
            world = World(load_domain(variant.task), load_setup(variant))
            yield GoldLengthCheck(variant, shipped[variant], find_length(world) or 0)
