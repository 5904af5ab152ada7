"""What a failure or a success of a command says of entries: a new one, one more occurrence, what helped, and whether.

Each failure is explained by the commands that were run up to the next run of the same command, at which it did not come
again. Where files were edited in that time, nothing is said. An entry is confirmed when what it says was done, and by
no success of a command that failed in another way before it.
"""

import json
import os
import time
from typing import NamedTuple
from zlib import crc32

from reflexion import commands
from reflexion.commands import compute_mark, is_same, list_before, normalize_command, shorten_places
from reflexion.entry import CONFIRMED, PROPOSED, START, Entry, format_time
from reflexion.hosts import Event
from reflexion.secrets import STRUCK, clean_command, strike_text
from reflexion.store import Store, find_upwards, make_folder, make_trigger_key, read_json, write_file
from reflexion.triggers import LONGEST, pick_trigger

PATIENCE, MOST_BETWEEN = 3_600.0, 15  # seconds and commands after which a failure waits no longer
BY_WORDS = "known by the words of its output: nobody told how it ended"
KEPT, MOST_COMMANDS = 2 * 86_400.0, 40  # seconds for which a session is known, and its commands


class Ran(NamedTuple):
    """A command that a session ran: as it is compared, and as it was typed, without what stood before and behind.

    One that failed and waits for what will help has its entry's `id`; `until` is the number of the next run of the same
    command, at which the trigger did not come again, `edited` whether files were edited up to it."""

    number: int
    command: str
    typed: str
    mark: int
    ok: bool
    began: float
    ended: float
    id: str = ""
    until: int = 0
    edited: bool = False


class Shown(NamedTuple):
    """An entry was recalled: commands that had been run by then, how often, and whether what followed is counted."""

    number: int
    times: int
    settled: bool


class Session:
    """The state of one session; `save` keeps it."""

    def __init__(self, store: Store, name: str):
        self._path = os.path.join(store.state, "sessions", f"{crc32(name.encode('utf-8', 'replace')):08x}.json")
        data = read_json(self._path)
        self.began: float = data.get("began", 0.0)
        self.waiting: str = data.get("waiting", "")
        self.silent: dict[str, str] = data.get("silent", {})
        self.ran = [Ran(*row) for row in data.get("ran", [])]
        self.shown = {entry_id: Shown(*row) for entry_id, row in data.get("shown", {}).items()}

    def save(self) -> None:
        """Write it; old sessions are deleted when a new one begins."""
        is_new = not os.path.exists(self._path)
        names = ("began", "waiting", "silent", "ran", "shown")
        write_file(self._path, json.dumps({name: getattr(self, name) for name in names}))
        for file in os.scandir(os.path.dirname(self._path)) if is_new else ():
            if file.stat().st_mtime < time.time() - KEPT:
                os.unlink(file.path)

    @property
    def number(self) -> int:
        return self.ran[-1].number if self.ran else 0

    def list_between(self, after: int, until: int = 0) -> list[Ran]:
        """Commands that were run after a number and before another."""
        return [ran for ran in self.ran if after < ran.number and (not until or ran.number < until)]

    @property
    def open(self) -> list[Ran]:
        return [ran for ran in self.ran if ran.id]

    def stop_waiting(self, entry_id: str) -> None:
        self.ran = [ran._replace(id="") if ran.id == entry_id else ran for ran in self.ran]

    def note_recall(self, entry_id: str) -> None:
        """An entry was recalled. What was run since the first recall that is not settled counts as run after it."""
        was = self.shown.get(entry_id, Shown(self.number, 0, True))
        self.shown[entry_id] = Shown(self.number if was.settled else was.number, was.times + 1, False)

    def settle(self, entry_id: str) -> None:
        """What followed a recall is counted."""
        self.shown[entry_id] = self.shown[entry_id]._replace(settled=True)


