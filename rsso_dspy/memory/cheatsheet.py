"""One text, rewritten after each attempt (Dynamic Cheatsheet, Suzgun et al. 2025, cumulative).

A variant reads the newest text that was written without it: while a variant is played again, that is the text from
before its first trial.
"""

from collections.abc import Callable, Sequence

from rsso_dspy.memory.entries import Entry, EntryMemory, EntrySettings
from rsso_dspy.records import Trajectory

Rewrite = Callable[[Trajectory, str], str | None]
"""Takes an attempt and the cheatsheet; returns the new cheatsheet, or None for a malformed answer."""


class Cheatsheet(EntryMemory):
    """Versions of one text. Two are kept: the newest, and the newest that was written without the present variant."""

    region, letter = "constitution", "V"

    def __init__(self, rewrite: Rewrite, settings: EntrySettings | None = None, shared: bool = True):
        super().__init__(settings, shared)
        self._rewrite = rewrite

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        return readable[-1:]

    def format_entry(self, entry: Entry) -> str:
        return entry.text

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts |= {"calls": 1, "cut": 0}
        text = self._rewrite(trajectory, self.entries[-1].text if self.entries else "")
        if text is None or not text.strip():
            counts["malformed"] += 1
            return
        whole = text.strip()
        kept = whole[: self.settings.max_chars].rpartition("\n")[0] if len(whole) > self.settings.max_chars else whole
        counts["cut"] = len(whole) - len(kept)
        before = self.entries[-1].learned if self.entries else ()
        entry = self.add_entry(kept or whole[: self.settings.max_chars], trajectory)
        learned = tuple(dict.fromkeys((*before, *entry.learned)))
        newest = Entry(entry.id, entry.text, learned)
        without = [each for each in self.entries[:-1] if not each.is_learned_on(trajectory.variant.key)]
        self.entries = [*without[-1:], newest]
        counts["written"] += 1
