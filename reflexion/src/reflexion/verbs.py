"""The verbs that people and agents type, and their options."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence

import reflexion
from reflexion import ReflexionError
from reflexion.entry import CONFIRMED, TYPES, Entry, add_note, count_failed, count_worked, is_known, resolve
from reflexion.hosts import FAILED, Event, get_host, load_hosts
from reflexion.install import Change, plan_install, plan_uninstall, write_changes
from reflexion.promote import plan_promotion, write_promotion
from reflexion.recall import count_tokens, recall_for_prompt, render_block
from reflexion.session import Session
from reflexion.status import collect_status, list_faults
from reflexion.store import Store, find_root, has_folder, make_folder, set_shared
from reflexion.verify import capture_failure, create_entry


def run_verb(words: Sequence[str]) -> int:
    """Run one; its exit code."""
    options = _make_parser().parse_args(words)
    try:
        return int(options.run(options))
    except (ReflexionError, OSError) as error:
        print(f"reflexion: {error}", file=sys.stderr)
        return 2 if isinstance(error, ReflexionError) else 1


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="reflexion", description=reflexion.__doc__)
    parser.add_argument("--version", action="version", version=f"reflexion {reflexion.__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(name: str, run: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(run=run)
        return verb

    def add_writing(verb: argparse.ArgumentParser) -> None:
        verb.add_argument("--dry-run", action="store_true", help="print the change; write nothing")
        verb.add_argument("-y", "--yes", action="store_true", help="write it without asking")

    verb = add("init", init, "Begin in this folder: .reflexion/, private unless --shared. Captures begin it, too.")
    verb.add_argument("--shared", action="store_true", help="git keeps the entries, and those of others are recalled")
    for name, run, text in (
        ("install", install, "Add hooks and the skill to an agent's settings: print the change, then write it."),
        ("uninstall", uninstall, "Take out what install wrote, and nothing else."),
    ):
        verb = add(name, run, text)
        verb.add_argument("--agent", required=True, choices=list(load_hosts()))
        verb.add_argument("--user", action="store_true", help="for all projects of this user, not this one alone")
        add_writing(verb)
    verb = add("capture", capture, "Write down a correction, an insight, a pattern that works, or an error.")
    verb.add_argument("--type", default="error", choices=TYPES)
    verb.add_argument("--trigger", required=True, help="what was seen or said")
    verb.add_argument("--resolution", default="", help="what helps")
    verb.add_argument("--context", default="", help="the command, or the situation")
    verb = add("recall", recall, "Print what a prompt brings back, as an agent gets it.")
    verb.add_argument("text", nargs="+")
    verb = add("verify", verify, "Say whether an entry's resolution worked.")
    verb.add_argument("id")
    outcome = verb.add_mutually_exclusive_group(required=True)
    outcome.add_argument("--worked", action="store_true")
    outcome.add_argument("--failed", action="store_true")
    verb.add_argument("--note", default="", help="what was seen")
    verb = add("promote", promote, "Make one entry a rule in CLAUDE.md or AGENTS.md; it is recalled no longer.")
    verb.add_argument("id", nargs="?", default="", help="the next that is ready when absent")
    add_writing(verb)
    add("status", show_status, "Print the dashboard, and what is wrong; exit code 1 when something is.")
    add("rebuild-index", rebuild_index, "Make index.txt anew; it follows the files by itself.")
    return parser


def init(options: argparse.Namespace) -> int:
    """Begin the loop."""
    folder = make_folder(os.getcwd(), options.shared)
    set_shared(os.getcwd(), options.shared)
    how = "shared: commit it; type this in every clone" if options.shared else "private, git ignores it"
    print(f"{folder}: {how}")
    return 0


def install(options: argparse.Namespace) -> int:
    """Add the hooks and the skill."""
    changes = plan_install(options.agent, os.getcwd(), options.user)
    if _confirm(options, changes):
        write_changes(changes, installs=True)
        print(f"hooks of {options.agent} installed. {get_host(options.agent).guide}")
    return 0


def uninstall(options: argparse.Namespace) -> int:
    """Take them out."""
    changes = plan_uninstall(options.agent, os.getcwd(), options.user)
    if _confirm(options, changes):
        write_changes(changes)
        print(f"hooks of {options.agent} taken out")
    return 0


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


def _load(store: Store, end: str) -> Entry:
    """The entry that has this id, or one that ends so."""
    ids = [each for each in store.list_ids("*") if each == end or each.endswith(f"-{end}")]
    entry = store.load_entry(ids[0]) if len(ids) == 1 else None
    if entry is None:
        raise ReflexionError(f"no entry {end!r}: `ls .reflexion/entries` names all")
    return entry


def capture(options: argparse.Namespace) -> int:
    """Write an entry by hand."""
    now = time.time()
    make_folder(find_root(os.getcwd()) or os.getcwd())
    with _open() as store:
        if options.type == "error":
            event = Event(FAILED, "hand", cwd=os.getcwd(), command=options.context, output=options.trigger)
            entry = capture_failure(store, Session(store, "hand"), event, now)
            entry = store.save_entry(resolve(entry, options.resolution, CONFIRMED)) if options.resolution else entry
        else:
            texts = options.trigger, options.context, options.resolution
            entry = create_entry(store, options.type, *texts, now, "hand", os.getcwd())
    file = f".reflexion/entries/{entry.id}.json"
    missing = "" if is_known(entry) else f"; not recalled until {file} says in `resolution` what helps"
    print(f"{entry.id}: {entry.trigger} (seen {entry.occurrences}x){missing}")
    return 0


def recall(options: argparse.Namespace) -> int:
    """Print what is recalled."""
    with _open() as store:
        block, _ = render_block(recall_for_prompt(store, " ".join(options.text), time.time()))
    print(f"{block}\n{count_tokens(block)} tokens" if block else "nothing is recalled: 0 tokens")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Count that an entry worked, or did not."""
    with _open() as store:
        entry = _load(store, options.id)
        if options.worked:
            entry = count_worked(entry, time.time())._replace(resolved_by=CONFIRMED if entry.resolution else "")
            entry = add_note(entry, options.note) if options.note else entry
        else:
            entry = count_failed(entry, time.time(), options.note)
        entry = store.save_entry(entry)
    print(f"{entry.id}: confidence {entry.confidence:.2f}, worked {entry.worked}, did not work {entry.failed}")
    return 0


def promote(options: argparse.Namespace) -> int:
    """Make a rule."""
    with _open() as store:
        plan = plan_promotion(store, time.time(), _load(store, options.id).id if options.id else "")
    if plan is None:
        print("no entry is ready; `reflexion promote ID` says what an entry waits for")
    elif _confirm(options, [plan.change]):
        with _open() as store:
            write_promotion(store, plan)
        print(f"{plan.change.path}: one rule more, from {plan.entry.id}; {plan.others} more are ready")
    return 0


def show_status(_: argparse.Namespace) -> int:
    """Print the dashboard."""
    with _open() as store:
        faults = list_faults(store, time.time())
        print("\n".join(collect_status(store, time.time()) + [f"NO  {fault}" for fault in faults]))
    return 1 if faults else 0


def rebuild_index(_: argparse.Namespace) -> int:
    """Make the index anew."""
    with _open() as store:
        print(f"{store.rebuild():,} entries indexed")
    return 0