def capture_failure(store: Store, session: Session, event: Event, now: float) -> Entry:
    """The entry of a failed command, written. Raises `ReflexionError` and `OSError`."""
    ran = _note_run(store, session, event, now, event.output)
    trigger = strike_text(shorten_places(pick_trigger(event.output, event.code), store.root), event.command)
    trigger = trigger[:LONGEST].rstrip()
    entry = find_known(store, "error", ran.command, trigger)
    if entry is None:
        entry = create_entry(store, "error", trigger, ran.command, "", event, now)
        entry = store.save_entry(entry.add_note(BY_WORDS)) if event.by_words else entry
    else:
        shown = session.shown.get(entry.id)
        if shown and not shown.settled and entry.named and _was_applied(store, session, entry):
            session.settle(entry.id)
            entry = entry.count_failed(now, ran.command)
        entry = store.save_entry(entry.count_up(now))
    for at, each in enumerate(session.ran):
        if each.id not in ("", entry.id) and each.mark == ran.mark and not each.until:
            session.ran[at] = each._replace(until=ran.number, edited=was_edited(store.root, session, each.ended))
    if not entry.promoted:
        session.stop_waiting(entry.id)
        session.ran[-1] = ran._replace(id=entry.id)
    return entry


def find_known(store: Store, kind: str, context: str, trigger: str) -> Entry | None:
    """The entry that says the same already."""
    ids = [each for each in store.list_ids(make_trigger_key(context, trigger)) if each not in store.foreign]
    return next((entry for entry in map(store.load_entry, ids) if entry and entry.type == kind), None)


def create_entry(
    store: Store, kind: str, trigger: str, context: str, resolution: str, event: Event, now: float
) -> Entry:
    """A new entry, written. What is given is taken for confirmed. Raises `ReflexionError` and `OSError`."""
    make_folder(store.root)
    place = os.path.relpath(os.path.realpath(event.cwd or store.root), os.path.realpath(store.root))
    by, seen = CONFIRMED if resolution else "", format_time(now)
    entry = Entry(
        store.make_id(now), kind, trigger, context, resolution, by, first_seen=seen, last_seen=seen, agent=event.agent,
        cwd="." if place.startswith("..") else place, confidence=START[by if kind == "error" else CONFIRMED],
    )  # fmt: skip
    return store.save_entry(entry)


def clean_typed(root: str, event: Event, error: str) -> str:
    """A command as it was typed, without values that are nobody's business."""
    folders = (root, event.cwd or root)
    return shorten_places(clean_command(event.command, folders, shorten_places(error, root)), root)


def _note_run(store: Store, session: Session, event: Event, now: float, error: str | None = None) -> Ran:
    """Add a command to the session; it failed where there is an error. Words are kept that entries have already."""
    ids = {*(failure.id for failure in session.open), *session.shown}
    known = " ".join(f"{e.trigger} {e.context} {e.resolution}" for each in ids if (e := store.load_entry(each)))
    typed, mark = clean_typed(store.root, event, f"{error or ''} {known}"), compute_mark(event.command, store.root)
    last = max((ran.ended for ran in session.ran), default=0.0)
    began = session.began if session.began and session.began >= last else now
    command = normalize_command(typed, store.root)
    ran = Ran(session.number + 1, command, typed, mark, error is None, began, now)
    session.ran, session.began = [*session.ran, ran][-MOST_COMMANDS:], 0.0
    return ran


def learn_from_success(store: Store, session: Session, event: Event, now: float) -> list[Entry]:
    """Entries that changed by this success, written. Raises `OSError`."""
    ran = _note_run(store, session, event, now)
    if commands.hides_end(event.command):
        return []
    changed = _verify_shown(store, session, ran, now)
    for failed in session.open:
        entry, is_own = store.load_entry(failed.id), ran.mark == failed.mark
        is_old = ran.number - failed.number > MOST_BETWEEN or now - failed.ended > PATIENCE
        if is_own or is_old:
            session.stop_waiting(failed.id)
        if entry and not is_old and (is_own or not entry.resolution):
            resolution = propose_resolution(store.root, session, failed, ran)
            resolved = entry.resolve(resolution, PROPOSED) if resolution else entry
            changed += [store.save_entry(resolved)] if resolved != entry else []
    return changed


