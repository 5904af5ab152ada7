"""How many reflections are kept, and which of the eight improvements are on."""

from dataclasses import dataclass
from typing import Literal, get_args

Improvement = Literal[
    "structured", "loops", "hierarchical", "across-tasks", "adaptive", "novelty", "counterfactual", "retrieval"
]
"""structured: failed action pattern, root cause, missing exploration, strategy adjustment, priority locations.
loops: the reflector is told of semantic loops. hierarchical: plans that leave are distilled into a long-term memory.
across-tasks: plans go on to the next variants of their task type. adaptive: five plans are shown after five failures.
novelty: a plan that says what an earlier one says is not kept. counterfactual: the critical step, what should have been
done, the expected outcome. retrieval: plans of other units, by similarity of the tasks."""

IMPROVEMENTS: tuple[Improvement, ...] = get_args(Improvement)

WIDE = 5
"""Plans that an adaptive window shows, after as many failures."""


@dataclass(frozen=True, slots=True)
class ReflectionSettings:
    """Without improvements, the release of Reflexion: the last three plans."""

    size: int = 3
    """Plans kept and shown."""
    improvements: frozenset[str] = frozenset()
    """Those of `IMPROVEMENTS` that are on."""
    novelty_threshold: float = 0.85
    """Cosine similarity from which on a plan says what an earlier one says."""
    retrieved: int = 3
    """Plans of other units that retrieval shows."""
    index: str | None = None
    """Folder of the run whose reflections retrieval reads; without one it reads what the stream passes on."""

    def has(self, improvement: Improvement) -> bool:
        return improvement in self.improvements

    @property
    def is_passed_on(self) -> bool:
        """Whether plans go from each unit of a stream to the next."""
        return self.has("across-tasks") or (self.has("retrieval") and self.index is None)

    @property
    def tells_variants_apart(self) -> bool:
        """Whether a plan has to say which variant it was written on."""
        return self.has("across-tasks") or self.has("retrieval")

    @property
    def most_kept(self) -> int:
        """Plans that one unit keeps at most."""
        return max(self.size, WIDE) if self.has("adaptive") else self.size
