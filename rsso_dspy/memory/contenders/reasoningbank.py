"""Strategies from successes and failures, retrieved by the words of the task (ReasoningBank, Ouyang et al. 2025).

A model draws at most three strategies, each a title, a description and a content, from every attempt, solved or not.
The strategies of the `retrieved` attempts whose tasks are worded most like the present one are shown.
"""

from collections.abc import Sequence

from rsso_dspy.memory.contenders import Entry, EntryMemory, clean_text
from rsso_dspy.records import Trajectory

MOST_STRATEGIES = 3
"""How many strategies are taken from one attempt (section 3.2)."""


class ReasoningBank(EntryMemory):
    """Strategies with title, description and content."""

    region, letter, newest_first = "past_strategies", "S", False
    asks, calls = ("strategy_writer",), {"verbalizer": 1}

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        nearest = self.rank_by_task(readable)
        sources = list(dict.fromkeys(entry.learned for entry in nearest))[: self.settings.retrieved]
        return [entry for entry in nearest if entry.learned in sources]

    def format_entry(self, entry: Entry) -> str:
        return f"- {entry.data['title']}: {entry.data['description']}\n  {entry.text}"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        said = self.ask_about(trajectory, counts)
        for each in ((said and said.strategies) or ())[:MOST_STRATEGIES]:
            title, description, content = map(clean_text, (each.title, each.description, each.content))
            if content:
                self.add_entry(content, trajectory, trajectory.task, title=title, description=description)
                counts["written"] += 1
