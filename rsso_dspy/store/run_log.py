"""Reads `run.log.jsonl`: when the run was played, and its units. `run_log_writer.py` writes it; results come from the
records, not from the log."""

from collections.abc import Iterator, Mapping
from typing import Any

from rsso_dspy.files import parse_entry
from rsso_dspy.store.journals import LOG
from rsso_dspy.store.unit_store import Store


def read_events(store: Store) -> Iterator[Mapping[str, Any]]:
    """Yield the events of a run, without broken lines, e.g. one cut off by a kill; none for a run without a log."""
    for line in store.read_journal(store.folder / LOG):
        entry = parse_entry(line)
        if isinstance(entry, dict) and isinstance(entry.get("event"), str):
            yield entry


def get_played_days(store: Store) -> tuple[str, ...]:
    """Return the first and last day of play in UTC; one if they are equal, none without a log."""
    days = [str(entry["time"])[:10] for entry in read_events(store) if entry["event"] == "trial" and "time" in entry]
    return tuple(dict.fromkeys((min(days), max(days)))) if days else ()


def list_planned_units(store: Store) -> set[str]:
    """Return the keys of all planned units of any command, without trainings; empty without a log."""
    planned = [entry.get("left") for entry in read_events(store) if entry["event"] == "started"]
    keys = {str(key) for left in planned if isinstance(left, list) for key in left}
    return {key for key in keys if " (training)/" not in key}
