"""`reflexion`: the memory loop of a project: what failed, what helped, what became a rule."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reflexion.entry import CONFIRMED, TYPES, add_note, dump_entry
from reflexion.entry_files import get_path, load_all, remove
from reflexion.errors import UnknownName, UsageError
from reflexion.folder import make_folder, read_settings
from reflexion.verbs import hooks
from reflexion.verbs import rules as coding_rules
from reflexion.verbs.project import Json, find_project_root, load_entry, open_project
from reflexion.verbs.terminal import echo, print_json, print_paragraph, print_status

if TYPE_CHECKING:
    from reflexion.recall import Match

app = typer.Typer(
    help="The memory loop for coding agents: failed commands and what helped, recalled, verified, made rules.",
    no_args_is_help=True,
)

EntryId = Annotated[str, typer.Argument(metavar="ID", help="Entry, e.g. RFX-20260331-a7f; the end alone will do.")]
Type = Annotated[str, typer.Option("--type", help="error, correction, insight or pattern.")]


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
    from reflexion.team import share_project
    from reflexion.user_files import set_shared

    root = str(Path.cwd())
    folder = make_folder(root, shared)
    if shared:
        merges = share_project(root)
        does = "merges" if merges else "does not merge (no repository here)"
        echo(f"{folder}: shared. Commit it; git {does} entries.")
    else:
        set_shared(root, False)
        echo(f"{folder}: private, git ignores it.")


@app.command()
def capture(
    trigger: Annotated[str, typer.Option(help="What was seen or said; found in --output when absent.")] = "",
    resolution: Annotated[str, typer.Option(help="What helps.")] = "",
    context: Annotated[str, typer.Option(help="The command, or the situation.")] = "",
    kind: Type = "error",
    output: Annotated[Path | None, typer.Option(help="File with what the command printed; - is stdin.")] = None,
    code: Annotated[int | None, typer.Option(min=0, max=255, help="Its exit code.")] = None,
) -> None:
    """Capture something by hand: a correction by the user, an insight, a pattern that works, an error.

    The same trigger of the same program again counts up. Secrets are struck out before anything is written.
    """
    from reflexion.event import FAILED, Event

    if kind not in TYPES:
        raise UnknownName("type", kind, TYPES)
    text = "" if output is None else _read_output(output)
    if not trigger and not text:
        raise UsageError("nothing to capture: give --trigger, or --output with what the command printed")
    with open_project(make=True) as index:
        from reflexion.capture import capture_failure, create_entry, write_entry
        from reflexion.confidence import resolve

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
    from reflexion.files import read_bytes

    data = sys.stdin.buffer.read() if str(path) == "-" else read_bytes(path)
    return data.decode("utf-8", errors="replace")


@app.command()
def recall(
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="A prompt, or with --command a command.")],
    command: Annotated[bool, typer.Option("--command", help="The text is a command that is about to run.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="How every entry scored, and what kept it out.")] = False,
    json_: Json = False,
) -> None:
    """Print what a prompt or a command brings back, as an agent would get it; nothing when nothing matches."""
    from reflexion.block import count_tokens, render_block
    from reflexion.commands import normalize_command
    from reflexion.recall import recall_for_command, recall_for_prompt

    said, now = " ".join(text), time.time()
    with open_project() as index:
        settings = read_settings(index.root)
        if command:
            matches = recall_for_command(index, normalize_command(said, index.root), now)
        else:
            matches = recall_for_prompt(index, said, now, settings["threshold"])
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
    from reflexion.capture import write_entry
    from reflexion.confidence import count_failed, count_worked

    with open_project() as index:
        entry, now = load_entry(index, entry_id), time.time()
        if worked:
            entry = count_worked(entry, now)._replace(resolved_by=CONFIRMED if entry.resolution else "")
            entry = add_note(entry, note) if note else entry
        else:
            entry = count_failed(entry, now, note)
        entry = write_entry(index, entry)
    echo(f"{entry.id}: confidence {entry.confidence:.2f}, worked {entry.worked}, did not work {entry.failed}")


@app.command("list")
def list_entries(
    kind: Annotated[
        str | None, typer.Option("--type", help="Only these: error, correction, insight or pattern.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="What keeps each from being promoted.")] = False,
    json_: Json = False,
) -> None:
    """List entries, the most seen first. Files that hold none are named."""
    from reflexion.promote import explain_unready

    root = find_project_root()
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
    with open_project() as index:
        print_json(dump_entry(load_entry(index, entry_id)))


@app.command()
def edit(
    entry_id: EntryId,
    resolution: Annotated[str | None, typer.Option(help="What helps; it counts as confirmed.")] = None,
    trigger: Annotated[str | None, typer.Option(help="What was seen.")] = None,
    context: Annotated[str | None, typer.Option(help="The command.")] = None,
    kind: Annotated[str | None, typer.Option("--type", help="error, correction, insight or pattern.")] = None,
) -> None:
    """Change an entry: with options, or its file in $EDITOR. What you edit is yours: it is signed as your own."""
    from reflexion.capture import write_entry
    from reflexion.confidence import resolve
    from reflexion.triggers import list_keywords
    from reflexion.user_files import sign

    if kind is not None and kind not in TYPES:
        raise UnknownName("type", kind, TYPES)
    given = {"trigger": trigger, "context": context, "type": kind}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    with open_project() as index:
        entry_id = load_entry(index, entry_id).id
    if not changes and resolution is None:
        _open_editor(get_path(index.root, entry_id))
    with open_project() as index:
        entry = load_entry(index, entry_id)._replace(**changes, owner=sign(index.root, entry_id))
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
    with open_project() as index:
        for entry_id in [load_entry(index, each).id for each in entry_ids]:
            remove(index.root, entry_id)
            echo(f"{entry_id}: forgotten")
    with open_project():  # which sees that they are gone
        pass


app.command()(coding_rules.promote)
app.command()(coding_rules.status)
app.command("rebuild-index")(coding_rules.rebuild_index)
app.command()(coding_rules.export)
app.command()(coding_rules.doctor)
app.command()(coding_rules.migrate)
app.command()(hooks.install)
app.command()(hooks.uninstall)
app.command("hooks")(hooks.show)
