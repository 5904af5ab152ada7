"""`rsso-dspy coding`: the memory loop of a project: what failed, what helped, what became a rule."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.cli.options import format_plural, print_status
from rsso_dspy.cli.terminal_text import echo, print_json, print_paragraph
from rsso_dspy.errors import RssoError, UnknownName, UsageError

if TYPE_CHECKING:
    from rsso_dspy.coding.entry import Entry
    from rsso_dspy.coding.index import Index
    from rsso_dspy.coding.recall import Match

app = typer.Typer(
    help="The memory loop for coding agents: failed commands and what helped, recalled, verified, made rules.",
    no_args_is_help=True,
)

EntryId = Annotated[str, typer.Argument(metavar="ID", help="Entry, e.g. RFX-20260331-a7f; the end alone will do.")]
Json = Annotated[bool, typer.Option("--json", help="JSON data instead of text.")]
Type = Annotated[str, typer.Option("--type", help="error, correction, insight or pattern.")]
ROWS = 40


@app.command()
def init(
    shared: Annotated[
        bool,
        typer.Option(
            "--shared/--private",
            help="Entries go into git, merge without conflict, and those of others are recalled; or git ignores them.",
        ),
    ] = False,
) -> None:
    """Begin the loop in this folder: .reflexion/, private unless --shared. Captures begin it by themselves, too.

    With --shared, type it once in every clone: only you can decide that entries which others wrote are recalled.
    """
    from rsso_dspy.coding.folder import make_folder
    from rsso_dspy.coding.team import share_project, unshare_project

    root = str(Path.cwd())
    folder = make_folder(root, shared)
    if shared:
        merges = share_project(root)
        echo(
            f"{folder}: shared. Commit it; git {'merges' if merges else 'does not merge (no repository here)'} entries."
        )
    else:
        unshare_project(root)
        echo(f"{folder}: private, git ignores it.")


@app.command()
def capture(
    trigger: Annotated[str, typer.Option(help="What was seen or said; found in --output when absent.")] = "",
    resolution: Annotated[str, typer.Option(help="What helps.")] = "",
    context: Annotated[str, typer.Option(help="The command, or the situation.")] = "",
    kind: Type = "error",
    output: Annotated[Path | None, typer.Option(help="File with what the command printed; - is stdin.")] = None,
    code: Annotated[int | None, typer.Option(help="Its exit code.")] = None,
) -> None:
    """Capture something by hand: a correction by the user, an insight, a pattern that works, an error.

    The same trigger of the same program again counts up. Secrets are struck out before anything is written.
    """
    from rsso_dspy.coding.entry import CONFIRMED, TYPES
    from rsso_dspy.coding.event import FAILED, Event

    if kind not in TYPES:
        raise UnknownName("type", kind, TYPES)
    text = "" if output is None else _read_output(output)
    if not trigger and not text:
        raise UsageError("nothing to capture: give --trigger, or --output with what the command printed")
    with _open(make=True) as index:
        from rsso_dspy.coding.capture import capture_failure, create_entry, write_entry
        from rsso_dspy.coding.confidence import resolve

        now = time.time()
        if kind == "error":
            event = Event(FAILED, "hand", "", "hand", str(Path.cwd()), "", context, trigger or text, code)
            entry = capture_failure(index, event, now)
            if resolution:
                entry = write_entry(index, resolve(entry, resolution, CONFIRMED, now))
        else:
            entry = create_entry(index, kind, trigger or text, context, resolution, now, "hand", str(Path.cwd()))
    echo(f"{entry.id}: {entry.trigger} (seen {entry.occurrences}x)")


def _read_output(path: Path) -> str:
    import sys

    from rsso_dspy.safe_read import read_bytes

    data = sys.stdin.buffer.read() if str(path) == "-" else read_bytes(path)
    return data.decode("utf-8", errors="replace")


@app.command()
def recall(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="A prompt, or with --command a command.")],
    command: Annotated[bool, typer.Option("--command", help="The text is a command that is about to run.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="How every entry scored, and what kept it out.")] = False,
    embedder: Annotated[
        str | None,
        typer.Option(help="Compare meanings too, as embedder.model: lexical, onnx/NAME, ... Off by default."),
    ] = None,
    json_: Json = False,
) -> None:
    """Print what a prompt or a command brings back, as an agent would get it; nothing when nothing matches."""
    from rsso_dspy.coding.block import count_tokens, render_block
    from rsso_dspy.coding.commands import normalize_command
    from rsso_dspy.coding.folder import read_settings
    from rsso_dspy.coding.recall import recall_for_command, recall_for_prompt

    said, now = " ".join(text), time.time()
    with _open() as index:
        settings = read_settings(index.root)
        if command:
            matches = recall_for_command(index, normalize_command(said, index.root), now)
        else:
            matches = recall_for_prompt(index, said, now, settings["threshold"], _make_embedder(embedder))
    chosen = [match.entry for match in matches if not match.why_not][: settings["shown"]]
    block, ids = render_block(chosen, settings["tokens"])
    if json_:
        print_json({"block": block, "tokens": count_tokens(block), "ids": ids, "matches": [*map(_describe, matches)]})
        return
    if explain:
        _print_matches(matches, settings["threshold"])
        echo(f"{count_tokens(block)} tokens:" if block else "Nothing is recalled: 0 tokens.")
    if block:
        echo(block)


def _make_embedder(name: str | None) -> Any:
    if name is None:
        return None
    from rsso_dspy.embedders import Embedder

    embed = Embedder(name)
    embed.check()
    return embed


def _describe(match: "Match") -> dict[str, Any]:
    terms = ("score", "overlap", "confidence", "experience", "alike")
    numbers = {name: round(getattr(match, name), 4) for name in terms}
    return {"id": match.entry.id, **numbers, "words": list(match.words), "why_not": match.why_not}


def _print_matches(matches: "list[Match]", threshold: float) -> None:
    print_paragraph(f"score = overlap x confidence x experience; recalled from {threshold:g} on")
    for match in matches:
        terms = f"{match.overlap:.3f} x {match.confidence:.3f} x {match.experience:.2f}"
        echo(f"{match.entry.id}  {match.score:.3f} = {terms}")
        if match.words:
            print_paragraph(f"words: {', '.join(match.words)}", "  ")
        if match.alike:
            print_paragraph(f"alike in meaning: {match.alike:.2f}", "  ")
        print_paragraph(f"not recalled: {match.why_not}" if match.why_not else "recalled", "  ")


@app.command()
def verify(
    entry_id: EntryId,
    worked: Annotated[bool, typer.Option("--worked/--failed", help="Whether what it says helped.")],
    note: Annotated[str, typer.Option(help="What was seen.")] = "",
) -> None:
    """Say whether an entry's resolution worked. Hooks do the same by what follows a recall."""
    from rsso_dspy.coding.capture import write_entry
    from rsso_dspy.coding.confidence import count_failed, count_worked
    from rsso_dspy.coding.entry import CONFIRMED, add_note

    with _open() as index:
        entry, now = _load(index, entry_id), time.time()
        if worked:
            entry = count_worked(entry, now)._replace(resolved_by=CONFIRMED if entry.resolution else "")
            entry = add_note(entry, note) if note else entry
        else:
            entry = count_failed(entry, now, note)
        entry = write_entry(index, entry)
    echo(f"{entry.id}: confidence {entry.confidence:.2f}, worked {entry.worked}, did not work {entry.failed}")


