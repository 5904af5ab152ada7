"""What helped, in words that code can read again: the commands in it stand between backquotes."""

from __future__ import annotations

import re

from rsso_dspy.coding.commands import are_near, is_query, name_program, normalize_command
from rsso_dspy.coding.entry import Entry
from rsso_dspy.coding.index import Index

FLAKY = "run it again: it worked unchanged"


def may_explain(failed: str, succeeded: str) -> bool:
    """Whether a command that succeeded may be what one that failed should have been. One that only looks explains
    nothing but itself."""
    if is_query(succeeded) and name_program(succeeded) != name_program(failed):
        return False
    return are_near(failed, succeeded)


def propose_resolution(failed: str, succeeded: str, between: list[tuple[str, bool]]) -> str:
    """What seems to have helped, in words."""
    if succeeded != failed:
        return f"use `{succeeded}`"
    acts = [command for command, ok in between if ok and not is_query(command) and command != failed]
    if not acts:
        return FLAKY if not between else "it worked after a change to files"
    return "first run " + ", then ".join(f"`{command}`" for command in acts[-2:])


def was_applied(index: Index, session: str, entry: Entry, command: str, number: int) -> bool:
    """Whether what an entry says helps was done in a session after that number of commands, as far as one can see: a
    command that it names was run, or, where it names none, anything but the command that failed before."""
    named = list_named(entry, index.root)
    if named:
        return bool(named & {command, *(ran for ran, _ in index.list_commands(session, number))})
    return command != normalize_command(entry.context, index.root) or entry.resolution == FLAKY


def list_named(entry: Entry, root: str) -> set[str]:
    """Commands that a resolution names, normalized."""
    return {normalize_command(part, root) for part in re.findall(r"`([^`]+)`", entry.resolution)}
