"""One event of a host, from what it tells to what it is told: the whole loop in one function.

text = follow(event, root, now)     # a recall block, or nothing
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from reflexion.block import render_block
from reflexion.commands import answers_no, normalize_command
from reflexion.event import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from reflexion.folder import find_root, has_folder, read_settings
from reflexion.index import MOST_CHECKED, Index, open_index
from reflexion.recall import Match, match_entry, recall_for_command, recall_for_prompt

MOST_BEFORE = 3
"""Times that one entry is recalled before a command in one session: an agent that goes on has its reasons."""


def find_project(event: Event) -> str | None:
    """The project that an event is of: where the loop has begun, a repository, or what the host says is one. None where
    there is none, and for the home folder."""
    for start in (event.cwd, event.root):
        if root := find_root(start):
            return root
    named = os.path.abspath(event.root) if event.root else "/"
    return named if os.path.isdir(named) and named not in ("/", os.path.expanduser("~")) else None


def follow(event: Event, root: str, now: float, tells: bool = True) -> str:
    """What the host is to be told, a block or nothing. `tells`: whether it listens at this event; if not, the block
    waits for the next one at which it does. Raises `OSError`, `sqlite3.Error` and `Full`."""
    if event.kind == NOTHING and not event.call:
        return ""
    if not has_folder(root) and event.kind != FAILED and not event.transcript:
        return ""
    with open_index(root, checks=MOST_CHECKED if event.kind == START else 0) as index:
        block = _follow_silent_calls(index, event, now) if event.call or event.transcript else ""
        block = _follow_kind(index, event, now) or block
        if tells:
            waiting = index.take_waiting(event.session)
            return block or waiting
        if block:
            index.add_waiting(event.session, block, now)
        return ""


def _follow_silent_calls(index: Index, event: Event, now: float) -> str:
    """Follow commands of this session that ended without a word of how, once the host's transcript says it. Returns
    the block of the last one that has one."""
    from reflexion.hosts import get_host
    from reflexion.hosts.reading import tell_outcome
    from reflexion.secrets import clean_typed

    if event.call:
        index.tally(f"silent {event.agent}")
        index.add_silent_call(event.session, event.call, clean_typed(event.command, index.root), now)
    block, calls = "", index.list_silent_calls(event.session)
    outcomes = get_host(event.agent).find_outcomes(event.transcript, calls) if calls and event.transcript else {}
    for call, command in calls.items():
        if call not in outcomes:
            continue
        code, output = outcomes[call]
        index.drop_silent_call(event.session, call)
        if code is not None:
            index.tally(f"silent {event.agent}", -1)
        ended = event._replace(kind=tell_outcome(code), command=command, output=output, code=code)
        block = _follow_kind(index, ended, now) or block
    return block


def _follow_kind(index: Index, event: Event, now: float) -> str:
    if event.kind == NOTHING or (event.kind != FAILED and not has_folder(index.root)):
        return ""
    if event.kind == FAILED and answers_no(event.command, event.code, event.output):
        return ""
    settings = read_settings(index.root)
    if event.kind == PROMPT:
        matches = recall_for_prompt(index, event.prompt, now, settings["threshold"])
        return show(index, event.session, matches, "prompt", settings, now, most=1)
    if event.kind == BEFORE:
        command = _clean_command(index, event.command)
        matches = [m for m in recall_for_command(index, command, now) if not _is_heeded(index, m, event.command)]
        return show(index, event.session, matches, "before", settings, now, MOST_BEFORE)
    if event.kind == FAILED:
        from reflexion.capture import capture_failure

        entry = capture_failure(index, event, now)
        matches = [match_entry(index, entry, now)] if entry.resolution else []
        return show(index, event.session, matches, "after", settings, now, most=1)
    if event.kind == SUCCEEDED:
        from reflexion.successes import learn_from_success

        learn_from_success(index, event, now)
    elif settings["auto_promote"]:
        _promote(index, now)
    return ""


def show(
    index: Index, session: str, matches: Sequence[Match], place: str, settings: dict[str, object], now: float, most: int
) -> str:
    """The block of what is recalled, counted as shown; nothing of what this session has been shown `most` times."""
    entries = [match.entry for match in matches if not match.why_not]
    entries = [entry for entry in entries if index.count_shown(session, entry.id) < most]
    block, ids = render_block(entries[: int(str(settings["shown"]))], int(str(settings["tokens"])))
    for entry_id in ids:
        index.add_shown(session, entry_id, place, now)
    if ids:
        index.tally(f"recalled {place}")
    return block


def _clean_command(index: Index, command: str) -> str:
    """A command as entries have it."""
    normal = normalize_command(command, index.root)
    if not index.has_struck_commands():
        return normal
    from reflexion.secrets import clean_command

    return clean_command(command, index.root)


def _is_heeded(index: Index, match: Match, command: str) -> bool:
    """Whether a command that is about to run is the very one that a resolution says to use (`sudo X` for `X`)."""
    if not match.entry.resolution.startswith("use `"):
        return False
    from reflexion.resolution import is_named
    from reflexion.secrets import clean_command, clean_typed

    return is_named(match.entry, index.root, clean_command(command, index.root), clean_typed(command, index.root))


def _promote(index: Index, now: float) -> None:
    """One rule, where the project wants it without being asked."""
    from reflexion.promote import plan_promotion, write_promotion

    if plan := plan_promotion(index.root, now):
        write_promotion(index, plan)
