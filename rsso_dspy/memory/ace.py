"""A playbook of bullets with counts of help and harm, merged by code (Agentic Context Engineering, Zhang et al. 2025).

After every attempt a model tags the bullets that were shown as helpful, harmful or neutral, and gives new ones. Code
merges them: counts go up, a new bullet that repeats a known one is left out, and no text is ever rewritten.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rsso_dspy.memory.entries import Entry, EntryMemory, EntrySettings
from rsso_dspy.memory.nearest import Embed, find_nearest
from rsso_dspy.records import Trajectory

ALIKE = 0.9
"""Two bullets with this cosine or more count as equal."""
MOST_BULLETS = 5
"""How many new bullets are taken from one attempt."""
TAGS = ("helpful", "harmful", "neutral")


class PlaybookReview(NamedTuple):
    """A model's review of the playbook after an attempt."""

    tags: Mapping[str, str]
    """One of `TAGS` for each bullet id."""
    bullets: tuple[str, ...]
    """New bullets."""


Review = Callable[[Trajectory, str], PlaybookReview | None]
"""Takes an attempt and the playbook as it was shown; returns a review, or None for a malformed answer."""


class Playbook(EntryMemory):
    """A playbook of bullets with counts of help and harm."""

    region, letter = "constitution", "B"

    def __init__(self, review: Review, embed: Embed, settings: EntrySettings | None = None, shared: bool = True):
        super().__init__(settings, shared)
        self._review = review
        self._embed = embed

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        """Order by harm, so that the most harmful bullets are left out first."""
        return sorted(readable, key=_weigh)

    def format_entry(self, entry: Entry) -> str:
        counts = ", ".join(f"{tag} {entry.data[tag]}" for tag in TAGS[:2] if entry.data[tag])
        return f"- [{entry.id}{f': {counts}' if counts else ''}] {entry.text}"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts |= {"calls": 1, "helpful": 0, "harmful": 0, "again": 0}
        said = self._review(trajectory, self._shown.text)
        if said is None:
            counts["malformed"] += 1
            return
        for entry in [entry for entry in self.entries if entry.id in self._shown.ids]:
            tag = said.tags.get(entry.id, "")
            if tag in TAGS[:2]:
                self.change_entry(entry, **{tag: entry.data[tag] + 1})
                counts[tag] += 1
        for text in said.bullets[:MOST_BULLETS]:
            if self._is_known(text):
                counts["again"] += 1
            elif text:
                self.add_entry(text, trajectory, helpful=0, harmful=0)
                counts["written"] += 1

    def _is_known(self, text: str) -> bool:
        nearest = find_nearest(self._embed, text, [entry.text for entry in self.entries]) if text else []
        return bool(nearest) and nearest[0][1] >= ALIKE

    def find_weakest(self) -> Entry:
        return min(self.entries, key=_weigh)


def _weigh(entry: Entry) -> int:
    return int(entry.data["helpful"]) - int(entry.data["harmful"])
