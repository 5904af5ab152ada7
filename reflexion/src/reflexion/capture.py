"""A command failed: a new entry, or one more occurrence of the one that is there."""

from __future__ import annotations

import os

from reflexion.commands import name_program, shorten_places
from reflexion.confidence import START, count_failed
from reflexion.entry import CONFIRMED, Entry, count_up, format_time
from reflexion.entry_files import load, make_id, save
from reflexion.errors import UsageError
from reflexion.event import Event
from reflexion.folder import make_folder, read_settings
from reflexion.index import Index, make_trigger_key
from reflexion.resolution import was_applied
from reflexion.secrets import clean_command, clean_typed, strike_out_secrets
from reflexion.sessions import Failure
from reflexion.triggers import LONGEST, list_keywords, normalize_trigger, pick_trigger
from reflexion.user_files import sign


class Full(UsageError):
    """There are as many entries as the project's settings allow."""


def capture_failure(index: Index, event: Event, now: float) -> Entry:
    """The entry of a failed command, written. Raises `Full` and `OSError`."""
    command = clean_command(event.command, index.root)
    trigger = strike_out_secrets(shorten_places(pick_trigger(event.output, event.code), index.root))[:LONGEST].rstrip()
    key = make_trigger_key(name_program(command), normalize_trigger(trigger))
    typed = clean_typed(event.command, index.root)
    known = index.find_by_trigger(key)
    entry = load(index.root, known) if known else None
    if entry is None:
        entry = create_entry(index, "error", trigger, command, "", now, event.agent, event.cwd)
    else:
        entry = count_up(_verify_failure(index, event.session, entry, command, typed, now), now)
        write_entry(index, entry)
    number = index.add_command(event.session, command, False, typed, now)
    if not entry.promoted:
        index.open_failure(event.session, Failure(entry.id, command, typed, number), now)
    index.tally("captured")
    return entry


def create_entry(
    index: Index, kind: str, trigger: str, context: str, resolution: str, now: float, agent: str = "", cwd: str = ""
) -> Entry:
    """A new entry, written, signed by this user. What is given is taken for confirmed. Raises `Full` and `OSError`."""
    if index.count_entries() >= read_settings(index.root)["most_entries"]:
        raise Full(
            f"there are {index.count_entries():,} entries already: forget some, or raise most_entries in config.json"
        )
    make_folder(index.root)
    place = os.path.relpath(os.path.realpath(cwd), os.path.realpath(index.root)) if cwd else "."
    entry_id = make_id(index.root, now)
    entry = Entry(
        id=entry_id,
        type=kind,
        trigger=trigger,
        context=context,
        resolution=resolution,
        resolved_by=CONFIRMED if resolution else "",
        keywords=tuple(list_keywords(trigger, context, resolution)),
        first_seen=format_time(now),
        last_seen=format_time(now),
        cwd="." if place.startswith("..") else place,
        confidence=START[CONFIRMED if resolution else ""],
        agent=agent,
        owner=sign(index.root, entry_id),
    )
    return write_entry(index, entry)


def write_entry(index: Index, entry: Entry) -> Entry:
    """Write an entry to its file and take it into the index; what was written."""
    entry = save(index.root, entry)
    index.put(entry)
    index.note_folder()
    return entry


def _verify_failure(index: Index, session: str, entry: Entry, command: str, typed: str, now: float) -> Entry:
    """What a failure says of a resolution that was recalled before it: that it did not work, if it was applied. The
    command that failed before, run as it was, says nothing: nothing was applied."""
    shown = next((shown for shown in index.list_shown(session) if shown.id == entry.id), None)
    if shown is None or not entry.resolution or not was_applied(index, session, entry, command, typed, shown.number):
        return entry
    index.settle_shown(session, entry.id)
    index.tally("did not work")
    return count_failed(entry, now, command)
