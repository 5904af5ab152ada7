"""One thing that was learned: a JSON object that a person can read, write and edit.

    entry = read_entry(data)        # any object with an id and a trigger
    data = dump_entry(entry)        # the same keys, in one order; unknown ones are kept

Fields that somebody got wrong are read as if they were not there. Confidence says how far an entry is to be trusted:
it begins at 0.3, with a proposed resolution at 0.5, with a confirmed one at 0.8; it gains a third of what is missing
when the resolution worked, and is halved when it did not, and for every 90 days without evidence.
"""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

TYPES = ("error", "correction", "insight", "pattern")
ID = re.compile(r"RFX-\d{8}-[0-9a-z]{3,16}")
PROPOSED, CONFIRMED = "proposed", "confirmed"
LONGEST_TEXT, MOST_NOTES, MOST_KEYWORDS, MOST_OCCURRENCES = 300, 10, 12, 1_000_000

HALF_LIFE = 90 * 86_400.0
"""Seconds after which an entry without new evidence is trusted half as much."""
FADED = 0.12
"""Below this an entry is not recalled any more."""
START = {"": 0.3, PROPOSED: 0.5, CONFIRMED: 0.8}


class Entry(NamedTuple):
    """One learning."""

    id: str
    type: str = "error"
    """One of `TYPES`."""
    trigger: str = ""
    """What was seen: the line of an output, or what was said."""
    context: str = ""
    """The command, as it is compared; or the situation."""
    resolution: str = ""
    """What helps, empty while that is unknown."""
    resolved_by: str = ""
    """`proposed` by code from what followed, `confirmed` by an agent or a person."""
    keywords: tuple[str, ...] = ()
    occurrences: int = 1
    first_seen: str = ""
    last_seen: str = ""
    """UTC, as 2026-03-31T12:00:00Z, or the day alone."""
    promoted: bool = False
    cwd: str = "."
    confidence: float = 0.0
    """0 to 1 at the time of the last evidence."""
    worked: int = 0
    failed: int = 0
    """How often it worked, and did not, after it was recalled."""
    verified_at: str = ""
    review: bool = False
    """Whether somebody should look at it: it was applied and did not work."""
    notes: tuple[str, ...] = ()
    agent: str = ""
    more: tuple[tuple[str, Any], ...] = ()
    """Keys that this version does not know."""


def read_entry(data: object) -> Entry | None:
    """The entry that JSON data holds; None when it has no valid id, or nothing to go by."""
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or not ID.fullmatch(data["id"]):
        return None
    values = {name: _read_field(data.get(name), default) for name, default in Entry._field_defaults.items()}
    values["more"] = tuple((key, value) for key, value in data.items() if key not in Entry._fields)
    entry = Entry(data["id"], **values)
    if not entry.trigger and not entry.context:
        return None
    by_hand = entry.resolution and entry.resolved_by not in (PROPOSED, CONFIRMED)
    by = CONFIRMED if by_hand else entry.resolved_by
    start = START[CONFIRMED if is_known(entry) else ""] if by_hand or not entry.confidence else 0.0
    return entry._replace(
        type=entry.type if entry.type in TYPES else "error",
        resolved_by=by if entry.resolution else "",
        keywords=tuple(word[:40].lower() for word in entry.keywords[:MOST_KEYWORDS]),
        notes=entry.notes[-MOST_NOTES:],
        occurrences=max(1, entry.occurrences),
        confidence=max(entry.confidence, start),
    )


def _read_field(value: object, default: object) -> Any:
    """The value if it is what the field holds, else the default."""
    if isinstance(default, str):
        return " ".join(value.split())[:LONGEST_TEXT] if isinstance(value, str) else default
    if isinstance(default, tuple):
        return tuple(_read_field(text, "") for text in value if text) if isinstance(value, list) else default
    if isinstance(default, bool) or isinstance(value, bool):
        return value is True if isinstance(default, bool) else default
    if isinstance(default, int):
        return value if isinstance(value, int) and 0 <= value <= MOST_OCCURRENCES else default
    return float(value) if isinstance(value, int | float) and 0 <= value <= 1 else default


def dump_entry(entry: Entry) -> dict[str, Any]:
    """JSON data, keys in their order, unknown ones last."""
    data = {name: getattr(entry, name) for name in Entry._fields if name != "more"}
    return {**data, "keywords": list(entry.keywords), "notes": list(entry.notes), **dict(entry.more)}


def is_known(entry: Entry) -> bool:
    """Whether an entry says what to do: an error needs a resolution; what was said or understood says it itself."""
    return bool(entry.resolution) or entry.type != "error"


def count_up(entry: Entry, now: float) -> Entry:
    """The same, seen once more."""
    return entry._replace(occurrences=min(entry.occurrences + 1, MOST_OCCURRENCES), last_seen=format_time(now))


def add_note(entry: Entry, note: str) -> Entry:
    """The same with a note; the oldest goes when there are too many."""
    return entry._replace(notes=(*entry.notes, note[:LONGEST_TEXT])[-MOST_NOTES:])


def compute_confidence(entry: Entry, now: float) -> float:
    """0 to 1, faded by the time since the last evidence."""
    latest = max(parse_time(entry.verified_at), parse_time(entry.last_seen))
    return float(entry.confidence * 0.5 ** (max(0.0, now - latest if latest else 0.0) / HALF_LIFE))


def count_worked(entry: Entry, now: float) -> Entry:
    """It was recalled and applied, and the command succeeded."""
    return count_up(entry, now)._replace(
        confidence=round(entry.confidence + (1 - entry.confidence) / 3, 4),
        worked=entry.worked + 1,
        verified_at=format_time(now),
        review=False,
    )


def count_failed(entry: Entry, now: float, note: str = "") -> Entry:
    """It was recalled and applied, and the command failed all the same."""
    entry = add_note(entry, f"{format_time(now)[:10]} recalled, did not work{': ' + note if note else ''}")
    return entry._replace(
        confidence=round(entry.confidence / 2, 4), failed=entry.failed + 1, verified_at=format_time(now), review=True
    )


def resolve(entry: Entry, resolution: str, by: str) -> Entry:
    """The entry with what helps. A proposal replaces none that is confirmed or has worked."""
    if by == PROPOSED and entry.resolution and (entry.resolved_by == CONFIRMED or entry.worked):
        return entry
    confidence = max(START[by], entry.confidence if by == CONFIRMED else 0.0)
    return entry._replace(resolution=resolution, resolved_by=by, confidence=confidence)


def format_time(now: float) -> str:
    """A moment as entries write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def parse_time(text: str) -> float:
    """Seconds since 1970 of a moment or of the end of a day; 0 for what is none."""
    found = re.fullmatch(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)Z)?", text)
    if not found:
        return 0.0
    year, month, day = map(int, found.groups()[:3])  # calendar and strptime take 10 ms to import, and hosts wait
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    days = 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 719_469
    hours, minutes, seconds = map(int, found.groups()[3:] if found[4] else (23, 59, 59))
    return float(days * 86_400 + hours * 3_600 + minutes * 60 + seconds)
