"""Strategies from successes and failures, retrieved by the words of the task (ReasoningBank, Ouyang et al. 2025).

A model draws at most three strategies, each a title, a description and a content, from every attempt, solved or not.
The strategies of the `retrieved` attempts whose tasks are worded most like the present one are shown.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rsso_dspy.memory.entries import Entry, EntryMemory, EntrySettings
from rsso_dspy.memory.nearest import Embed, find_nearest
from rsso_dspy.records import Trajectory

MOST_STRATEGIES = 3
"""How many strategies are taken from one attempt (section 3.2)."""


class StrategyText(NamedTuple):
    """One strategy in a writer's answer."""

    title: str
    description: str
    content: str


Extract = Callable[[Trajectory], Sequence[StrategyText] | None]
"""Takes an attempt; returns strategies, or None for a malformed answer."""


class ReasoningBank(EntryMemory):
    """Strategies with title, description and content."""

    region, letter, newest_first = "past_strategies", "S", False

    def __init__(self, extract: Extract, embed: Embed, settings: EntrySettings | None = None, shared: bool = True):
        super().__init__(settings, shared)
        self._extract = extract
        self._embed = embed

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        nearest = [readable[place] for place, _ in find_nearest(self._embed, self._task, [e.about for e in readable])]
        sources = list(dict.fromkeys(entry.learned for entry in nearest))[: self.settings.retrieved]
        return [entry for entry in nearest if entry.learned in sources]

    def format_entry(self, entry: Entry) -> str:
        return f"- {entry.data['title']}: {entry.data['description']}\n  {entry.text}"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts["calls"] += 1
        found = self._extract(trajectory)
        if found is None:
            counts["malformed"] += 1
            return
        for title, description, content in found[:MOST_STRATEGIES]:
            if content:
                self.add_entry(content, trajectory, trajectory.task, title=title, description=description)
                counts["written"] += 1
