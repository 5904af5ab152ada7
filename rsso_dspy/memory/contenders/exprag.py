"""Past attempts at other tasks, retrieved by the words of the task (ExpRAG of Evo-Memory, Wei et al. 2025).

No model writes: an attempt is kept as it was played, and the `retrieved` attempts whose tasks are worded most like the
present one are shown, nearest first.
"""

from collections.abc import Sequence

from rsso_dspy.memory.contenders import Entry, EntryMemory, shorten_text
from rsso_dspy.records import Trajectory


class ExpRag(EntryMemory):
    """Past attempts, each shown whole unless it exceeds its share of the prompt."""

    region, letter, newest_first = "experience", "X", False

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        return self.rank_by_task(readable)[: self.settings.retrieved]

    def format_entry(self, entry: Entry) -> str:
        return f"Task: {entry.about}\n{entry.text}\n"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        share = self.settings.max_chars // self.settings.retrieved - len(trajectory.task) - len("Task: \n\n\n")
        self.add_entry(shorten_text(self.tell_attempt(trajectory), max(0, share)), trajectory, trajectory.task)
        counts["written"] += 1
