"""The command `reflexion`: what a host calls at a hook, a payload in, a block out, or nothing; and the verbs.

A hook never fails the host: whatever goes wrong ends with exit code 0, nothing on stdout and one line in the log. It
ends by itself after two seconds: files are replaced whole. Of a verb the exit code is 0, 1 when something failed or is
wrong, 2 for a wrong call.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from reflexion import hosts
from reflexion.commands import answers_no, normalize_command
from reflexion.entry import Entry, format_time
from reflexion.hosts import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from reflexion.recall import can_recall, recall_for_command, recall_for_prompt, render_block
from reflexion.store import OFTEN, Store, find_root, get_home, has_folder
from reflexion.verify import Session, capture_failure, clean_typed, is_named, learn_from_success

MOST_BEFORE, MOST_SILENT, LONGEST_LOG = 3, 40, 256_000
"""Times that one entry is recalled before a command in one session: an agent that goes on has its reasons. Commands
that wait for a word of how they ended. Bytes of the log."""


def main() -> None:
    words = sys.argv[1:]
    if words[:1] == ["hook"]:  # hosts wait: argparse is not imported
        run_hook(words[2] if words[1:2] == ["--agent"] and len(words) > 2 else "")
        os._exit(0)  # whatever the host did to the other end of stdout meanwhile
    from reflexion.verbs import run_verb

    raise SystemExit(run_verb(words))


def run_hook(agent: str) -> None:
    """Read a payload from stdin, print what the host is to be told."""

    def give_up(*_: object) -> None:
        log_line(f"hook {agent}: gave up after {limit:g} s")
        os._exit(0)

    try:
        limit = float(os.environ.get("REFLEXION_LIMIT") or 2)
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, limit)
        if text := answer_payload(agent, sys.stdin.buffer.read(), time.time()):
            sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
            sys.stdout.buffer.flush()
    except BaseException as error:
        log_line(f"hook {agent}: {type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def log_line(text: str) -> None:
    """One line into the log, which begins anew when it is long; nothing where none can be written."""
    path = os.path.join(get_home(), "hook.log")
    try:
        os.makedirs(get_home(), mode=0o700, exist_ok=True)
        mode = "w" if os.path.exists(path) and os.path.getsize(path) > LONGEST_LOG else "a"
        with open(path, mode, encoding="utf-8", errors="replace") as log:
            log.write(f"{format_time(time.time())} {' '.join(text.split())[:500]}\n")
    except OSError:
        pass


def answer_payload(agent: str, payload: bytes, now: float) -> str:
    """What a host is to be told, as JSON text; empty for nothing. Raises what goes wrong."""
    data = json.loads(payload.decode("utf-8", errors="replace"))
    if b"\\ud" in payload.lower():  # half of a sign, as a host leaves it that cuts texts: no file takes one
        data = json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", errors="replace"))
    event = hosts.read_event(agent, data)
    root = find_root(event.cwd)
    block = _follow(event, root, now) if root else ""
    field = hosts.HOSTS[agent]["answer"]
    said = {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": block}}
    return json.dumps({field: block} if field else said) if block else ""


def _follow(event: Event, root: str, now: float) -> str:
    """What the host is to be told, a block or nothing; where it does not listen, the block waits for the next event at
    which it does. Raises `OSError` and `ReflexionError`."""
    begins = event.kind == FAILED or event.transcript
    if (event.kind == NOTHING and not event.call) or not (begins or has_folder(root)):
        return ""
    with Store(root, quick=event.kind != START) as store:
        session = Session(store, event.session)
        block = _follow_silent_calls(store, session, event, now)
        block = _follow_kind(store, session, event, now) or block or session.waiting
        tells = event.kind in hosts.HOSTS[event.agent]["tells"]
        session.waiting = "" if tells else block
        session.save()
        return block if tells else ""


def _follow_silent_calls(store: Store, session: Session, event: Event, now: float) -> str:
    """Follow commands of this session that ended without a word of how, once the host's transcript says it."""
    if event.call:
        session.silent[event.call] = clean_typed(store.root, event, event.output)
        session.silent = dict(list(session.silent.items())[-MOST_SILENT:])
    block = ""
    outcomes = hosts.find_outcomes(event.transcript, session.silent) if session.silent and event.transcript else {}
    for call, (code, output) in outcomes.items():
        kind, command = hosts.tell_outcome(code), session.silent.pop(call)
        ended = hosts.judge_end(event._replace(kind=kind, command=command, output=output, code=code, by_words=False))
        block = _follow_kind(store, session, ended, now) or block
    return block


def _follow_kind(store: Store, session: Session, event: Event, now: float) -> str:
    changed: list[Entry] = []
    block = ""
    if event.kind == FAILED and not answers_no(event.command, event.code, event.output):
        changed = [capture_failure(store, session, event, now)]
        block = _show(session, [e for e in changed if can_recall(store, e, now)], most=1)
    elif event.kind in (NOTHING, FAILED) or not has_folder(store.root):
        return ""
    elif event.kind == PROMPT:
        return _show(session, recall_for_prompt(store, event.prompt, now), most=1)
    elif event.kind == BEFORE:
        session.began = now
        normal, recalled = normalize_command(event.command, store.root), recall_for_command(store, event.command, now)
        heeded = [e for e in recalled if e.uses and is_named(e, store.root, normal, event.command)]  # `sudo X` for `X`
        return _show(session, [entry for entry in recalled if entry not in heeded], MOST_BEFORE)
    elif event.kind == SUCCEEDED:
        changed = learn_from_success(store, session, event, now)
    if (changed or event.kind == START) and store.list_ids(OFTEN):
        from reflexion.promote import promote_ready

        block = f"{block}\n{promote_ready(store, now)}".strip()
    return block


def _show(session: Session, entries: Sequence[Entry], most: int) -> str:
    """The block of entries, counted as shown; nothing of what this session has been shown `most` times."""
    new = [entry for entry in entries if entry.id not in session.shown or session.shown[entry.id].times < most]
    block, ids = render_block(new)
    for entry_id in ids:
        session.note_recall(entry_id)
    return block


if __name__ == "__main__":
    main()
