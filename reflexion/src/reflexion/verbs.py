"""The verbs that people and agents type, and their options."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

import reflexion
from reflexion import TABLES, ReflexionError
from reflexion.entry import CONFIRMED, FADED, PROPOSED, TYPES, list_misread
from reflexion.hosts import FAILED, HOSTS, Event
from reflexion.install import Change, find_installed, plan_install, plan_uninstall, write_changes
from reflexion.promote import find_rules_file, list_ready, plan_promotion, promote_ready, write_promotion
from reflexion.recall import count_tokens, recall_for_prompt, render_block
from reflexion.secrets import strike_text
from reflexion.store import Store, find_root, get_home, has_folder, is_shared, make_folder, read_json, write_file
from reflexion.verify import Session, capture_failure, create_entry, find_known

MOST_SILENT = 5
"""Commands with an unknown end, from which on that is a fault: the last ones may be settled at the next hook."""


def run_verb(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="reflexion", description=reflexion.__doc__)
    parser.add_argument("--version", action="version", version=f"reflexion {reflexion.__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    for name, (text, settings) in TABLES["verbs"].items():
        verb = verbs.add_parser(name, help=text, description=text)
        for option, setting in settings.items():
            verb.add_argument(option, **setting)
    options = parser.parse_args(words)
    try:
        return int(RUN[options.verb](options) or 0)
    except (ReflexionError, OSError) as error:
        print(f"reflexion: {error}", file=sys.stderr)
        return 2 if isinstance(error, ReflexionError) else 1


def init(options: argparse.Namespace) -> None:
    folder = make_folder(os.getcwd(), options.shared)
    with Store(os.getcwd()) as store:
        mark = os.path.join(store.state, "shared")
        if options.shared:
            write_file(mark, "")
        elif is_shared(store.root):
            os.unlink(mark)
    how = "shared: commit it; type this in every clone" if options.shared else "private, git ignores it"
    print(f"{folder}: {how}")


def change_hooks(options: argparse.Namespace) -> None:
    installs = options.verb == "install"
    changes = (plan_install if installs else plan_uninstall)(options.agent, os.getcwd(), options.user)
    if _confirm(options, changes):
        write_changes(changes, installs)
        print(f"hooks of {options.agent} {'installed. ' + HOSTS[options.agent]['guide'] if installs else 'taken out'}")


def _confirm(options: argparse.Namespace, changes: Sequence[Change]) -> bool:
    """Print changes; whether they are to be made. A person at a terminal is asked."""
    diff = "".join(change.diff for change in changes)
    print(diff or "nothing is to be changed", end="" if diff else "\n")
    if not diff or options.dry_run:
        return False
    if not options.yes and sys.stdin.isatty() and input("Write it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise ReflexionError("nothing was written")
    return True


def _open() -> Store:
    """The store of the project one is in."""
    root = find_root(os.getcwd()) or os.getcwd()
    if not has_folder(root):
        raise ReflexionError("no .reflexion/ here or above: begin with `reflexion init`")
    return Store(root)


def capture(options: argparse.Namespace) -> None:
    make_folder(find_root(os.getcwd()) or os.getcwd())
    event, now = Event(FAILED, "hand", cwd=os.getcwd(), command=options.context, output=options.trigger), time.time()
    with _open() as store:
        if options.type == "error":
            entry = capture_failure(store, Session(store, "hand"), event, now)
            entry = store.save_entry(entry.resolve(options.resolution, CONFIRMED)) if options.resolution else entry
        else:
            texts = strike_text(options.trigger, options.context), options.context, options.resolution
            known = find_known(store, options.type, options.context, texts[0])
            entry = known.count_up(now) if known else create_entry(store, options.type, *texts, event, now)
            entry = entry.resolve(texts[2], CONFIRMED) if texts[2] else entry
            entry = store.save_entry(entry)
    file = f".reflexion/entries/{entry.id}.json"
    missing = "" if entry.is_known else f"; not recalled until {file} says in `resolution` what helps"
    print(f"{entry.id}: {entry.trigger} (seen {entry.occurrences}x){missing}")
    _promote_ready()


def _promote_ready() -> None:
    with _open() as store:
        if done := promote_ready(store, time.time()):
            print(done)


def recall(options: argparse.Namespace) -> None:
    with _open() as store:
        block, _ = render_block(recall_for_prompt(store, " ".join(options.text), time.time()))
    print(f"{block}\n{count_tokens(block)} tokens" if block else "nothing is recalled: 0 tokens")


def verify(options: argparse.Namespace) -> None:
    if options.worked == options.failed:
        raise ReflexionError("say one of --worked and --failed")
    with _open() as store:
        entry = store.find_entry(options.id)
        if options.worked:
            entry = entry.count_worked(time.time())._replace(resolved_by=CONFIRMED if entry.resolution else "")
            entry = entry.add_note(options.note) if options.note else entry
        else:
            entry = entry.count_failed(time.time(), options.note)
        entry = store.save_entry(entry)
    print(f"{entry.id}: confidence {entry.confidence:.2f}, worked {entry.worked}, did not work {entry.failed}")
    _promote_ready()


def promote(options: argparse.Namespace) -> None:
    with _open() as store:
        plan = plan_promotion(store, time.time(), store.find_entry(options.id) if options.id else None)
    if plan is None:
        print("no entry is ready; `reflexion promote ID` says what an entry waits for")
    elif _confirm(options, [plan.change]):
        with _open() as store:
            write_promotion(store, plan)
        print(f"{plan.change.path}: one rule more, from {plan.entry.id}; {plan.others} more are ready")


def status(_: argparse.Namespace) -> int:
    with _open() as store:
        entries, now = store.load_all()[0], time.time()
        faults, known = list_faults(store, now), [e for e in entries if e.is_known]
        types = ", ".join(f"{n} {kind}" for kind in TYPES if (n := sum(e.type == kind for e in entries)))
        proposed = sum(e.resolved_by == PROPOSED for e in known)
        faded = sum(e.compute_confidence(now) < FADED for e in known)
        ready = f"{len(list_ready(store, now))} ready"
    print(f"project     {store.root}: {'shared' if is_shared(store.root) else 'private'}")
    print(f"entries     {len(entries)} ({types or 'none yet'}), seen {sum(e.occurrences for e in entries)}x")
    print(f"resolution  {len(known) - proposed} confirmed, {proposed} proposed, {len(entries) - len(known)} open")
    worked, failed = sum(e.worked for e in entries), sum(e.failed for e in entries)
    print(f"verified    {worked} worked, {failed} did not, {faded} faded")
    print(f"rules       {sum(e.promoted for e in entries)} promoted into {find_rules_file(store.root)}, {ready}")
    print(f"review      {', '.join(e.id for e in entries if e.review and not e.promoted) or 'none'}")
    for entry in sorted(entries, key=lambda e: (-e.occurrences, e.id))[:10]:
        print(f"{entry.occurrences:>4}x       {entry.id} {entry.context}: {entry.trigger}")
    print("".join(f"NO  {fault}\n" for fault in faults), end="")
    return 1 if faults else 0


def list_faults(store: Store, now: float) -> list[str]:
    """What is wrong, and what to do about it."""
    faults = list_file_faults(store)
    if foreign := store.foreign & set(store.list_ids("*")):
        faults.append(f"{len(foreign)} entries that git tracks are not recalled; `reflexion init --shared` trusts them")
    places = {agent: find_installed(agent, store.root) for agent in HOSTS}
    if not any(places.values()):
        faults.append("no hooks are installed: reflexion install --agent claude-code")
    for agent, files in places.items():
        if len(files) > 1:
            faults.append(f"hooks of {agent} stand in {' and in '.join(files)}: each event arrives twice; "
                          f"reflexion uninstall --agent {agent}, with --user or without")  # fmt: skip
    sessions = os.path.join(store.state, "sessions")
    names = os.listdir(sessions) if os.path.isdir(sessions) else []
    silent = sum(len(read_json(os.path.join(sessions, name)).get("silent", {})) for name in names)
    if silent >= MOST_SILENT:
        faults.append(f"{silent} commands of which the host did not say how they ended, neither to hooks nor in its "
                      "transcript: failures among them are not captured")  # fmt: skip
    log = os.path.join(get_home(), "hook.log")
    if os.path.exists(log) and now - os.path.getmtime(log) < 86_400:
        faults.append(f"{log} has lines of the last day: read it")
    return faults


def list_file_faults(store: Store) -> list[str]:
    """Files that hold no entry, and entries with fields that cannot be read or a secret: people write them, too."""
    entries, refused = store.load_all()
    faults = [f"{name} holds no entry, a JSON object with a `trigger` in RFX-YYYYMMDD-abc.json: mend or delete it"
              for name in refused]  # fmt: skip
    for entry in entries:
        misread = list_misread(store.read_data(entry.id))
        faults += [f"{entry.id}.json has no valid {' or '.join(misread)}: read as absent; mend it"] if misread else []
        if entry.strike_secrets()._replace(keywords=entry.keywords) != entry:
            faults.append(f"{entry.id}.json holds what looks like a secret; it is told as ***: take it out")
    return faults


def rebuild_index(_: argparse.Namespace) -> int:
    with _open() as store:
        store.follow_files(anew=True)
        faults = list_file_faults(store)
        print(f"{len(store.load_all()[0]):,} entries indexed")
    print("".join(f"NO  {fault}\n" for fault in faults), end="")
    return 1 if faults else 0


RUN: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "init": init, "install": change_hooks, "uninstall": change_hooks, "capture": capture, "recall": recall,
    "verify": verify, "promote": promote, "status": status, "rebuild-index": rebuild_index,
}  # fmt: skip
