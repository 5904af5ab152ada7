"""Past attempts at other tasks, retrieved by the words of the task (ExpRAG of Evo-Memory, Wei et al. 2025).

No model writes: an attempt is kept as it was played, and the `retrieved` attempts whose tasks are worded most like the
present one are shown, nearest first.
"""

from collections.abc import Sequence

from rsso_dspy.memory.entries import Entry, EntryMemory, EntrySettings, Tell, shorten_text
from rsso_dspy.memory.nearest import Embed, find_nearest
from rsso_dspy.records import Trajectory


class ExpRag(EntryMemory):
    """Past attempts, each shown whole unless it exceeds its share of the prompt."""

    region, letter, newest_first = "experience", "X", False

    def __init__(self, tell: Tell, embed: Embed, settings: EntrySettings | None = None, shared: bool = True):
        super().__init__(settings, shared)
        self._tell = tell
        self._embed = embed

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        nearest = find_nearest(self._embed, self._task, [entry.about for entry in readable])
        return [readable[place] for place, _ in nearest[: self.settings.retrieved]]

    def format_entry(self, entry: Entry) -> str:
        return f"Task: {entry.about}\n{entry.text}\n"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        share = self.settings.max_chars // self.settings.retrieved - len(trajectory.task) - len("Task: \n\n\n")
        self.add_entry(shorten_text(self._tell(trajectory), max(0, share)), trajectory, trajectory.task)
        counts["written"] += 1