@app.command()
def promote(
    entry_id: Annotated[
        str, typer.Argument(metavar="ID", help="Which entry; the next that is ready when absent.")
    ] = "",
    into: Annotated[str, typer.Option(help="CLAUDE.md or AGENTS.md; the one that is there when absent.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the change as a diff; write nothing.")] = False,
) -> None:
    """Make one entry a rule in the agent's rules file, between two marks; it is recalled no longer.

    Ready is what was seen three times, first more than a day ago, with a resolution that is confirmed or has worked.
    """
    from rsso_dspy.coding.promote import plan_promotion, write_promotion

    if into not in ("", "CLAUDE.md", "AGENTS.md"):
        raise UsageError(f"{into} is no rules file: --into CLAUDE.md or --into AGENTS.md")
    with _open() as index:
        entry_id = _load(index, entry_id).id if entry_id else ""
        plan = plan_promotion(index.root, time.time(), entry_id, into)
        if plan is None:
            echo("No entry is ready; `rsso-dspy coding list --why` says what each waits for.")
            return
        echo(plan.diff, nl=False)
        if not dry_run:
            write_promotion(index, plan)
            echo(f"{plan.path}: one rule more, from {plan.entry.id}")
        if plan.others:
            print_status(
                f"{plan.others} more {'is' if plan.others == 1 else 'are'} ready: the next by the same command"
            )


