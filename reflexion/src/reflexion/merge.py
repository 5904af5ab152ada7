"""Two people's changes to one entry, made one: what git calls (`reflexion init --shared` tells it so).

What was counted on both sides is added up, the later of two times holds, notes are joined, a confirmed resolution holds
against a proposed one. Where both sides put other words into one field, that of the later evidence holds and the other
is kept as a note. Nothing is lost, and no conflict is left in the file.
"""

from __future__ import annotations

import sys
from typing import Any

from reflexion.entry import CONFIRMED, MOST_NOTES, MOST_OCCURRENCES, Entry
from reflexion.entry_files import read_file, render_entry

COUNTS = ("occurrences", "worked", "failed")
TEXTS = ("type", "trigger", "context", "resolution", "cwd", "agent", "owner")


def merge_entries(base: Entry | None, ours: Entry, theirs: Entry) -> Entry:
    """One entry of two, which came from `base`, or from nothing in common."""
    later = theirs if max(theirs.last_seen, theirs.verified_at) > max(ours.last_seen, ours.verified_at) else ours
    changes: dict[str, Any] = {}
    for name in COUNTS:
        start = getattr(base, name) if base else 0
        mine, other = getattr(ours, name), getattr(theirs, name)
        changes[name] = min(MOST_OCCURRENCES, max(0, mine + other - start) if base else max(mine, other))
    notes = [*ours.notes, *(note for note in theirs.notes if note not in ours.notes)]
    for name in TEXTS:
        changes[name] = _pick(name, base, ours, theirs, later)
    kept = ours if changes["resolution"] == ours.resolution else theirs
    other_words = (theirs if kept is ours else ours).resolution
    if other_words and other_words != changes["resolution"] and other_words != (base.resolution if base else ""):
        notes.append(f"another resolution: {other_words}")
    firsts = [entry.first_seen for entry in (ours, theirs) if entry.first_seen]
    return later._replace(
        **changes,
        resolved_by=kept.resolved_by,
        keywords=tuple(dict.fromkeys([*ours.keywords, *theirs.keywords]))[:12],
        first_seen=min(firsts, default=""),
        last_seen=max(ours.last_seen, theirs.last_seen),
        verified_at=max(ours.verified_at, theirs.verified_at),
        promoted=ours.promoted or theirs.promoted,
        notes=tuple(notes[-MOST_NOTES:]),
        more=tuple({**dict(theirs.more), **dict(ours.more)}.items()),
    )


def _pick(name: str, base: Entry | None, ours: Entry, theirs: Entry, later: Entry) -> str:
    mine, other = str(getattr(ours, name)), str(getattr(theirs, name))
    was = str(getattr(base, name)) if base else ""
    if mine == other or other == was:
        return mine
    if mine == was:
        return other
    if name == "resolution" and (ours.resolved_by == CONFIRMED) != (theirs.resolved_by == CONFIRMED):
        return mine if ours.resolved_by == CONFIRMED else other
    return str(getattr(later, name)) or mine or other


def merge_files(base: str, ours: str, theirs: str) -> int:
    """As git calls a merge driver: the result goes into `ours`. The exit code: 1 where one side is no entry, and git is
    to ask a person."""
    sides = [read_file(path) for path in (base, ours, theirs)]
    if sides[1] is None or sides[2] is None or sides[1].id != sides[2].id:
        print(f"reflexion merge: {ours} and {theirs} are not both an entry; merge them by hand", file=sys.stderr)
        return 1
    merged = merge_entries(sides[0], sides[1], sides[2])
    with open(ours, "w", encoding="utf-8") as file:
        file.write(render_entry(merged))
    return 0
