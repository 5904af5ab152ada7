"""What a host calls at a hook: a payload in, a block out, or nothing. It never fails the host.

Whatever goes wrong here ends with exit code 0, nothing on stdout and one line in the log. It ends by itself after two
seconds, long before the host would lose patience: files are replaced whole.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from reflexion import hosts
from reflexion.commands import answers_no, normalize_command
from reflexion.entry import Entry
from reflexion.hosts import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from reflexion.recall import can_recall, recall_for_command, recall_for_prompt, render_block
from reflexion.session import Session
from reflexion.store import Store, find_root, get_limit, has_folder, log_line, read_settings
from reflexion.verify import capture_failure, clean_typed, is_named, learn_from_success

MOST_BEFORE = 3
"""Times that one entry is recalled before a command in one session: an agent that goes on has its reasons."""


def run_hook(agent: str) -> None:
    """Read a payload from stdin, print what the host is to be told."""

    def give_up(*_: object) -> None:
        log_line(f"hook {agent}: gave up after {get_limit():g} s")
        os._exit(0)

    try:
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, get_limit())
        if text := answer_payload(agent, sys.stdin.buffer.read(), time.time()):
            sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
            sys.stdout.buffer.flush()
    except BaseException as error:
        log_line(f"hook {agent}: {type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def answer_payload(agent: str, payload: bytes, now: float) -> str:
    """What a host is to be told, as JSON text; empty for nothing. Raises what goes wrong."""
    data = json.loads(payload.decode("utf-8", errors="replace"))
    if b"\\ud" in payload.lower():  # half of a sign, as a host leaves it that cuts texts: no file takes one
        data = json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", errors="replace"))
    if not isinstance(data, dict):
        raise ValueError(f"the payload is no object but a {type(data).__name__}")
    event = hosts.read_event(agent, data)
    root = find_root(event.cwd) or find_root(event.root)
    block = follow(event, root, now) if root else ""
    return json.dumps(hosts.answer(agent, event, block)) if block else ""


def follow(event: Event, root: str, now: float) -> str:
    """What the host is to be told, a block or nothing; where it does not listen, the block waits for the next event at
    which it does. Raises `OSError` and `ReflexionError`."""
    if event.kind == NOTHING and not event.call:
        return ""
    if not has_folder(root) and event.kind != FAILED and not event.transcript:
        return ""
    with Store(root, quick=event.kind != START) as store:
        session = Session(store, event.session)
        block = _follow_silent_calls(store, session, event, now) if event.call or event.transcript else ""
        block = _follow_kind(store, session, event, now) or block
        if event.kind in hosts.get_host(event.agent).tells:
            block, session.waiting = block or session.waiting, ""
        else:
            block, session.waiting = "", block or session.waiting
        session.save()
        return block


def _follow_silent_calls(store: Store, session: Session, event: Event, now: float) -> str:
    """Follow commands of this session that ended without a word of how, once the host's transcript says it. Returns
    the block of the last one that has one."""
    if event.call:
        session.silent[event.call] = clean_typed(store.root, event, event.output)
        session.silent = dict(list(session.silent.items())[-40:])
    block = ""
    outcomes = hosts.find_outcomes(event.transcript, session.silent) if session.silent and event.transcript else {}
    for call, (code, output) in outcomes.items():
        command = session.silent.pop(call)
        ended = event._replace(kind=hosts.tell_outcome(code), command=command, output=output, code=code)
        block = _follow_kind(store, session, ended, now) or block
    return block


def _follow_kind(store: Store, session: Session, event: Event, now: float) -> str:
    if event.kind == NOTHING or (event.kind != FAILED and not has_folder(store.root)):
        return ""
    if event.kind == FAILED and answers_no(event.command, event.code, event.output):
        return ""
    if event.kind == PROMPT:
        return _show(session, recall_for_prompt(store, event.prompt, now), most=1)
    if event.kind == BEFORE:
        session.began = now
        entries = recall_for_command(store, event.command, now)
        return _show(session, [each for each in entries if not _is_heeded(store, each, event)], MOST_BEFORE)
    changed: list[Entry] = []
    block = ""
    if event.kind == FAILED:
        changed = [capture_failure(store, session, event, now)]
        block = _show(session, [e for e in changed if can_recall(store, e, now, at_failure=True)], most=1)
    elif event.kind == SUCCEEDED:
        changed = learn_from_success(store, session, event, now)
    if (changed or event.kind == START) and read_settings(store.root)[0]:
        from reflexion.promote import plan_promotion, write_promotion

        if plan := plan_promotion(store, now):
            write_promotion(store, plan)
    return block


def _show(session: Session, entries: Sequence[Entry], most: int) -> str:
    """The block of entries, counted as shown; nothing of what this session has been shown `most` times."""
    new = [entry for entry in entries if entry.id not in session.shown or session.shown[entry.id].times < most]
    block, ids = render_block(new)
    for entry_id in ids:
        session.note_recall(entry_id)
    return block


def _is_heeded(store: Store, entry: Entry, event: Event) -> bool:
    """Whether a command that is about to run is the very one that a resolution says to use (`sudo X` for `X`)."""
    normal = normalize_command(event.command, store.root)
    return entry.resolution.startswith("use `") and is_named(entry, store.root, normal, event.command)
