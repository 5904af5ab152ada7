"""Insights with votes, from pairs of a worse and a better attempt and from successes (ExpeL, Zhao et al. 2024).

A model edits the list: it adds an insight, rewords one, agrees with one or votes to remove one. A new insight has two
votes. Agreement and rewording add a vote, a vote for removal takes one away, and an insight without votes is dropped.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rsso_dspy.memory import Services
from rsso_dspy.memory.contenders import Entry, EntryMemory, clean_text, shorten_text
from rsso_dspy.records import Trajectory

FIRST_VOTES = 2
"""Votes of a new insight."""
SUCCESSES = 3
"""How many successes the model reads together."""
LONGEST_ATTEMPT = 6_000
"""How many characters of an attempt are kept for the comparison with another attempt."""


class Expel(EntryMemory):
    """Insights, and for each task type the attempt that the next one is compared with."""

    region, letter, asks, calls = "constitution", "I", ("insight_writer",), {"advisor": 2}

    def __init__(self, services: Services):
        super().__init__(services)
        self._last: dict[str, tuple[str, int, int, str]] = {}
        """Task type to variant, trial, points and text of its last attempt."""
        self._solved: list[tuple[str, int, str]] = []
        """Variant, trial and text of successes that were not read yet."""

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        """Order by votes, so that insights with the fewest votes are left out first."""
        return sorted(readable, key=_count_votes)

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        counts |= {"agreed": 0, "edited": 0, "removed": 0}
        kind, points = trajectory.variant.task, trajectory.accumulator
        text = shorten_text(self.tell_attempt(trajectory), LONGEST_ATTEMPT)
        key, trial, before, earlier = self._last.get(kind, ("", 0, points, ""))
        self._last[kind] = (trajectory.variant.key, trajectory.trial, points, text)
        if points != before:
            worse, better = (earlier, text) if points > before else (text, earlier)
            self._revise(trajectory, counts, [(key, trial)], worse, [better])
        if trajectory.solved:
            self._solved.append((trajectory.variant.key, trajectory.trial, text))
        if len(self._solved) == SUCCESSES:
            read, self._solved = self._solved, []
            self._revise(trajectory, counts, [each[:2] for each in read], "", [each[2] for each in read])

    def _revise(
        self,
        trajectory: Trajectory,
        counts: dict[str, int],
        sources: Sequence[tuple[str, int]],
        failed: str,
        solved: Sequence[str],
    ) -> None:
        """Have attempts read, and apply the edits; an edit of an unknown insight has no effect. `sources` are all
        attempts that were read beside the trial's."""
        known = {number: entry.id for number, entry in enumerate(self.held, start=1)}
        texts = [entry.text for entry in self.held]
        attempts = {"failed_attempt": failed, "successful_attempts": list(solved)}
        said = self.ask(counts, task=trajectory.task, known_insights=texts, **attempts)
        for edit in (said and said.insight_edits) or ():
            operation, text = edit.operation.lower(), clean_text(edit.text)
            named = next((entry for entry in self.held if entry.id == known.get(edit.number)), None)
            if operation == "add" and text and text not in [entry.text for entry in self.held]:
                self._mark(self.add_entry(text, trajectory, votes=FIRST_VOTES), sources)
                counts["written"] += 1
            elif named is None or operation == "add":
                continue
            elif operation == "edit" and text:
                votes = _count_votes(named) + 1
                self._mark(self.change_entry(named, trajectory, text, votes=votes), sources)
                counts["edited"] += 1
            elif operation == "agree":
                self.change_entry(named, votes=_count_votes(named) + 1)
                counts["agreed"] += 1
            elif operation == "remove":
                self.change_entry(named, votes=_count_votes(named) - 1)
                counts["removed"] += _count_votes(named) == 1
        self.held = [entry for entry in self.held if _count_votes(entry) > 0]

    def _mark(self, entry: Entry, sources: Sequence[tuple[str, int]]) -> None:
        """Record that the text also comes from these attempts."""
        learned = tuple(dict.fromkeys((*entry.learned, *sources)))
        self.held[self.held.index(entry)] = replace(entry, learned=learned)

    def find_weakest(self) -> Entry:
        return min(self.held, key=_count_votes)

    def snapshot(self) -> dict[str, Any]:
        last = {kind: list(each) for kind, each in self._last.items()}
        return {**super().snapshot(), "last": last, "solved": [list(each) for each in self._solved]}

    def restore(self, data: dict[str, Any]) -> None:
        super().restore(data)
        self._last = {kind: (key, trial, points, text) for kind, (key, trial, points, text) in data["last"].items()}
        self._solved = [(key, trial, text) for key, trial, text in data["solved"]]


def _count_votes(entry: Entry) -> int:
    return int(entry.data["votes"])
