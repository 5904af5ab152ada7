"""Past attempts at the same task, pasted into the prompt as they were: the baselines of every memory that summarizes.

`last-trajectory` shows the last failed attempt whole (Reflexion, Shinn et al. 2023: the baseline with the last
trajectory); `long-context` shows all attempts, which EvoMemBench (2026) finds hard to beat. No model is asked.
"""

from rsso_dspy.memory.contenders import Entry, EntryMemory
from rsso_dspy.records import Trajectory


class LongContext(EntryMemory):
    """The attempts of one variant's trials. The oldest are left out, in whole, of a prompt that is full; a single one
    that is too long loses its beginning."""

    region, letter = "past_attempts", "T"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        self.add_entry(self.tell_attempt(trajectory), trajectory, trial=trajectory.trial)
        counts["written"] += 1

    def format_entry(self, entry: Entry) -> str:
        return f"Attempt {entry.data['trial']}:\n{entry.text}"


class LastTrajectory(LongContext):
    """The last failed attempt alone."""

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        if not trajectory.solved:
            self.held.clear()
            super().write_entries(trajectory, counts)
