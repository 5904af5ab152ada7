"""A playbook of bullets with counts of help and harm, merged by code (Agentic Context Engineering, Zhang et al. 2025).

After every attempt a model tags the bullets that were shown as helpful, harmful or neutral, and gives new ones. Code
merges them: counts go up, a new bullet that repeats a known one is left out, and no text is ever rewritten.
"""

from collections.abc import Sequence

from rsso_dspy.memory import find_nearest
from rsso_dspy.memory.contenders import Entry, EntryMemory, clean_text
from rsso_dspy.records import Trajectory

ALIKE = 0.9
"""Two bullets with this cosine or more count as equal."""
MOST_BULLETS = 5
"""How many new bullets are taken from one attempt."""
TAGS = ("helpful", "harmful")
"""Tags that are counted; a model may also call a bullet neutral."""


class Playbook(EntryMemory):
    """A playbook of bullets with counts of help and harm."""

    region, letter, asks, calls = "constitution", "B", ("playbook_reviewer",), {"reflector": 1}

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        """Order by harm, so that the most harmful bullets are left out first."""
        return sorted(readable, key=_weigh)

    def format_entry(self, entry: Entry) -> str:
        counts = ", ".join(f"{tag} {entry.data[tag]}" for tag in TAGS if entry.data[tag])
        return f"- [{entry.id}{f': {counts}' if counts else ''}] {entry.text}"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts |= {"helpful": 0, "harmful": 0, "again": 0}
        said = self.ask_about(trajectory, counts, playbook=self.shown.text)
        if said is None:
            return
        tags = {each.id: each.tag for each in said.bullet_tags or ()}
        for entry in [entry for entry in self.held if entry.id in self.shown.ids]:
            if (tag := tags.get(entry.id, "")) in TAGS:
                self.change_entry(entry, **{tag: entry.data[tag] + 1})
                counts[tag] += 1
        for text in [*filter(None, map(clean_text, said.new_bullets or ()))][:MOST_BULLETS]:
            nearest = find_nearest(self.services.runtime.embed, text, [entry.text for entry in self.held])
            if nearest and nearest[0][1] >= ALIKE:
                counts["again"] += 1
            else:
                self.add_entry(text, trajectory, helpful=0, harmful=0)
                counts["written"] += 1

    def find_weakest(self) -> Entry:
        return min(self.held, key=_weigh)


def _weigh(entry: Entry) -> int:
    return int(entry.data["helpful"]) - int(entry.data["harmful"])
