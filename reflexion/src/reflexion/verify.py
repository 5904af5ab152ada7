"""What a failure or a success of a command says of entries: a new one, one more occurrence, what helped, and whether.

A command fails, and fails again in another way, and succeeds at last: each failure is explained by what happened up to
the next run of the same command, at which it did not come again. Where files were edited in that time, what was edited
is what is known, and nothing else; where commands were run, they are; where nothing happened, it may be flaky. An entry
is confirmed when what it says was done, and by no success of a command that failed in another way before it.
"""

from __future__ import annotations

import os
import re

from reflexion import commands
from reflexion.commands import compute_mark, is_same, list_before, normalize_command, shorten_places
from reflexion.entry import (
    CONFIRMED,
    PROPOSED,
    START,
    Entry,
    count_failed,
    count_up,
    count_worked,
    format_time,
    resolve,
)
from reflexion.hosts import Event
from reflexion.recall import EDITED, FLAKY
from reflexion.secrets import STRUCK, clean_command, strike_text
from reflexion.session import MOST_OPEN, Failure, Session
from reflexion.store import Store, find_repository, make_folder, make_trigger_key
from reflexion.triggers import LONGEST, pick_trigger

PATIENCE, MOST_BETWEEN = 3_600.0, 15
"""Seconds and commands after which a failure waits for nothing any more."""
MOST_FILES = 3
"""Files that a resolution names; where more were edited it says nothing."""


def capture_failure(store: Store, session: Session, event: Event, now: float) -> Entry:
    """The entry of a failed command, written. Raises `ReflexionError` and `OSError`."""
    typed = clean_typed(store.root, event, f"{event.output} {_join_known(store, session)}")
    command, mark = normalize_command(typed, store.root), compute_mark(event.command, store.root)
    trigger = strike_text(shorten_places(pick_trigger(event.output, event.code), store.root), event.command)
    trigger = trigger[:LONGEST].rstrip()
    ids = [each for each in store.list_ids(make_trigger_key(command, trigger)) if not store.is_foreign(each)]
    entry = store.load_entry(ids[0]) if ids else None
    number = session.add_command(command, typed, mark, False, now)
    if entry is None:
        entry = create_entry(store, "error", trigger, command, "", now, event.agent, event.cwd)
    else:
        if _did_not_help(store, session, entry, command, typed):
            session.settle(entry.id)
            entry = count_failed(entry, now, command)
        entry = store.save_entry(count_up(entry, now))
    for at, failure in enumerate(session.open):
        if failure.mark == mark and failure.id != entry.id and not failure.until:
            edited = list_edits(store.root, session, failure.at)
            session.open[at] = failure._replace(until=number, edited=edited)
    if not entry.promoted:
        session.stop_waiting(entry.id)
        session.open = [*session.open[-MOST_OPEN + 1 :], Failure(entry.id, number, command, typed, mark, now)]
    return entry


def create_entry(
    store: Store, kind: str, trigger: str, context: str, resolution: str, now: float, agent: str = "", cwd: str = ""
) -> Entry:
    """A new entry, written. What is given is taken for confirmed. Raises `ReflexionError` and `OSError`."""
    make_folder(store.root)
    place = os.path.relpath(os.path.realpath(cwd), os.path.realpath(store.root)) if cwd else "."
    entry = Entry(
        store.make_id(now), kind, trigger, context, resolution, CONFIRMED if resolution else "",
        first_seen=format_time(now), last_seen=format_time(now), cwd="." if place.startswith("..") else place,
        confidence=START[CONFIRMED if resolution or kind != "error" else ""], agent=agent,
    )  # fmt: skip
    return store.save_entry(entry)


def clean_typed(root: str, event: Event, error: str) -> str:
    """A command as it was typed, without values that are nobody's business."""
    folders = (root, event.cwd or root)
    return shorten_places(clean_command(event.command, folders, shorten_places(error, root)), root)


def _join_known(store: Store, session: Session) -> str:
    """Texts that entries have already, of failures that wait and of what was shown: their words may be kept."""
    ids = {*(failure.id for failure in session.open), *session.shown}
    entries = [entry for each in ids if (entry := store.load_entry(each))]
    return " ".join(f"{entry.trigger} {entry.context} {entry.resolution}" for entry in entries)


def learn_from_success(store: Store, session: Session, event: Event, now: float) -> list[Entry]:
    """Entries that changed by this success, written. Raises `OSError`."""
    typed = clean_typed(store.root, event, _join_known(store, session))
    command, mark = normalize_command(typed, store.root), compute_mark(event.command, store.root)
    number = session.add_command(command, typed, mark, True, now)
    if commands.hides_end(event.command):
        return []
    changed = _verify_shown(store, session, normalize_command(event.command, store.root), typed, mark, now)
    for failure in session.open:
        entry = store.load_entry(failure.id)
        is_old = number - failure.number > MOST_BETWEEN or now - failure.at > PATIENCE
        if entry is None or is_old or mark == failure.mark:
            session.stop_waiting(failure.id)
        if entry is None or is_old or (entry.resolution and mark != failure.mark):
            continue
        resolution = propose_resolution(store, session, failure, command, typed, mark)
        if resolution and not (entry.resolution and resolution.startswith((EDITED, FLAKY))):
            resolved = resolve(entry, resolution, PROPOSED)
            changed += [store.save_entry(resolved)] if resolved != entry else []
    return changed


