"""A shipped table of gold lengths, and whether recomputing gives the same."""

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from rsso_dspy.records import Variant


@dataclass(frozen=True, slots=True)
class GoldCheck:
    """A shipped gold length and its recomputation."""

    variant: Variant
    shipped: int
    computed: int

    @property
    def holds(self) -> bool:
        return self.shipped == self.computed


class GoldTable(Protocol):
    """A shipped table of gold lengths that can be recomputed."""

    def shipped_lengths(self) -> Mapping[Variant, int]: ...

    def recompute_lengths(self, sample: int | None = None, seed: int = 0) -> Iterator[GoldCheck]: ...


def check_lengths(
    shipped: Mapping[Variant, int], compute: Callable[[Variant], int], sample: int | None, seed: int
) -> Iterator[GoldCheck]:
    """Recompute all shipped lengths, or as many as ``sample`` says, drawn with the seed, one by one."""
    chosen = list(shipped) if sample is None else random.Random(seed).sample(list(shipped), min(sample, len(shipped)))
    yield from (GoldCheck(variant, shipped[variant], compute(variant)) for variant in chosen)
