"""The command `reflexion`: what hosts call at a hook, and what people and agents type.

Of a hook the exit code is 0, whatever happened; else 0, 1 when something failed or is wrong, 2 for a wrong call.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False  # typing is slow to import, and hosts wait
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from reflexion.entry import Entry
    from reflexion.install import Change
    from reflexion.store import Store


def main() -> None:
    """Run the command and exit."""
    words = sys.argv[1:]
    if words[:1] == ["hook"]:
        from reflexion.loop import run_hook

        run_hook(words[2] if words[1:2] == ["--agent"] and len(words) > 2 else "")
        os._exit(0)  # whatever the host did to the other end of stdout meanwhile
    from reflexion import ReflexionError

    options = _make_parser().parse_args(words)
    try:
        raise SystemExit(options.run(options))
    except (ReflexionError, OSError) as error:
        print(f"reflexion: {error}", file=sys.stderr)
        raise SystemExit(2 if isinstance(error, ReflexionError) else 1) from None


def _make_parser() -> argparse.ArgumentParser:
    import argparse

    from reflexion import __version__
    from reflexion.entry import TYPES
    from reflexion.hosts import load_hosts

    parser = argparse.ArgumentParser(prog="reflexion", description=sys.modules["reflexion"].__doc__)
    parser.add_argument("--version", action="version", version=f"reflexion {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def add(name: str, run: object, text: str) -> argparse.ArgumentParser:
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(run=run)
        return verb

    verb = add("init", init, "Begin in this folder: .reflexion/, private unless --shared. Captures begin it, too.")
    verb.add_argument("--shared", action="store_true", help="git keeps the entries, and those of others are recalled")
    for name, text in (
        ("install", "Add hooks and the skill to an agent's settings: print the change, then write it."),
        ("uninstall", "Take out what install wrote, and nothing else."),
    ):
        verb = add(name, install, text)
        verb.set_defaults(installs=name == "install")
        verb.add_argument("--agent", required=True, choices=list(load_hosts()))
        verb.add_argument("--user", action="store_true", help="for all projects of this user, not this one alone")
        _add_writing(verb)
    verb = add("capture", capture, "Write down a correction, an insight, a pattern that works, or an error.")
    verb.add_argument("--type", default="error", choices=TYPES)
    verb.add_argument("--trigger", required=True, help="what was seen or said")
    verb.add_argument("--resolution", default="", help="what helps")
    verb.add_argument("--context", default="", help="the command, or the situation")
    verb = add("recall", recall, "Print what a prompt or a command brings back, as an agent gets it.")
    verb.add_argument("text", nargs="+")
    verb.add_argument("--command", action="store_true", help="the text is a command that is about to run")
    verb.add_argument("--explain", action="store_true", help="how every entry scored, and what kept it out")
    verb = add("verify", verify, "Say whether an entry's resolution worked.")
    verb.add_argument("id")
    outcome = verb.add_mutually_exclusive_group(required=True)
    outcome.add_argument("--worked", action="store_true")
    outcome.add_argument("--failed", action="store_true")
    verb.add_argument("--note", default="", help="what was seen")
    verb = add("edit", edit, "Change an entry; the file may as well be edited by hand.")
    verb.add_argument("id")
    for name in ("resolution", "trigger", "context"):
        verb.add_argument(f"--{name}")
    verb = add("promote", promote_entry, "Make one entry a rule in CLAUDE.md or AGENTS.md; it is recalled no longer.")
    verb.add_argument("id", nargs="?", default="", help="the next that is ready when absent")
    verb.add_argument("--into", default="", choices=["", "CLAUDE.md", "AGENTS.md"])
    _add_writing(verb)
    add("list", list_entries, "Print all entries, with what keeps each from being promoted.")
    add("status", show_status, "Print the dashboard, and what is wrong; exit code 1 when something is.")
    add("rebuild-index", rebuild_index, "Make index.txt anew; it follows the files by itself.")
    add("export", export, "Print a SKILL.md of all entries, for agents without this loop.")
    return parser


def _add_writing(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--dry-run", action="store_true", help="print the change; write nothing")
    verb.add_argument("-y", "--yes", action="store_true", help="write it without asking")


def init(options: argparse.Namespace) -> int:
    """Begin the loop."""
    from reflexion.store import make_folder, set_shared

    folder = make_folder(os.getcwd(), options.shared)
    set_shared(os.getcwd(), options.shared)
    how = "shared: commit it; type this in every clone" if options.shared else "private, git ignores it"
    print(f"{folder}: {how}")
    return 0


def install(options: argparse.Namespace) -> int:
    """Add the hooks, or take them out."""
    from reflexion.hosts import get_host
    from reflexion.install import plan_install, plan_uninstall, write_changes

    plan = plan_install if options.installs else plan_uninstall
    changes = plan(options.agent, os.getcwd(), "user" if options.user else "project")
    if _confirm(options, changes):
        write_changes(changes, options.installs)
        done = f"installed. {get_host(options.agent).guide}" if options.installs else "taken out"
        print(f"hooks of {options.agent} {done}")
    return 0


def _confirm(options: argparse.Namespace, changes: Sequence[Change]) -> bool:
    """Print changes; whether they are to be made. A person at a terminal is asked."""
    from reflexion import ReflexionError

    diff = "".join(change.diff for change in changes)
    print(diff or "nothing is to be changed", end="" if diff else "\n")
    if not diff or options.dry_run:
        return False
    if not options.yes and sys.stdin.isatty() and input("Write it? [y/N] ").strip().lower() not in ("y", "yes"):
        raise ReflexionError("nothing was written")
    return True


def _open(make: bool = False) -> Store:
    """The store of the project one is in. `make`: begin the loop where it has not begun."""
    from reflexion import ReflexionError
    from reflexion.store import Store, find_root, has_folder, make_folder

    root = find_root(os.getcwd()) or os.getcwd()
    if make:
        make_folder(root)
    elif not has_folder(root):
        raise ReflexionError("no .reflexion/ here or above: begin with `reflexion init`")
    return Store(root)


def _load(store: Store, end: str) -> Entry:
    """The entry that has this id, or one that ends so."""
    from reflexion import ReflexionError

    ids = [each for each in store.list_ids("*") if each == end or each.endswith(f"-{end}")]
    entry = store.load_entry(ids[0]) if len(ids) == 1 else None
    if entry is None:
        raise ReflexionError(f"no entry {end!r}: `reflexion list` names all")
    return entry


def capture(options: argparse.Namespace) -> int:
    """Write an entry by hand."""
    from reflexion.entry import CONFIRMED, is_known, resolve
    from reflexion.hosts import FAILED, Event
    from reflexion.session import Session
    from reflexion.verify import capture_failure, create_entry

    now = time.time()
    with _open(make=True) as store:
        if options.type == "error":
            event = Event(FAILED, "hand", cwd=os.getcwd(), command=options.context, output=options.trigger)
            entry = capture_failure(store, Session(store, "hand"), event, now)
            entry = store.save_entry(resolve(entry, options.resolution, CONFIRMED)) if options.resolution else entry
        else:
            texts = options.trigger, options.context, options.resolution
            entry = create_entry(store, options.type, *texts, now, "hand", os.getcwd())
    missing = (
        "" if is_known(entry) else f"; not recalled until `reflexion edit {entry.id} --resolution ...` says what helps"
    )
    print(f"{entry.id}: {entry.trigger} (seen {entry.occurrences}x){missing}")
    return 0


def recall(options: argparse.Namespace) -> int:
    """Print what is recalled."""
    from reflexion.recall import count_tokens, recall_for_command, recall_for_prompt, render_block
    from reflexion.store import read_settings

    text, now = " ".join(options.text), time.time()
    with _open() as store:
        settings = read_settings(store.root)
        matches = recall_for_command(store, text, now) if options.command else recall_for_prompt(
            store, text, now, settings["threshold"])  # fmt: skip
    block, _ = render_block([m.entry for m in matches if not m.why_not][: settings["shown"]], settings["tokens"])
    for m in matches if options.explain else ():
        print(f"{m.entry.id}  {m.score:.3f} = {m.overlap:.3f} x {m.confidence:.3f} x {m.experience:.2f} "
              f"(overlap x confidence x experience){': ' * bool(m.why_not)}{m.why_not}")  # fmt: skip
    print(f"{block}\n{count_tokens(block)} tokens" if block else "nothing is recalled: 0 tokens")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Count that an entry worked, or did not."""
    from reflexion.entry import CONFIRMED, add_note, count_failed, count_worked

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


