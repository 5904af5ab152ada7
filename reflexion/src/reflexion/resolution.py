"""What helped, in words that code can read again: the commands in it stand between backquotes."""

from __future__ import annotations

import re

from reflexion.commands import (
    is_query,
    is_test_run,
    list_before,
    name_program,
    normalize_command,
    show_command,
    split_before,
)
from reflexion.dangers import find_dangers
from reflexion.entry import Entry
from reflexion.index import Index
from reflexion.nearness import are_near
from reflexion.sessions import Failure, Ran

UNCHANGED = "it worked later, unchanged: it may be flaky, or a file was edited in between"
_UNEXPLAINED = (UNCHANGED, "run it again: it worked unchanged", "it worked after a change to files")
"""This, and what earlier versions wrote in its place."""


def may_explain(failed: str, succeeded: str) -> bool:
    """Whether a command that succeeded may be what one that failed should have been. One that only looks explains
    nothing but itself."""
    if is_query(succeeded) and name_program(succeeded) != name_program(failed):
        return False
    return are_near(failed, succeeded)


def propose_resolution(failure: Failure, command: str, typed: str, between: list[Ran]) -> str:
    """What seems to have helped, in words; empty where that cannot be said, or destroys what the failed command did
    not touch."""
    acts = [ran for ran in between if ran.ok and ran.command != failure.command and _is_act(ran)][-2:]
    before, was_before = list_before(typed), list_before(failure.typed)
    differs = command != failure.command or not set(before) <= set(was_before)
    named = [] if command != failure.command else [act.typed for act in acts]
    if differs:
        named.append(typed)
    shown = [f"`{show_command(each)}`" for each in named]
    if "``" in shown or any(find_dangers(each) - find_dangers(failure.typed) for each in named):
        return ""
    if shown and named == [typed]:
        return f"use {shown[0]}"
    if shown:
        return "first run " + ", then ".join(shown)
    return UNCHANGED if split_before(typed) == split_before(failure.typed) else ""


def _is_act(ran: Ran) -> bool:
    """Whether a command may have changed something that another one depends on."""
    if name_program(ran.command) == "cd":
        return ran.command.split() not in (["cd"], ["cd", "."])
    return not is_query(ran.command) and not is_test_run(ran.command)


def was_applied(index: Index, session: str, entry: Entry, command: str, typed: str, number: int) -> bool:
    """Whether what an entry says helps was done in a session after that number of commands, as far as one can see: a
    command that it names was run, or, where it names none, anything but the command that failed before. An entry that
    says no more than that the command worked later: it failed here first, and is run again as it was."""
    if entry.resolution in _UNEXPLAINED:
        ran = index.list_commands(session, number - 1)
        last = next((each for each in reversed(ran) if each.command == command), None)
        if last is None or last.ok or command != normalize_command(entry.context, index.root):
            return False
        between = [each for each in ran if each.number > last.number]
        return (
            propose_resolution(Failure(entry.id, command, last.typed, last.number), command, typed, between)
            == UNCHANGED
        )
    if list_named(entry, index.root):
        done = [(command, typed), *((ran.command, ran.typed) for ran in index.list_commands(session, number))]
        return any(is_named(entry, index.root, *each) for each in done)
    return command != normalize_command(entry.context, index.root)


def is_named(entry: Entry, root: str, command: str, typed: str) -> bool:
    """Whether a resolution names this command, with all that it says should stand before it."""
    before = set(list_before(typed))
    return any(name == command and before >= set(parts) for name, parts in list_named(entry, root))


def list_named(entry: Entry, root: str) -> list[tuple[str, list[str]]]:
    """Commands that a resolution names, normalized, each with what should stand before it."""
    named = re.findall(r"`([^`]+)`", entry.resolution)
    return [(normalize_command(each, root), list_before(each)) for each in named]
