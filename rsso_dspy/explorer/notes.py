"""The player's notebook: a last sentence of its reasoning that carries over what leaves the history window.

``Notes: searched kitchen, hallway; doors to workshop; thermometer in kitchen; focused on thermometer; plan step 3.``
"""

import re
from dataclasses import dataclass, field

_START = "Notes: "
_SEEN = re.compile(r"^(.+) in (.+)$")
_LONGEST = 14


@dataclass
class Notebook:
    """Things worth remembering. Lists are in the order of discovery."""

    searched: list[str] = field(default_factory=list)
    """Rooms that were entered."""
    doors: list[str] = field(default_factory=list)
    """Rooms known but not entered."""
    seen: dict[str, str] = field(default_factory=dict)
    """Thing that matters, to the room where it was seen."""
    focused: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    """Actions other than travel that had an effect and should not be repeated."""
    failed: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    """Readings and the like: name to value."""
    plan: int = 0
    """Number of steps taken of the plan from an earlier attempt."""

    @classmethod
    def parse(cls, reasoning: str) -> "Notebook":
        """The notes in a reasoning; empty ones when there are none."""
        notes = cls()
        _, found, text = reasoning.rpartition(_START)
        if not found:
            return notes
        for part in text.split("\n", 1)[0].rstrip(". ").split("; "):
            kind, _, rest = part.partition(": ")
            values = [value for value in rest.split(", ") if value]
            if kind in ("searched", "doors", "focused", "did", "failed"):
                setattr(notes, kind, values)
            elif kind == "seen":
                notes.seen = {m.group(1): m.group(2) for value in values if (m := _SEEN.match(value))}
            elif kind == "facts":
                notes.facts = dict(value.split(" = ", 1) for value in values if " = " in value)
            elif kind == "plan step" and rest.isdigit():
                notes.plan = int(rest)
        return notes

    def to_sentence(self) -> str:
        """One sentence, empty parts left out, each part bounded."""
        parts = []
        for kind in ("searched", "doors", "focused", "did", "failed"):
            if values := getattr(self, kind)[-_LONGEST:]:
                parts.append(f"{kind}: {', '.join(values)}")
        if self.seen:
            parts.append(
                "seen: " + ", ".join(f"{name} in {room}" for name, room in list(self.seen.items())[-_LONGEST:])
            )
        if self.facts:
            parts.append("facts: " + ", ".join(f"{name} = {value}" for name, value in self.facts.items()))
        if self.plan:
            parts.append(f"plan step: {self.plan}")
        return f"{_START}{'; '.join(parts)}." if parts else ""
