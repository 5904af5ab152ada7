"""Files that the scripts of the original loop wrote, taken over: entries keep their ids, and become this user's own.

Ids of that loop are written by a shell and may be odd; a file whose id or content is none of an entry is named and left
alone. Its `index.txt` is not needed, and stays.
"""

from __future__ import annotations

from typing import NamedTuple

from reflexion.capture import write_entry
from reflexion.commands import shorten_places
from reflexion.entry_files import load_all
from reflexion.index import Index
from reflexion.triggers import list_keywords
from reflexion.user_files import is_own, sign


class Migrated(NamedTuple):
    """What a migration did."""

    taken: list[str]
    left: list[str]
    """Files that hold no entry."""
    others: list[str]
    """Entries that somebody else signed: theirs they stay."""


def migrate_entries(index: Index, adopt: bool = False) -> Migrated:
    """Take over every entry that nobody signed; with `adopt` also those that others signed."""
    entries, damaged = load_all(index.root)
    taken, others = [], []
    for entry in entries:
        if is_own(index.root, entry.id, entry.owner):
            continue
        if entry.owner and not adopt:
            others.append(entry.id)
            continue
        known = entry.keywords or tuple(list_keywords(entry.trigger, entry.context, entry.resolution))
        place = shorten_places(entry.cwd, index.root)
        place = place.removeprefix("./") if not place.startswith(("/", "~")) else "."
        write_entry(index, entry._replace(owner=sign(index.root, entry.id), keywords=known, cwd=place or "."))
        taken.append(entry.id)
    return Migrated(taken, damaged, others)
