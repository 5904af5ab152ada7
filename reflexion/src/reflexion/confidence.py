"""How far an entry is to be trusted: evidence moves it, time fades it.

a new entry 0.3; with a proposed resolution 0.5, with a confirmed one 0.8
worked after a recall: a third of the way to 1; counted, and seen once more
did not work: half of what it was; counted, noted, and flagged for review
faded: halved for every 90 days since the last evidence, computed when it is read; no file changes by waiting
"""

from __future__ import annotations

from reflexion.entry import CONFIRMED, PROPOSED, Entry, add_note, count_up, format_time, parse_time

HALF_LIFE = 90 * 86_400.0
"""Seconds after which an entry without new evidence is trusted half as much."""
FADED = 0.12
"""Below this an entry is not recalled any more."""
START = {"": 0.3, PROPOSED: 0.5, CONFIRMED: 0.8}


def compute_confidence(entry: Entry, now: float) -> float:
    """0 to 1, faded by the time since the last evidence."""
    latest = max(parse_time(entry.verified_at), parse_time(entry.last_seen))
    age = max(0.0, now - latest) if latest else 0.0
    return float(entry.confidence * 0.5 ** (age / HALF_LIFE))


def count_worked(entry: Entry, now: float) -> Entry:
    """It was recalled, and the command succeeded."""
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


def resolve(entry: Entry, resolution: str, by: str, now: float) -> Entry:
    """The entry with what helps. A proposal replaces none that is confirmed or has worked."""
    if by == PROPOSED and entry.resolution and (entry.resolved_by == CONFIRMED or entry.worked):
        return entry
    from reflexion.triggers import list_keywords

    return entry._replace(
        resolution=resolution,
        resolved_by=by if resolution else "",
        confidence=max(START[by if resolution else ""], entry.confidence if by == CONFIRMED else 0),
        keywords=tuple(dict.fromkeys([*entry.keywords, *list_keywords("", "", resolution)]))[:12],
        last_seen=entry.last_seen or format_time(now),
    )
