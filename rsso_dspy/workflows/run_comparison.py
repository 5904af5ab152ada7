"""Comparison of a run with its reproduction, record by record.

compare_runs(Store(Path("runs/x")), Store(Path("runs/x-again"))).different
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record
from rsso_dspy.workflows.reproduce import ABSENT, iterate_records


@dataclass(slots=True)
class RunComparison:
    """Comparison of a run with its reproduction."""

    alike: list[str] = field(default_factory=list)
    """Number of records equal byte for byte, or except for `apart`."""
    apart: set[str] = field(default_factory=set)
    """Provenance fields in which equal records differ."""
    different: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Record, its first differing field, and both values."""
    missing: list[str] = field(default_factory=list)
    """Records that the other run lacks, or has only with an error."""
    errored: int = 0
    """Number of errored records, which are not compared."""
    new: int = 0
    """Number of records of the other run that this one lacks."""

    @property
    def equal(self) -> int:
        return len(self.alike)

    @property
    def total(self) -> int:
        return self.equal + len(self.different) + len(self.missing)


def compare_runs(store: Store, again: Store, ignored: Sequence[str] = ()) -> RunComparison:
    """Compare the finished records of two runs.

    `ignored` names top-level fields besides `provenance` whose difference is known to be irrelevant.
    """
    found = RunComparison()
    for record in iterate_records(store):
        name = f"{record.arm} {record.key}" + (" (training)" if isinstance(record, TrainingRecord) else "")
        other = again.load(record)
        if record.has_errors:
            found.errored += 1
        elif other is None or other.has_errors:
            found.missing.append(name)
        else:
            differences = list(_find_differences(dump_record(record), dump_record(other)))
            tell = [each for each in differences if each[0].partition(".")[0] not in ("provenance", *ignored)]
            tell = [each for each in tell if not _of_dead_simulator(each[0], record)]
            if tell:
                found.different.append((name, *tell[0]))
            else:
                found.alike.append(name)
                found.apart.update(field for field, _, _ in differences)
    theirs = iterate_records(again) if again.exists else ()
    found.new = sum(store.load(record) is None for record in theirs)
    return found


def _of_dead_simulator(where: str, record: UnitRecord | TrainingRecord) -> bool:
    """Return whether a field differs because a replayed trial counts both attempts."""
    match where.split("."):
        case ["trials", number, "replayed" | "usage" | "failures" | "sent", *_]:
            return record.trials[int(number)].replayed > 0
    return False


def _find_differences(ours: Any, theirs: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield dotted path and both values of every difference, in the order of the file."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(key, ours.get(key, ABSENT), theirs.get(key, ABSENT)) for key in dict.fromkeys([*ours, *theirs])]
    elif isinstance(ours, list) and isinstance(theirs, list):
        pairs = [(n, *both) for n, both in enumerate(zip_longest(ours, theirs, fillvalue=ABSENT))]
    else:
        if ours != theirs:
            yield where, _shorten_value(ours), _shorten_value(theirs)
        return
    for key, one, other in pairs:
        yield from _find_differences(one, other, f"{where}.{key}" if where else str(key))


def _shorten_value(value: Any) -> str:
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."
