"""A command succeeded: it may be what an earlier failure waited for, or the proof of what was recalled.

The same command succeeds after others: they may be what helped. It succeeds with something before it (`sudo`): that may
be what helped. It succeeds unchanged: it may be flaky, or a file was edited, which no hook tells. A command like it
succeeds: that one should have been used. Each is a proposal, until it worked after a recall or somebody confirms it.
"""

from __future__ import annotations

from reflexion.capture import write_entry
from reflexion.commands import hides_end, normalize_command
from reflexion.confidence import count_worked, resolve
from reflexion.entry import PROPOSED, Entry
from reflexion.entry_files import load
from reflexion.event import Event
from reflexion.index import Index
from reflexion.resolution import UNCHANGED, list_named, may_explain, propose_resolution, was_applied
from reflexion.secrets import clean_command, clean_typed
from reflexion.sessions import Failure

PATIENCE = 3_600.0
"""Seconds after which a failure waits for nothing any more."""
MOST_BETWEEN = 15
"""Commands between a failure and the success that explains it."""


def learn_from_success(index: Index, event: Event, now: float) -> list[Entry]:
    """Entries that changed by this success, written. Raises `OSError`."""
    command, typed = clean_command(event.command, index.root), clean_typed(event.command, index.root)
    changed = []
    if not hides_end(event.command):
        changed = _verify_success(index, event.session, command, typed, now)
        for failure in index.list_open_failures(event.session, now - PATIENCE):
            changed += _explain_failure(index, event.session, failure, command, typed, now)
    index.add_command(event.session, command, True, typed, now)
    return changed


def _explain_failure(index: Index, session: str, failure: Failure, command: str, typed: str, now: float) -> list[Entry]:
    """The entry of a failure that this success explains, written with its proposal; else nothing."""
    between = index.list_commands(session, failure.number)
    entry = load(index.root, failure.id) if len(between) <= MOST_BETWEEN else None
    if entry is None:
        index.close_failure(session, failure.id)
        return []
    if not may_explain(failure.command, command):
        return []
    if command == failure.command:
        index.close_failure(session, failure.id)
    elif entry.resolution:  # only the command itself says more than what is known
        return []
    resolution = propose_resolution(failure, command, typed, between)
    if not resolution or (resolution == UNCHANGED and entry.resolution):
        return []
    resolved = resolve(entry, resolution, PROPOSED, now)
    if resolved == entry:
        return []
    index.tally("proposed")
    return [write_entry(index, resolved)]


def _verify_success(index: Index, session: str, command: str, typed: str, now: float) -> list[Entry]:
    """Entries that were recalled, and whose command, or one like it, now succeeds."""
    changed = []
    for shown in index.list_shown(session):
        entry = load(index.root, shown.id)
        if entry is None or not entry.resolution or entry.type != "error":
            continue
        failed = normalize_command(entry.context, index.root)
        named = [name for name, _ in list_named(entry, index.root)]
        settles = command == failed or (command in named and entry.resolution.startswith("use "))
        if not settles and not may_explain(failed, command):
            continue
        if was_applied(index, session, entry, command, typed, shown.number):
            index.settle_shown(session, entry.id)
            index.close_failure(session, entry.id)
            index.tally("worked")
            changed.append(write_entry(index, count_worked(entry, now)))
        elif command == failed:  # it succeeded without what was recalled: nothing is to be said
            index.settle_shown(session, entry.id)
    return changed