@app.command()
def status(json_: Json = False) -> None:
    """Print the dashboard: what was captured, recalled, verified and promoted."""
    from rsso_dspy.coding.status import collect_status

    data = collect_status(_find_root(), time.time())
    if json_:
        print_json(data)
        return
    echo(f"{data['project']}: {'private' if data['private'] else 'shared'}", bold=True)
    types = ", ".join(f"{count} {kind}" for kind, count in data["types"].items() if count) or "none yet"
    recalled = ", ".join(f"{count} {place}" for place, count in data["recalled"].items()) or "none yet"
    for name, said in (
        ("entries", f"{data['entries']} ({types}), seen {data['occurrences']}x"),
        ("resolution", f"{data['confirmed']} confirmed, {data['proposed']} proposed, {data['open']} open"),
        ("recalls", recalled),
        ("verified", f"{data['worked']} worked, {data['did_not_work']} did not"),
        ("rules", f"{data['promoted']} promoted into {data['rules_file']}, {len(data['ready'])} ready"),
    ):
        echo(f"  {name:<11}{said}")
    for name in ("review", "damaged"):
        if data[name]:
            print_paragraph(f"{name}: {', '.join(data[name][:ROWS])}", "  ")
    for entry in data["most_seen"]:
        print_paragraph(f"{entry['occurrences']:>4}x {entry['id']} {entry['context']}: {entry['trigger']}", "  ")


@app.command("list")
def list_entries(
    kind: Annotated[
        str | None, typer.Option("--type", help="Only these: error, correction, insight or pattern.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="What keeps each from being promoted.")] = False,
    json_: Json = False,
) -> None:
    """List entries, the most seen first. Files that hold none are named."""
    from rsso_dspy.coding.entry import dump_entry
    from rsso_dspy.coding.entry_files import load_all
    from rsso_dspy.coding.promote import explain_unready

    root = _find_root()
    entries, damaged = load_all(root)
    entries = sorted((e for e in entries if kind in (None, e.type)), key=lambda e: (-e.occurrences, e.id))
    if json_:
        print_json({"entries": [dump_entry(entry) for entry in entries], "damaged": damaged})
        return
    for entry in entries:
        helped = entry.resolution or "no resolution yet"
        echo(f"{entry.id}  {entry.occurrences:>3}x  {entry.type:<10}  {entry.context or entry.trigger}", bold=True)
        print_paragraph(f"{entry.trigger} -> {helped}", "  ")
        if why:
            print_paragraph(explain_unready(root, entry, time.time()) or "ready to be promoted", "  ")
    for name in damaged:
        print_status(f"{name} holds no entry; it is left alone: mend or delete it by hand")


@app.command()
def show(entry_id: EntryId) -> None:
    """Print an entry as its file has it."""
    from rsso_dspy.coding.entry import dump_entry

    with _open() as index:
        print_json(dump_entry(_load(index, entry_id)))


@app.command()
def edit(
    entry_id: EntryId,
    resolution: Annotated[str | None, typer.Option(help="What helps; it counts as confirmed.")] = None,
    trigger: Annotated[str | None, typer.Option(help="What was seen.")] = None,
    context: Annotated[str | None, typer.Option(help="The command.")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="error, correction, insight or pattern.")] = None,
) -> None:
    """Change an entry: with options, or its file in $EDITOR. What you edit is yours: it is signed as your own."""
    from rsso_dspy.coding.capture import write_entry
    from rsso_dspy.coding.confidence import resolve
    from rsso_dspy.coding.entry import CONFIRMED, TYPES
    from rsso_dspy.coding.entry_files import get_path
    from rsso_dspy.coding.triggers import list_keywords
    from rsso_dspy.coding.user_files import sign

    if kind is not None and kind not in TYPES:
        raise UnknownName("type", kind, TYPES)
    given = {"trigger": trigger, "context": context, "type": kind}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with _open() as index:
        entry_id = _load(index, entry_id).id
    if not changes and resolution is None:
        _open_editor(get_path(index.root, entry_id))
    with _open() as index:
        entry = _load(index, entry_id)._replace(**changes, owner=sign(entry_id))
        if trigger is not None or context is not None:
            entry = entry._replace(keywords=tuple(list_keywords(entry.trigger, entry.context, entry.resolution)))
        if resolution is not None:
            entry = resolve(entry, resolution, CONFIRMED, time.time())._replace(review=False)
        write_entry(index, entry)
    echo(f"{entry.id}: {entry.trigger} -> {entry.resolution or 'no resolution yet'}")


def _open_editor(path: str) -> None:
    import click

    try:
        click.edit(filename=path)
    except click.ClickException as error:
        raise UsageError(f"no editor could be opened ({error.message}); set EDITOR, e.g. EDITOR=nano") from None


@app.command()
def forget(entry_ids: Annotated[list[str], typer.Argument(metavar="ID", help="Entries to delete.")]) -> None:
    """Delete entries."""
    from rsso_dspy.coding.entry_files import remove

    with _open() as index:
        for entry_id in [_load(index, each).id for each in entry_ids]:
            remove(index.root, entry_id)
            echo(f"{entry_id}: forgotten")
    with _open():  # which sees that they are gone
        pass


@app.command("rebuild-index")
def rebuild_index() -> None:
    """Make the index anew from the files, which it follows by itself but for one that an editor changed in place."""
    import os

    from rsso_dspy.coding.index import discard
    from rsso_dspy.coding.user_files import get_project_folder

    root = _find_root()
    discard(os.path.join(get_project_folder(root), "index.db"))
    with _open() as index:
        echo(f"{index.rebuild():,} entries indexed")


@app.command()
def export(
    form: Annotated[str, typer.Option("--as", help="rules (a block for AGENTS.md, CLAUDE.md) or skill.")] = "rules",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File, or a skill's folder; printed when absent.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every entry with a resolution, not just promoted ones.")
    ] = False,
    name: Annotated[str, typer.Option(help="Name of the skill; from the project's folder when absent.")] = "",
) -> None:
    """Write what was learnt for agents that know nothing of this loop."""
    from rsso_dspy.atomic import atomic_write_text, check_output_path, make_marked_kind
    from rsso_dspy.coding.entry_files import load_all
    from rsso_dspy.coding.export import make_skill_name, render_rules_block, render_skill, select_rules
    from rsso_dspy.coding.promote import BEGIN

    if form not in ("rules", "skill"):
        raise UnknownName("form", form, ("rules", "skill"))
    root = _find_root()
    entries = select_rules(load_all(root)[0], every)
    if not entries:
        raise UsageError("there is no rule to export: promote an entry first, or export --all")
    name = name or make_skill_name(root)
    text = render_rules_block(entries) if form == "rules" else render_skill(entries, name)
    if out is None:
        echo(text, nl=False)
        return
    path = out / name / "SKILL.md" if form == "skill" and out.suffix != ".md" else out
    check_output_path(path, kind=make_marked_kind("export", BEGIN.encode(), b"What failed in this project before"))
    atomic_write_text(path, text)
    echo(f"{path}: {format_plural(entries, 'rule')}")