def propose_resolution(store: Store, session: Session, failure: Failure, command: str, typed: str, mark: int) -> str:
    """What seems to have helped, in words; empty where that cannot be said, or destroys what the failed command did not
    touch. `command`, `typed` and `mark` are of the last command that was run, which succeeded."""
    same = mark == failure.mark
    if not same and (command == failure.command or not commands.are_near(failure.command, command)):
        return ""
    edited = failure.edited if failure.until else list_edits(store.root, session, failure.at)
    if edited:
        files = ", ".join(f"`{file}`" for file in edited)
        return f"{EDITED}{files}" if same and len(edited) <= MOST_FILES and "`" not in "".join(edited) else ""
    between = session.list_between(failure.number, failure.until or session.number)
    acts = [ran.typed for ran in between if ran.ok and commands.is_act(ran.command)][-2:] if same else []
    before, was_before = list_before(typed), list_before(failure.typed)
    differs = not failure.until and (not same or not set(before) <= set(was_before))
    named = [*acts, *([typed] if differs else [])]
    shown = [commands.show_command(each) for each in named]
    unknown = [commands.split_words(each).count(STRUCK) for each in (failure.typed, *named)]
    if "" in shown or any(unknown[1:-1]) or (named and unknown[-1] > (unknown[0] if differs else 0)):
        return ""
    if any(commands.is_dangerous(each) for each in named) and not commands.is_dangerous(failure.typed):
        return ""
    if differs and len(named) == 1:
        return f"use `{shown[0]}`"
    if shown:
        return "first run " + ", then ".join(f"`{each}`" for each in shown)
    unchanged = same and not failure.until and before == was_before
    return FLAKY if unchanged and edited is not None else ""


def _verify_shown(store: Store, session: Session, normal: str, typed: str, mark: int, now: float) -> list[Entry]:
    """Entries that were recalled, and whose command, or the one that they name, now succeeds."""
    changed = []
    for entry_id, shown in session.shown.items():
        entry = store.load_entry(entry_id) if not shown.settled else None
        if entry is None or not entry.resolution or entry.type != "error":
            continue
        is_own = is_same(entry.context, normal)
        if not is_own and not (entry.resolution.startswith("use `") and is_named(entry, store.root, normal, typed)):
            continue
        failures = {f.id: f for f in session.open if f.mark == mark or f.command == entry.context}
        if failures and entry.id not in failures:
            session.settle(entry.id)  # another failure of the same command is over: that says nothing of this one
        elif _was_applied(store, session, entry, failures.get(entry.id), shown.number, normal, typed):
            session.settle(entry.id)
            session.stop_waiting(entry.id)
            changed.append(store.save_entry(count_worked(entry, now)))
        elif is_own:  # it succeeded without what was recalled
            session.settle(entry.id)
    return changed


def _was_applied(
    store: Store, session: Session, entry: Entry, failure: Failure | None, number: int, normal: str, typed: str
) -> bool:
    """Whether what an entry says helps was done after that number of commands. What names no command needs the failure
    itself to have come before it."""
    edited = list_edits(store.root, session, failure.at) if failure else None
    if entry.resolution.startswith((EDITED, FLAKY)):
        if edited is None or failure is None:
            return False
        named = set(re.findall(r"`([^`]+)`", entry.resolution))
        acts = [ran for ran in session.list_between(failure.number, session.number) if commands.is_act(ran.command)]
        return bool(named & set(edited)) if named else not edited and not acts
    if "`" not in entry.resolution:
        return failure is not None
    done = [(normal, typed), *((ran.command, ran.typed) for ran in session.list_between(number))]
    return not edited and any(is_named(entry, store.root, *each) for each in done)


def _did_not_help(store: Store, session: Session, entry: Entry, command: str, typed: str) -> bool:
    """Whether a failure that came again shows that a recalled resolution was applied and did not help. The command that
    failed before, run as it was, says nothing: nothing was applied."""
    shown, failure = session.shown.get(entry.id), next((each for each in session.open if each.id == entry.id), None)
    if shown is None or shown.settled or ("`" not in entry.resolution and entry.resolution != FLAKY):
        return False
    return _was_applied(store, session, entry, failure, shown.number, command, typed)


def is_named(entry: Entry, root: str, command: str, typed: str) -> bool:
    """Whether a resolution names this command, with all that it says should stand before it."""
    before = set(list_before(typed))
    named = re.findall(r"`([^`]+)`", entry.resolution)
    return any(is_same(normalize_command(n, root), command) and before >= set(list_before(n)) for n in named)


def list_edits(root: str, session: Session, since: float) -> list[str] | None:
    """Files of the repository that were written since then by anything but the commands of the session, in their
    order; None where git does not say. Commands that write files as an editor does count as editing."""
    import subprocess

    repository = find_repository(root)
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=repository or root, capture_output=True, timeout=0.5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    times = [(ran.began, ran.ended) for ran in session.ran if not commands.is_edit(ran.command)]
    edited = []
    for name in done.stdout.decode("utf-8", "replace").split("\0")[:-1]:
        try:
            written = os.lstat(os.path.join(repository, name)).st_mtime
        except OSError:
            continue
        if written > since and not any(began <= written <= ended for began, ended in times):
            edited.append((written, name))
    return [name for _, name in sorted(edited) if not name.startswith(".reflexion/")]