def edit(options: argparse.Namespace) -> int:
    """Change an entry."""
    from reflexion.entry import CONFIRMED, resolve

    with _open() as store:
        entry = _load(store, options.id)
        entry = entry._replace(
            trigger=options.trigger or entry.trigger, context=options.context or entry.context, keywords=()
        )
        if options.resolution is not None:
            entry = resolve(entry, options.resolution, CONFIRMED)._replace(review=False)
        entry = store.save_entry(entry)
    print(f"{entry.id}: {entry.trigger} -> {entry.resolution}")
    return 0


def promote_entry(options: argparse.Namespace) -> int:
    """Make a rule."""
    from reflexion.promote import plan_promotion, write_promotion

    with _open() as store:
        entry_id = _load(store, options.id).id if options.id else ""
        plan = plan_promotion(store, time.time(), entry_id, options.into)
    if plan is None:
        print("no entry is ready; `reflexion list` says what each waits for")
    elif _confirm(options, [plan.change]):
        with _open() as store:
            write_promotion(store, plan)
        print(f"{plan.change.path}: one rule more, from {plan.entry.id}; {plan.others} more are ready")
    return 0


def list_entries(_: argparse.Namespace) -> int:
    """Print all entries."""
    from reflexion.promote import explain_unready

    with _open() as store:
        entries, damaged = store.load_all()
        for entry in sorted(entries, key=lambda entry: (-entry.occurrences, entry.id)):
            print(f"{entry.id}  {entry.occurrences}x  {entry.type}  {entry.context}: {entry.trigger}")
            print(f"  -> {entry.resolution or 'no resolution yet'}")
            print(f"  {explain_unready(store, entry, time.time()) or 'ready to be promoted'}")
    for name in damaged:
        print(f"{name} holds no entry; it is left alone: mend or delete it by hand")
    return 0


def show_status(_: argparse.Namespace) -> int:
    """Print the dashboard."""
    from reflexion.status import collect_status, list_faults

    with _open() as store:
        for name, said in collect_status(store, time.time()):
            print(f"{name:<12}{said}")
        faults = list_faults(store, time.time())
    for fault in faults:
        print(f"NO  {fault}")
    return 1 if faults else 0


def rebuild_index(_: argparse.Namespace) -> int:
    """Make the index anew."""
    with _open() as store:
        print(f"{store.rebuild():,} entries indexed")
    return 0


def export(_: argparse.Namespace) -> int:
    """Print a skill."""
    from reflexion.promote import render_skill

    with _open() as store:
        print(render_skill(store.load_all()[0], store.root), end="")
    return 0


if __name__ == "__main__":
    main()
