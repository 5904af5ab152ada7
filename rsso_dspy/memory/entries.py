"""The base of most memories: a list of texts, each with the trials that wrote it, shown within bounds.

    class Notes(EntryMemory):
        region, letter = "past_strategies", "N"

        def write_entries(self, trajectory, counts):
            self.add_entry("Open the door first.", trajectory)

A memory that lives in a stream (``shared``) never shows a variant a text that was learned on that variant:
`list_readable` is the only way to the prompt, and it leaves such entries out.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rsso_dspy.memory import NOTHING, Memory, Recall
from rsso_dspy.records import State, Trajectory, Variant

SCHEMA = 1

Tell = Callable[[Trajectory], str]
"""Writes an attempt as text: every action with what was seen after it, and how it ended."""

Fields = Mapping[str, Any] | None
"""A writer's answer by output field; None for a malformed answer."""


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


class EntryMemory(Memory):
    """A memory of entries, kept in the order in which they were written.

    Subclasses define in `write_entries` what is learned from a trial. They may override which entries are shown
    (`select_entries`), how they are shown (`format_entry`, `render_entries`), and which are dropped first when there
    are too many (`find_weakest`). Votes and counts of an entry are no part of its lineage: a variant whose trials only
    voted on an entry may read it.
    """

    region: str
    letter: str
    newest_first = True
    """Whether the newest of the selected entries stay when they are too long for the prompt; otherwise the first."""

    def __init__(self, settings: EntrySettings | None = None, shared: bool = False):
        self.settings = settings or EntrySettings()
        self.shared = shared
        """Whether the memory is passed on to other variants; a variant then never reads what was learned on itself."""
        self.entries: list[Entry] = []
        self._numbered = 0
        self._variant = ""
        self._task = ""
        self._shown = NOTHING
        self._left_out = 0

    def begin_trial(self, variant: Variant, task: str) -> None:
        self._variant, self._task = variant.key, task
        self._shown = self.render_entries(self.fit_entries(self.select_entries(self.list_readable())))

    def list_readable(self) -> list[Entry]:
        """Return the entries that the present variant may read."""
        return [entry for entry in self.entries if not (self.shared and entry.is_learned_on(self._variant))]

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

    def render_entries(self, shown: Sequence[Entry]) -> Recall:
        """Return the text of the region: the entries, and a line on how many are left out because of their length."""
        if not shown:
            return NOTHING
        lines = [self.format_entry(entry) for entry in shown]
        lines += [f"({self._left_out} more are left out.)"] if self._left_out else []
        return Recall("\n".join(lines), tuple(entry.id for entry in shown))

    def recall(self, states: Sequence[State]) -> Recall:  # noqa: ARG002 - the same in all states of a trial
        return self._shown

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Learn from a trial and return counts: ``calls`` of a writer, entries ``written``, ``malformed`` answers,
        entries ``dropped`` because there were too many, entries ``left_out`` of the trial's prompts because of their
        length, and entries ``held`` now."""
        counts = {"calls": 0, "written": 0, "malformed": 0, "dropped": 0, "left_out": self._left_out}
        self.write_entries(trajectory, counts)
        while len(self.entries) > self.settings.max_entries:
            self.entries.remove(self.find_weakest())
            counts["dropped"] += 1
        return counts | {"held": len(self.entries)}

    @abstractmethod
    def write_entries(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Learn from a finished trial: add entries and change them; `counts` may be raised or extended."""

    def find_weakest(self) -> Entry:
        """Return the entry that is dropped next."""
        return self.entries[0]

    def add_entry(self, text: str, trajectory: Trajectory, about: str = "", **data: Any) -> Entry:
        """Append an entry that this trial wrote, and return it."""
        self._numbered += 1
        learned = ((trajectory.variant.key, trajectory.trial),)
        self.entries.append(Entry(f"{self.letter}{self._numbered}", text, learned, about, data))
        return self.entries[-1]

    def change_entry(
        self, entry: Entry, trajectory: Trajectory | None = None, text: str | None = None, **data: Any
    ) -> None:
        """Replace an entry's data; with a trial and a text, also its text."""
        changed = replace(entry, data={**entry.data, **data})
        if trajectory is not None and text is not None:
            mark = (trajectory.variant.key, trajectory.trial)
            changed = replace(changed, text=text, learned=(*entry.learned, mark))
        self.entries[self.entries.index(entry)] = changed

    def snapshot(self) -> dict[str, Any]:
        return {"schema": SCHEMA, "entries": [dump_entry(entry) for entry in self.entries], "numbered": self._numbered}

    def restore(self, data: dict[str, Any]) -> None:
        self.entries = load_entries(data)
        self._numbered = int(data["numbered"])
        self._shown = NOTHING


def dump_entry(entry: Entry) -> dict[str, Any]:
    learned = [[variant, trial] for variant, trial in entry.learned]
    more: dict[str, Any] = {"about": entry.about} if entry.about else {}
    return {
        "id": entry.id,
        "text": entry.text,
        "learned": learned,
        **more,
        **({"data": dict(entry.data)} if entry.data else {}),
    }


def load_entries(data: Mapping[str, Any]) -> list[Entry]:
    """Return the entries of a snapshot. Raises `ValueError`, `KeyError` or `TypeError` for other data."""
    if data["schema"] != SCHEMA:
        raise ValueError(f"entries of schema {data['schema']}, not {SCHEMA}")
    rows = data["entries"]
    if not all(isinstance(row["text"], str) and isinstance(row.get("data", {}), dict) for row in rows):
        raise ValueError("an entry is no text")
    return [
        Entry(
            str(row["id"]),
            row["text"],
            tuple((str(variant), int(trial)) for variant, trial in row["learned"]),
            str(row.get("about", "")),
            dict(row.get("data", {})),
        )
        for row in rows
    ]


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
