"""Contenders: memories from other papers, each a file here, and their base: a list of texts, each with the trials that
wrote it, shown within bounds.

    class Notes(EntryMemory):
        region, letter = "past_strategies", "N"

        def write_entries(self, trajectory, counts):
            self.add_entry("Open the door first.", trajectory)

A memory that is handed on in a stream never shows a variant a text that was learned on that variant: `list_readable` is
the only way to the prompt, and it leaves such entries out.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rsso_dspy.memory import NOTHING, Memory, Recall, Services, clean_text, find_nearest
from rsso_dspy.records import State, Step, Trajectory, Variant

__all__ = ["Entry", "EntryMemory", "EntrySettings", "clean_text", "shorten_text"]

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class EntrySettings:
    """Bounds of a memory of entries."""

    max_entries: int = 100
    """How many entries are kept."""
    max_chars: int = 12_000
    """How many characters of entries a prompt shows."""
    retrieved: int = 3
    """For memories that retrieve: from how many attempts at other tasks entries are shown."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One text of a memory, with its lineage."""

    id: str
    """Letter of the memory and a number that is never reused, e.g. ``S7``."""
    text: str
    learned: tuple[tuple[str, int], ...]
    """Variant and trial of every attempt that wrote the text or changed it, oldest first."""
    about: str = ""
    """The task that the entry comes from; memories that retrieve compare it with the present task."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """What else the memory stores with the text, e.g. a title, votes or counts."""

    def is_learned_on(self, variant: str) -> bool:
        return any(key == variant for key, _ in self.learned)

    def dump(self) -> dict[str, Any]:
        learned = [list(each) for each in self.learned]
        more = {"about": self.about, "data": dict(self.data)}
        return {"id": self.id, "text": self.text, "learned": learned} | {
            key: each for key, each in more.items() if each
        }

    @classmethod
    def load(cls, row: Mapping[str, Any]) -> "Entry":
        """Read what `dump` wrote. Raises `ValueError`, `KeyError` or `TypeError` for other data."""
        data = row.get("data", {})
        if not isinstance(row["text"], str) or not isinstance(data, dict):
            raise ValueError("an entry is no text")
        learned = tuple((str(variant), int(trial)) for variant, trial in row["learned"])
        return cls(str(row["id"]), row["text"], learned, str(row.get("about", "")), dict(data))


class EntryMemory(Memory):
    """A memory of entries, kept in the order in which they were written.

    Subclasses define in `write_entries` what is learned from a trial. They may override which entries are shown
    (`select_entries`), how they are shown (`format_entry`, `render_entries`), and which are dropped first when there
    are too many (`find_weakest`). Votes and counts of an entry are no part of its lineage: a variant whose trials only
    voted on an entry may read it.
    """

    letter: str
    """The letter that ids begin with."""
    calls: ClassVar[dict[str, int]] = {}
    """Role to the most calls after a trial."""
    newest_first = True
    """Whether the newest of the selected entries stay when they are too long for the prompt; otherwise the first."""

    def __init__(self, services: Services):
        super().__init__(services)
        self.settings: EntrySettings = services.runtime.entries or EntrySettings()
        self.shared = self.region in services.handed_on
        """Whether other variants read the memory; a variant then never reads what was learned on itself."""
        self.held: list[Entry] = []
        self.shown = NOTHING
        """What the prompts of the trial hold."""
        self._numbered = 0
        self._variant, self._task = "", ""
        self._left_out = 0

    def begin_trial(self, variant: Variant, task: str) -> None:
        self._variant, self._task = variant.key, task
        self.shown = self.render_entries(self.fit_entries(self.select_entries(self.list_readable())))

    def list_readable(self) -> list[Entry]:
        """Return the entries that the present variant may read."""
        return [entry for entry in self.held if not (self.shared and entry.is_learned_on(self._variant))]

    def select_entries(self, readable: Sequence[Entry]) -> Sequence[Entry]:
        """Return the entries to show: the most important last if `newest_first`, otherwise first."""
        return readable

    def fit_entries(self, selected: Sequence[Entry]) -> list[Entry]:
        """Return as many of the selected entries as fit into the prompt, in their order. An entry that is too long on
        its own is shortened."""
        room = self.settings.max_chars
        kept: list[Entry] = []
        self._left_out = 0
        for entry in reversed(selected) if self.newest_first else selected:
            size = len(self.format_entry(entry)) + 1
            if size > room and not kept:
                over = size - room
                entry = replace(entry, text=shorten_text(entry.text, max(0, len(entry.text) - over)))
                size = room
            if size > room:
                self._left_out = len(selected) - len(kept)
                break
            room -= size
            kept.append(entry)
        return kept[::-1] if self.newest_first else kept

    def format_entry(self, entry: Entry) -> str:
        return f"- {entry.text}"

    def number_entry(self, number: int, text: str) -> str:  # noqa: ARG002
        """An entry in its place among the shown ones."""
        return text

    def render_entries(self, shown: Sequence[Entry]) -> Recall:
        """Return the text of the region: the entries, and a line on how many are left out because of their length."""
        if not shown:
            return NOTHING
        lines = [self.number_entry(number, self.format_entry(entry)) for number, entry in enumerate(shown, start=1)]
        lines += [f"({self._left_out} more are left out.)"] if self._left_out else []
        return Recall("\n".join(lines), tuple(entry.id for entry in shown))

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:  # noqa: ARG002
        return self.shown

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Learn from a trial and return counts: ``calls`` of a writer, entries ``written``, ``malformed`` answers,
        entries ``dropped`` because there were too many, entries ``left_out`` of the trial's prompts because of their
        length, and entries ``held`` now."""
        counts = {"calls": 0, "written": 0, "malformed": 0, "dropped": 0, "left_out": self._left_out}
        self.write_entries(trajectory, counts)
        while len(self.held) > self.settings.max_entries:
            self.held.remove(self.find_weakest())
            counts["dropped"] += 1
        return counts | {"held": len(self.held)}

    @abstractmethod
    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Learn from a finished trial: add entries and change them; `counts` may be raised or extended."""

    def find_weakest(self) -> Entry:
        """Return the entry that is dropped next."""
        return self.held[0]

    def add_entry(self, text: str, trajectory: Trajectory, about: str = "", **data: Any) -> Entry:
        """Append an entry that this trial wrote, and return it."""
        self._numbered += 1
        learned = ((trajectory.variant.key, trajectory.trial),)
        self.held.append(Entry(f"{self.letter}{self._numbered}", text, learned, about, data))
        return self.held[-1]

    def change_entry(self, entry: Entry, trajectory: Trajectory | None = None, text: str = "", **data: Any) -> Entry:
        """Replace an entry's data; with a trial, also its text. Returns what stands in its place."""
        changed = replace(entry, data={**entry.data, **data})
        if trajectory is not None:
            mark = (trajectory.variant.key, trajectory.trial)
            changed = replace(changed, text=text, learned=(*entry.learned, mark))
        self.held[self.held.index(entry)] = changed
        return changed

    def rank_by_task(self, entries: Sequence[Entry]) -> list[Entry]:
        """The entries by the likeness of their task to the present one, nearest first."""
        embed = self.services.runtime.embed
        return [entries[place] for place, _ in find_nearest(embed, self._task, [entry.about for entry in entries])]

    def tell_attempt(self, trajectory: Trajectory) -> str:
        """An attempt as text: every action with what was seen after it, and how it ended."""
        return f"{self.services.tell_transcript(trajectory)}\n{self.services.tell_outcome(trajectory)}"

    def ask(self, counts: dict[str, int], **inputs: Any) -> Any:
        """Ask the memory's module; None for a malformed answer. Both are counted."""
        said = self.services.ask(self.asks[0], **inputs)
        counts["calls"] += 1
        counts["malformed"] += said is None
        return said

    def ask_about(self, trajectory: Trajectory, counts: dict[str, int], **inputs: Any) -> Any:
        """Ask the memory's module about an attempt."""
        transcript, outcome = self.services.tell_transcript(trajectory), self.services.tell_outcome(trajectory)
        return self.ask(counts, task=trajectory.task, attempt=transcript, outcome=outcome, **inputs)

    def snapshot(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "entries": [entry.dump() for entry in self.held], "numbered": self._numbered}

    def restore(self, data: dict[str, Any]) -> None:
        self.held = self.entries(data)
        self._numbered = int(data["numbered"])
        self.shown = NOTHING

    @classmethod
    def entries(cls, snapshot: Mapping[str, Any]) -> list[Entry]:
        if snapshot["schema"] != SCHEMA:
            raise ValueError(f"entries of schema {snapshot['schema']}, not {SCHEMA}")
        return [Entry.load(row) for row in snapshot["entries"]]

    @classmethod
    def most_calls(cls, states: Sequence[int], alone: bool) -> dict[str, int]:  # noqa: ARG003
        return cls.calls


def shorten_text(text: str, most: int) -> str:
    """Return the end of a text in whole lines of at most `most` characters, below a line with the number left out."""
    if len(text) <= most:
        return text
    lines = text.splitlines()
    kept: list[str] = []
    room = most - len(_CUT.format(len(lines)))
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join([_CUT.format(len(lines) - len(kept)), *reversed(kept)])


_CUT = "(the first {} lines are left out)"