@app.command()
def doctor() -> None:
    """Say whether the loop works here, and what to do about what does not. Exit code 1 when something is wrong."""
    import os

    from rsso_dspy.coding.folder import find_root
    from rsso_dspy.coding.status import examine

    found = examine(find_root(os.getcwd()) or os.getcwd(), time.time())
    for well, said, mend in found:
        print_paragraph(f"{'ok ' if well else 'NO '} {said}{f': {mend}' if mend else ''}")
    if not all(well for well, _, _ in found):
        raise typer.Exit(1)


@app.command()
def migrate(
    adopt: Annotated[bool, typer.Option("--adopt", help="Entries that somebody else signed, too.")] = False,
) -> None:
    """Take over entries that nobody signed, as files of the original loop's scripts. They become yours."""
    from rsso_dspy.coding.migrate import migrate_entries

    with _open() as index:
        done = migrate_entries(index, adopt)
    echo(f"{format_plural(done.taken, 'file')} taken over")
    if done.others:
        print_status(
            f"{format_plural(done.others, 'entry')} of somebody else left as they are: --adopt takes them over"
        )
    for name in done.left:
        print_status(f"{name} holds no entry; it is left alone")


def _find_root() -> str:
    import os

    from rsso_dspy.coding.folder import find_root, has_folder

    root = find_root(os.getcwd())
    if root is None or not has_folder(root):
        raise UsageError("no .reflexion/ here or above: begin with `rsso-dspy coding init`")
    return root


@contextmanager
def _open(make: bool = False) -> "Iterator[Index]":
    """The index of the project one is in. `make`: begin the loop where it has not begun."""
    import os

    from rsso_dspy.coding.folder import find_root, make_folder
    from rsso_dspy.coding.index import open_index

    if make:
        root = find_root(os.getcwd()) or os.getcwd()
        make_folder(root)
    else:
        root = _find_root()
    try:
        with open_index(root) as index:
            yield index
    except sqlite3.Error as error:
        raise RssoError(f"the index cannot be used ({error}); try `rsso-dspy coding rebuild-index`") from None


def _load(index: "Index", entry_id: str) -> "Entry":
    """An entry by its id or the end of it."""
    from rsso_dspy.coding.entry_files import list_files, load

    names = [name.removesuffix(".json") for name in list_files(index.root)]
    found = [name for name in names if name == entry_id] or [name for name in names if name.endswith(f"-{entry_id}")]
    if len(found) != 1:
        raise UnknownName("entry", entry_id, found or names)
    entry = load(index.root, found[0])
    if entry is None:
        raise UsageError(f"{found[0]}.json holds no entry: mend it by hand")
    return entry
