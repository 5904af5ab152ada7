"""Insights with votes, from pairs of a worse and a better attempt and from successes (ExpeL, Zhao et al. 2024).

A model edits the list: it adds an insight, rewords one, agrees with one or votes to remove one. A new insight has two
votes. Agreement and rewording add a vote, a vote for removal takes one away, and an insight without votes is dropped.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rsso_dspy.memory.entries import Entry, EntryMemory, EntrySettings, Tell, shorten_text
from rsso_dspy.records import Trajectory

FIRST_VOTES = 2
"""Votes of a new insight."""
SUCCESSES = 3
"""How many successes the model reads together."""
LONGEST_ATTEMPT = 6_000
"""How many characters of an attempt are kept for the comparison with another attempt."""


class InsightChange(NamedTuple):
    """One edit of the list: ``add``, ``edit``, ``agree`` or ``remove``; `number` counts the known insights from 1."""

    operation: str
    number: int = 0
    text: str = ""


Revise = Callable[[str, Sequence[str], str, Sequence[str]], Sequence[InsightChange] | None]
"""Takes task, known insights, failed attempt (may be empty) and successful attempts; returns edits, or None for a
malformed answer."""


class Expel(EntryMemory):
    """Insights, and for each task type the attempt that the next one is compared with."""

    region, letter = "constitution", "I"

    def __init__(self, revise: Revise, tell: Tell, settings: EntrySettings | None = None, shared: bool = True):
        super().__init__(settings, shared)
        self._revise = revise
        self._tell = tell
        self._last: dict[str, tuple[str, int, int, str]] = {}
        self._solved: list[tuple[str, int, str]] = []

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        """Order by votes, so that insights with the fewest votes are left out first."""
        return sorted(readable, key=lambda entry: entry.data["votes"])

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts |= {"agreed": 0, "edited": 0, "removed": 0}
        kind, points = trajectory.variant.task, trajectory.accumulator
        text = shorten_text(self._tell(trajectory), LONGEST_ATTEMPT)
        key, trial, before, told = self._last.get(kind, ("", 0, points, ""))
        self._last[kind] = (trajectory.variant.key, trajectory.trial, points, text)
        if points != before:
            worse, better = (told, text) if points > before else (text, told)
            self._apply(
                self._revise(trajectory.task, self._list_texts(), worse, [better]), trajectory, [(key, trial)], counts
            )
        if trajectory.solved:
            self._solved.append((trajectory.variant.key, trajectory.trial, text))
        if len(self._solved) == SUCCESSES:
            sources, told_all = [(key, trial) for key, trial, _ in self._solved], [text for _, _, text in self._solved]
            self._solved = []
            self._apply(self._revise(trajectory.task, self._list_texts(), "", told_all), trajectory, sources, counts)

    def _list_texts(self) -> list[str]:
        return [entry.text for entry in self.entries]

    def _apply(
        self,
        edits: Sequence[InsightChange] | None,
        trajectory: Trajectory,
        sources: Sequence[tuple[str, int]],
        counts: dict[str, int],
    ) -> None:
        """Apply the edits; an edit of an unknown insight has no effect. `sources` are all attempts that were read."""
        counts["calls"] += 1
        if edits is None:
            counts["malformed"] += 1
            return
        known = {number: entry.id for number, entry in enumerate(self.entries, start=1)}
        for edit in edits:
            named = next((entry for entry in self.entries if entry.id == known.get(edit.number)), None)
            if edit.operation == "add" and edit.text and edit.text not in self._list_texts():
                self._mark(self.add_entry(edit.text, trajectory, votes=FIRST_VOTES), sources)
                counts["written"] += 1
            elif named is None or edit.operation == "add":
                continue
            elif edit.operation == "edit" and edit.text:
                self.change_entry(named, trajectory, edit.text, votes=named.data["votes"] + 1)
                self._mark(next(entry for entry in self.entries if entry.id == named.id), sources)
                counts["edited"] += 1
            elif edit.operation == "agree":
                self.change_entry(named, votes=named.data["votes"] + 1)
                counts["agreed"] += 1
            elif edit.operation == "remove":
                self.change_entry(named, votes=named.data["votes"] - 1)
                counts["removed"] += named.data["votes"] == 1
        self.entries = [entry for entry in self.entries if entry.data["votes"] > 0]

    def _mark(self, entry: Entry, sources: Sequence[tuple[str, int]]) -> None:
        """Record that the text also comes from these attempts."""
        learned = tuple(dict.fromkeys((*entry.learned, *sources)))
        self.entries[self.entries.index(entry)] = Entry(entry.id, entry.text, learned, entry.about, entry.data)

    def find_weakest(self) -> Entry:
        return min(self.entries, key=lambda entry: entry.data["votes"])

    def snapshot(self) -> dict[str, Any]:
        kept = {
            "last": {kind: list(each) for kind, each in self._last.items()},
            "solved": [list(e) for e in self._solved],
        }
        return {**super().snapshot(), **kept}

    def restore(self, data: dict[str, Any]) -> None:
        super().restore(data)
        self._last = {kind: (key, trial, points, text) for kind, (key, trial, points, text) in data["last"].items()}
        self._solved = [(key, trial, text) for key, trial, text in data["solved"]]
