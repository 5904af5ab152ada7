"""Verbs of `reflexion` that look at all entries: dashboard, rules, exports, repair."""

import os
import time
from pathlib import Path
from typing import Annotated

import typer

from reflexion.entry_files import load_all
from reflexion.errors import UnknownName, UsageError
from reflexion.folder import find_root
from reflexion.verbs.project import Json, Yes, confirm_change, find_project_root, load_entry, open_project
from reflexion.verbs.terminal import echo, format_plural, print_json, print_paragraph, print_status

ROWS = 40
"""Names that a line of the dashboard lists."""


def promote(
    entry_id: Annotated[
        str, typer.Argument(metavar="ID", help="Which entry; the next that is ready when absent.")
    ] = "",
    into: Annotated[str, typer.Option(help="CLAUDE.md or AGENTS.md; the one that is there when absent.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the change as a diff; write nothing.")] = False,
    yes: Yes = False,
) -> None:
    """Make one entry a rule in the agent's rules file, between two marks; it is recalled no longer. At a terminal it
    prints the change and asks first.

    Ready is what was seen three times, first more than a day ago, with a resolution that is confirmed or has worked.
    """
    from reflexion.promote import plan_promotion, write_promotion

    if into not in ("", "CLAUDE.md", "AGENTS.md"):
        raise UsageError(f"{into} is no rules file: --into CLAUDE.md or --into AGENTS.md")
    with open_project() as index:
        entry_id = load_entry(index, entry_id).id if entry_id else ""
        plan = plan_promotion(index.root, time.time(), entry_id, into)
        if plan is None:
            echo("No entry is ready; `reflexion list --why` says what each waits for.")
            return
    if confirm_change(plan.diff, dry_run, yes):
        with open_project() as index:
            write_promotion(index, plan)
        echo(f"{plan.path}: one rule more, from {plan.entry.id}")
    if plan.others:
        print_status(f"{plan.others} more {'is' if plan.others == 1 else 'are'} ready: repeat the command for the next")


def status(json_: Json = False) -> None:
    """Print the dashboard: what was captured, recalled, verified and promoted."""
    from reflexion.status import collect_status

    data = collect_status(find_project_root(), time.time())
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


def rebuild_index() -> None:
    """Make the index anew from the files, which it follows by itself but for one that an editor changed in place."""
    from reflexion.index import discard
    from reflexion.user_files import get_project_folder

    root = find_project_root()
    discard(os.path.join(get_project_folder(root), "index.db"))
    with open_project() as index:
        echo(f"{index.rebuild():,} entries indexed")


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
    """Write what was learned for agents that know nothing of this loop."""
    from reflexion.export import make_skill_name, render_rules_block, render_skill, select_rules
    from reflexion.files import atomic_write_text, check_output_path, make_marked_kind
    from reflexion.promote import BEGIN

    if form not in ("rules", "skill"):
        raise UnknownName("form", form, ("rules", "skill"))
    root = find_project_root()
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


def doctor() -> None:
    """Say whether the loop works here, and what to do about what does not. Exit code 1 when something is wrong."""
    from reflexion.status import examine

    found = examine(find_root(os.getcwd()) or os.getcwd(), time.time())
    for well, said, mend in found:
        print_paragraph(f"{'ok ' if well else 'NO '} {said}{f': {mend}' if mend else ''}")
    if not all(well for well, _, _ in found):
        raise typer.Exit(1)


def migrate(
    adopt: Annotated[bool, typer.Option("--adopt", help="Entries that somebody else signed, too.")] = False,
) -> None:
    """Take over entries that nobody signed, as files of the original loop's scripts. They become yours."""
    from reflexion.migrate import migrate_entries

    with open_project() as index:
        done = migrate_entries(index, adopt)
    echo(f"{format_plural(done.taken, 'file')} taken over")
    if done.others:
        print_status(
            f"{format_plural(done.others, 'entry')} of somebody else left as they are: --adopt takes them over"
        )
    for name in done.left:
        print_status(f"{name} holds no entry; it is left alone")