def propose_resolution(root: str, session: Session, failed: Ran, ran: Ran) -> str:
    """What seems to have helped, in words: `ran`, which just succeeded, or what was run before it. Empty where that
    cannot be said, or destroys what the failed command did not touch."""
    same = ran.mark == failed.mark
    near = same or (ran.command != failed.command and commands.are_near(failed.command, ran.command))
    if not near or (failed.edited if failed.until else was_edited(root, session, failed.ended)):
        return ""
    between = session.list_between(failed.number, failed.until or ran.number)
    acts = [each.typed for each in between if each.ok and commands.is_act(each.command)][-2:] if same else []
    differs = not failed.until and (not same or not list_before(ran.typed) <= list_before(failed.typed))
    named = [*acts, *([ran.typed] if differs else [])]
    shown = [commands.show_command(each) for each in named]
    unknown = [commands.split_words(each).count(STRUCK) for each in (failed.typed, *named)]
    if not named or "" in shown or any(unknown[1:-1]) or unknown[-1] > (unknown[0] if differs else 0):
        return ""
    if any(map(commands.is_dangerous, named)) and not commands.is_dangerous(failed.typed):
        return ""
    return f"use `{shown[0]}`" if differs and not acts else "first run `" + "`, then `".join(shown) + "`"


def _verify_shown(store: Store, session: Session, ran: Ran, now: float) -> list[Entry]:
    """Entries that were recalled, and whose command, or the one that they name, now succeeds."""
    changed = []
    for entry_id, shown in session.shown.items():
        entry = store.load_entry(entry_id) if not shown.settled else None
        if entry is None or not entry.resolution or entry.type != "error":
            continue
        is_own = is_same(entry.context, ran.command)
        is_used = entry.uses and is_named(entry, store.root, ran.command, ran.typed)
        failed = {each.id for each in session.open if each.mark == ran.mark or each.command == entry.context}
        is_other = bool(failed) and entry.id not in failed
        if (is_own or is_used) and not is_other and _was_applied(store, session, entry):
            session.settle(entry.id)
            session.stop_waiting(entry.id)
            changed.append(store.save_entry(entry.count_worked(now)))
        elif is_own or (is_used and is_other):
            session.settle(entry.id)  # it succeeded without what was recalled, or after another failure: says nothing
    return changed


def _was_applied(store: Store, session: Session, entry: Entry) -> bool:
    """Whether what an entry says helps was done since it was recalled, and nothing was edited since it failed."""
    failed = next((each for each in session.open if each.id == entry.id), None)
    if failed and was_edited(store.root, session, failed.ended):
        return False
    done = session.list_between(session.shown[entry.id].number)
    return any(is_named(entry, store.root, ran.command, ran.typed) for ran in done) if entry.named else bool(failed)


def is_named(entry: Entry, root: str, command: str, typed: str) -> bool:
    """Whether a resolution names this command, with all that it says should stand before it."""
    before = list_before(typed)
    return any(is_same(normalize_command(e, root), command) and before >= list_before(e) for e in entry.named)


def was_edited(root: str, session: Session, since: float) -> bool:
    """Whether files of the repository were written since then by anything but the commands of the session. Commands
    that write files as an editor does count as editing."""
    import subprocess

    repository = find_upwards(root, ".git")
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard"]
    try:
        done = subprocess.run(command, cwd=repository or root, capture_output=True, timeout=0.5, check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    files = [os.path.join(repository, name) for name in done.stdout.decode("utf-8", "replace").split("\0")[:-1]]
    written = [os.lstat(file).st_mtime for file in files if os.path.lexists(file) and "/.reflexion/" not in file]
    times = [(ran.began, ran.ended) for ran in session.ran if not commands.EDITS.search(ran.command)]
    return any(at > since and not any(began <= at <= ended for began, ended in times) for at in written)
