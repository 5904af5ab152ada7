"""Whether a run that was played again came out the same, record by record.

compare_runs(Store(Path("runs/x")), Store(Path("runs/x-again"))).different
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import dump_record

ABSENT = "(absent)"


@dataclass(slots=True)
class RunComparison:
    """Comparison of a run with its reproduction."""

    equal: int = 0
    """Number of records that are equal, except for `apart`."""
    apart: set[str] = field(default_factory=set)
    """Provenance fields in which equal records differ."""
    different: list[tuple[str, str, str, str]] = field(default_factory=list)
    """Record, its first differing field, and both values."""
    missing: list[str] = field(default_factory=list)
    """Records that the other run lacks, or has only with an error."""
    errored: int = 0
    """Number of errored records, which are not compared."""

    @property
    def total(self) -> int:
        return self.equal + len(self.different) + len(self.missing)


def compare_runs(store: Store, again: Store) -> RunComparison:
    """Compare the finished records of two runs."""
    result = RunComparison()
    for record in store.records():
        name = f"{record.arm} {record.key}" + (" (training)" if isinstance(record, TrainingRecord) else "")
        other = again.load(record)
        if record.has_errors:
            result.errored += 1
        elif other is None or other.has_errors:
            result.missing.append(name)
        else:
            differences = list(_find_differences(dump_record(record), dump_record(other)))
            telling = [each for each in differences if not _may_differ(each[0], record)]
            if telling:
                result.different.append((name, *telling[0]))
            else:
                result.equal += 1
                result.apart.update(path for path, _, _ in differences)
    return result


def _may_differ(path: str, record: UnitRecord | TrainingRecord) -> bool:
    """Return whether a field is provenance, or differs because a replayed trial counts both attempts."""
    match path.split("."):
        case ["provenance", *_]:
            return True
        case ["trials", number, "replayed" | "usage" | "failures" | "sent", *_]:
            return record.trials[int(number)].replayed > 0
    return False


def _find_differences(ours: Any, theirs: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield dotted path and both values of every difference, in the order of the file."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(key, ours.get(key, ABSENT), theirs.get(key, ABSENT)) for key in dict.fromkeys([*ours, *theirs])]
    elif isinstance(ours, list) and isinstance(theirs, list):
        pairs = [(n, *both) for n, both in enumerate(zip_longest(ours, theirs, fillvalue=ABSENT))]
    else:
        if ours != theirs:
            yield path, _shorten_value(ours), _shorten_value(theirs)
        return
    for key, one, other in pairs:
        yield from _find_differences(one, other, f"{path}.{key}" if path else str(key))


def _shorten_value(value: Any) -> str:
    text = value if value == ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."
