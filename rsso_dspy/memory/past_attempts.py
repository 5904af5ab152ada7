"""Past attempts at the same task, pasted into the prompt as they were: the baselines of every memory that summarizes.

`last-trajectory` shows the last failed attempt whole (Reflexion, Shinn et al. 2023: the baseline with the last
trajectory); `long-context` shows all attempts, which EvoMemBench (2026) finds hard to beat. No model is asked.
"""

from rsso_dspy.memory.entries import Entry, EntryMemory, EntrySettings, Tell
from rsso_dspy.records import Trajectory


class PastAttempts(EntryMemory):
    """The attempts of one variant's trials; only the last failed one if `last`. The oldest are left out, in whole, of
    a prompt that is full; a single one that is too long loses its beginning."""

    region, letter = "past_attempts", "T"

    def __init__(self, tell: Tell, settings: EntrySettings | None = None, shared: bool = False, last: bool = False):
        super().__init__(settings, shared)
        self._tell = tell
        self._last = last

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        if self._last:
            if trajectory.solved:
                return
            self.entries.clear()
        self.add_entry(self._tell(trajectory), trajectory, trial=trajectory.trial)
        counts["written"] += 1

    def format_entry(self, entry: Entry) -> str:
        return f"Attempt {entry.data['trial']}:\n{entry.text}"
