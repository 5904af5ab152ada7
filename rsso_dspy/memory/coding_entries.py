"""The coding agents' loop as a memory: what failed, and what helped the next time (`rsso_dspy.coding`).

An action that was not understood or had no effect is captured with what it was answered; the next action alike that
had an effect is what helped. Before a step, the entries that share two words with what was just seen are recalled.
A project's own entries (`.reflexion/`) can be loaded to begin with.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rsso_dspy.coding.entry_files import load_all
from rsso_dspy.coding.orders import reads_as_order
from rsso_dspy.coding.triggers import clean_text, list_keywords, list_words, normalize_trigger
from rsso_dspy.errors import UsageError
from rsso_dspy.memory import Recall
from rsso_dspy.memory.entries import Entry, EntryMemory, dump_entry
from rsso_dspy.records import State, Step, Trajectory

SHARED_WORDS = 2
"""Words of an entry that an observation has before the entry is recalled."""
NEAR = 4
"""Steps after a failure in which what helped is looked for."""
LONGEST_SEEN = 2_000
"""Characters of an observation that are read."""


class CodingEntries(EntryMemory):
    """Entries: the text is what helped, `trigger` what was seen, `context` the action."""

    region, letter = "known_errors", "E"

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:  # noqa: ARG002
        """Return nothing: what fits an observation is recalled before each step."""
        return ()

    def recall(self, states: Sequence[State]) -> Recall:
        words = set(list_words(states[-1].observation[:LONGEST_SEEN]))
        readable = self.list_readable()
        known = {each.id: list_keywords(each.data["trigger"], each.data["context"], each.text) for each in readable}
        shared = {name: len(words.intersection(keywords)) for name, keywords in known.items()}
        found = [entry for entry in readable if entry.text and shared[entry.id] >= SHARED_WORDS]
        best = sorted(found, key=lambda entry: -shared[entry.id])[: self.settings.retrieved]
        return self.render_entries(self.fit_entries(best[::-1]))

    def format_entry(self, entry: Entry) -> str:
        return f"- {entry.data['context']!r} was answered {entry.data['trigger']!r}. Helped: {entry.text}"

    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        for place, step in enumerate(trajectory.steps):
            if not _has_failed(step) or not step.action:
                continue
            helped = _find_next_success(step, trajectory.steps[place + 1 : place + 1 + NEAR])
            trigger = " ".join(clean_text(step.state.observation).split())[:240]
            if helped and trigger:
                counts["written"] += self._capture(trigger, step.action, helped, trajectory)

    def correct(self, trajectory: Trajectory) -> int:  # noqa: ARG002
        """Take nothing back: what is captured depends on answers to actions, not on rewards."""
        return 0

    def _capture(self, trigger: str, action: str, helped: str, trajectory: Trajectory) -> bool:
        """Keep what was captured; whether it was not known."""
        named = (normalize_trigger(trigger), action, helped)
        for entry in self.entries:
            if (normalize_trigger(entry.data["trigger"]), entry.data["context"], entry.text) == named:
                self.change_entry(entry, occurrences=entry.data["occurrences"] + 1)
                return False
        self.add_entry(helped, trajectory, trigger=trigger, context=action, occurrences=1)
        return True

    def find_weakest(self) -> Entry:
        return min(self.entries, key=lambda entry: entry.data["occurrences"])


def read_coding_entries(root: Path) -> dict[str, Any]:
    """The snapshot of a memory with the entries of a project's `.reflexion/` that say what helped. Entries that read
    like instructions are left out. Raises `UsageError` where there is none."""
    try:
        found, _ = load_all(str(root))
    except OSError as error:
        raise UsageError(f"cannot read the entries of {root}: {error.strerror}") from None
    kept = [entry for entry in found if entry.resolution and not reads_as_order(entry)]
    if not kept:
        raise UsageError(f"{root} has no entries with a resolution: `rsso-dspy coding list` shows what there is")
    entries = [
        Entry(
            entry.id,
            entry.resolution,
            (),
            data={"trigger": entry.trigger, "context": entry.context, "occurrences": entry.occurrences},
        )
        for entry in kept
    ]
    return {"schema": 1, "entries": [dump_entry(entry) for entry in entries], "numbered": 0}


def _has_failed(step: Step) -> bool:
    return not step.understood or step.no_effect


def _find_next_success(failed: Step, later: Sequence[Step]) -> str:
    """The first action alike that had an effect; empty for none."""
    words = set(failed.action.lower().split())
    alike = (each for each in later if each.action and not _has_failed(each) and each.action != failed.action)
    return next((each.action for each in alike if words & set(each.action.lower().split())), "")
