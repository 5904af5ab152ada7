"""One thing that was learned: a JSON object that a person can read and edit.

    entry = read_entry(data)        # any object with an id and a trigger, also one of the seed's own files
    data = dump_entry(entry)        # the same keys, in one order; unknown ones are kept

Fields that somebody's hand or another version got wrong are read as if they were not there.
"""

from __future__ import annotations

import re
import time
from typing import Any, NamedTuple

TYPES = ("error", "correction", "insight", "pattern")
ID = re.compile(r"RFX-\d{8}-[0-9a-z]{3,16}")

LONGEST_TEXT = 300
MOST_NOTES = 10
MOST_OCCURRENCES = 1_000_000

PROPOSED, CONFIRMED = "proposed", "confirmed"


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
    """UTC, as 2026-03-31T12:00:00Z; the seed's files have the day alone."""
    promoted: bool = False
    cwd: str = "."
    """Where, seen from the project's folder."""
    confidence: float = 0.3
    """0 to 1 at the time of the last evidence; it fades (confidence.py)."""
    worked: int = 0
    failed: int = 0
    """How often it worked, and did not, after it was recalled."""
    verified_at: str = ""
    review: bool = False
    """Whether somebody should look at it: it was recalled and did not work."""
    notes: tuple[str, ...] = ()
    agent: str = ""
    owner: str = ""
    """Who wrote it, in a form that only they can make (user_files.py)."""
    more: tuple[tuple[str, Any], ...] = ()
    """Keys that this version does not know."""


NAMES = tuple(name for name in Entry._fields if name != "more")


def read_entry(data: object) -> Entry | None:
    """The entry that JSON data holds; None when it has no valid id, or nothing to go by."""
    if not isinstance(data, dict) or not isinstance(data.get("id"), str) or not ID.fullmatch(data["id"]):
        return None
    text = {name: _read_text(data.get(name)) for name in ("trigger", "context", "resolution", "cwd", "agent", "owner")}
    times = {name: _read_text(data.get(name)) for name in ("first_seen", "last_seen", "verified_at")}
    if not text["trigger"] and not text["context"]:
        return None
    resolved_by = data.get("resolved_by")
    if resolved_by not in (PROPOSED, CONFIRMED):
        resolved_by = CONFIRMED if text["resolution"] else ""
    kind = data.get("type")
    return Entry(
        id=data["id"],
        type=kind if kind in TYPES else "error",
        resolved_by=resolved_by if text["resolution"] else "",
        keywords=tuple(word[:40].lower() for word in _read_texts(data.get("keywords")))[:12],
        occurrences=max(1, _read_count(data.get("occurrences"), 1)),
        promoted=data.get("promoted") is True,
        confidence=_read_share(data.get("confidence"), 0.8 if text["resolution"] else 0.3),
        worked=_read_count(data.get("worked")),
        failed=_read_count(data.get("failed")),
        review=data.get("review") is True,
        notes=_read_texts(data.get("notes"))[-MOST_NOTES:],
        more=tuple((key, value) for key, value in data.items() if key not in NAMES),
        **text,
        **times,
    )


def dump_entry(entry: Entry) -> dict[str, Any]:
    """JSON data, keys in their order, unknown ones last."""
    data = {name: getattr(entry, name) for name in NAMES}
    return {**data, "keywords": list(entry.keywords), "notes": list(entry.notes), **dict(entry.more)}


def count_up(entry: Entry, now: float) -> Entry:
    """The same, seen once more."""
    return entry._replace(occurrences=min(entry.occurrences + 1, MOST_OCCURRENCES), last_seen=format_time(now))


def add_note(entry: Entry, note: str) -> Entry:
    """The same with a note; the oldest goes when there are too many."""
    return entry._replace(notes=(*entry.notes, note[:LONGEST_TEXT])[-MOST_NOTES:])


def format_time(now: float) -> str:
    """A moment as entries write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))


def parse_time(text: str) -> float:
    """Seconds since 1970 of a moment or of the end of a day; 0 for what is none."""
    import calendar

    for form, end in (("%Y-%m-%dT%H:%M:%SZ", 0), ("%Y-%m-%d", 86_399)):
        try:
            return calendar.timegm(time.strptime(text, form)) + end
        except (ValueError, OverflowError):
            continue
    return 0.0


def _read_text(value: object) -> str:
    return " ".join(value.split())[:LONGEST_TEXT] if isinstance(value, str) else ""


def _read_texts(value: object) -> tuple[str, ...]:
    return tuple(filter(None, map(_read_text, value))) if isinstance(value, list) else ()


def _read_count(value: object, default: int = 0) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_OCCURRENCES
    return int(value) if fits else default  # type: ignore[call-overload]


def _read_share(value: object, default: float) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if fits else default  # type: ignore[arg-type]
