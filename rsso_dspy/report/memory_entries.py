"""Entries of a unit's memories with their lineage: which trial wrote each, and which steps read it.

for entry in trace_entries(record):
    print(entry.memory, entry.id, entry.learned, entry.reads)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rsso_dspy.records import TrialsRecord


@dataclass(frozen=True, slots=True)
class TracedEntry:
    """One entry of the last snapshot."""

    memory: str
    id: str
    text: str
    learned: tuple[tuple[str, int], ...]
    """Variant and trial of everything that wrote it or changed its words."""
    data: dict[str, Any]
    """Title, votes and counts, as the memory keeps them."""
    reads: tuple[tuple[int, int, int], ...]
    """Trial, first and last step of the prompts of this record that held it."""


def trace_entries(record: TrialsRecord) -> list[TracedEntry]:
    """The entries of all memories that keep entries, in the order in which they were written. Snapshots of another form
    are passed over."""
    found = []
    for memory, snapshot in record.memories.items():
        rows = snapshot.get("entries") if isinstance(snapshot, dict) else None
        for row in rows if isinstance(rows, list) else ():
            try:
                learned = tuple((str(variant), int(trial)) for variant, trial in row["learned"])
                reads = tuple(_list_reads(record, row["id"]))
                found.append(
                    TracedEntry(memory, str(row["id"]), str(row["text"]), learned, dict(row.get("data") or {}), reads)
                )
            except (KeyError, TypeError, ValueError):
                continue
    return found


def _list_reads(record: TrialsRecord, name: str) -> Iterator[tuple[int, int, int]]:
    """Stretches of steps whose prompts held the entry."""
    for result in record.trials:
        steps = result.trajectory.steps if result.trajectory else ()
        first = 0
        for number, step in enumerate(steps, start=1):
            if name in step.recalled:
                first = first or number
            elif first:
                yield result.trial, first, number - 1
                first = 0
        if first:
            yield result.trial, first, len(steps)
