"""What tasks of one type have in common: patterns of success and of failure, one sentence each, that reflections write
for the other variants of a stream (improvement `across-tasks`). A variant never reads what was written on it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

MOST_PATTERNS, MOST_CHARACTERS = 5, 300  # of a kind and task type, the newest; of a pattern


@dataclass(frozen=True, slots=True)
class Pattern:
    text: str
    variant: str  # key of the variant that it was written on
    is_success: bool = False

    @property
    def task_type(self) -> str:
        return self.variant.partition("::")[0]


@dataclass
class PatternMemory:
    patterns: list[Pattern] = field(default_factory=list)  # oldest first

    def add_pattern(self, text: str, variant: str, is_success: bool) -> bool:
        """Keep a pattern; returns whether there is one that is new."""
        line = " ".join(text.split())[:MOST_CHARACTERS]
        pattern = Pattern(line, variant, is_success)
        if not line or line.strip(".").lower() == "none" or pattern in self.patterns:
            return False

        alike = [existing for existing in self.patterns if _are_alike(existing, pattern)]
        too_many = alike[: max(0, len(alike) + 1 - MOST_PATTERNS)]
        self.patterns = [existing for existing in self.patterns if existing not in too_many]
        self.patterns.append(pattern)
        return True

    def describe_for(self, variant: str) -> str:
        """Return what a variant reads: the patterns of its task type that others wrote; an empty text for none."""
        task_type = variant.partition("::")[0]
        readable = [pattern for pattern in self.patterns if pattern.task_type == task_type]
        readable = [pattern for pattern in readable if pattern.variant != variant]
        lines = []
        for heading, is_success in (("What worked:", True), ("What failed:", False)):
            texts = dict.fromkeys(pattern.text for pattern in readable if pattern.is_success == is_success)
            if texts:
                lines += [heading, *(f"- {text}" for text in texts)]
        return "\n".join([f"Other tasks of this type ({task_type})", *lines]) if lines else ""

    def dump(self) -> list[dict[str, Any]]:
        return [asdict(pattern) for pattern in self.patterns]

    @classmethod
    def load(cls, rows: Sequence[Mapping[str, Any]]) -> "PatternMemory":
        return cls([Pattern(**row) for row in rows])


def _are_alike(one: Pattern, other: Pattern) -> bool:
    return one.task_type == other.task_type and one.is_success == other.is_success
