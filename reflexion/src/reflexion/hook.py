"""What a host calls at a hook: a payload in, a block out, or nothing. It never fails the host.

Whatever goes wrong here ends with exit code 0, nothing on stdout and one line in the log. It ends by itself after
two seconds, long before the host would lose patience.
"""

from __future__ import annotations

import os
import signal
import sys
import time

MOST_BYTES = 64 << 20
"""Bytes of a payload that is read; more than that is let go."""


def run_hook(agent: str) -> None:
    """Read a payload from stdin, print what the host is to be told."""
    try:
        _set_limit(agent)
        payload = sys.stdin.buffer.read(MOST_BYTES + 1)
        if len(payload) > MOST_BYTES:
            while sys.stdin.buffer.read(1 << 20):  # a host that writes on must not meet a closed pipe
                pass
            raise ValueError(f"a payload of more than {MOST_BYTES >> 20} MiB")
        if text := answer_payload(agent, payload, time.time()):
            sys.stdout.buffer.write(text.encode("utf-8", errors="replace"))
            sys.stdout.buffer.flush()
    except BaseException as error:
        _log(agent, f"{type(error).__name__}: {error}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0) if hasattr(signal, "setitimer") else None


def answer_payload(agent: str, payload: bytes, now: float) -> str:
    """What a host is to be told, as JSON text; empty for nothing. Raises what goes wrong."""
    import json

    from reflexion.hosts import get_host
    from reflexion.loop import find_project, follow

    data = json.loads(payload.decode("utf-8", errors="replace"))
    if b"\\ud" in payload.lower():  # half of a sign, as a host leaves it that cuts texts: no file takes one
        data = json.loads(json.dumps(data, ensure_ascii=False).encode("utf-8", errors="replace"))
    if not isinstance(data, dict):
        raise ValueError(f"the payload is no object but a {type(data).__name__}")
    host = get_host(agent)
    event = host.read(data)
    root = find_project(event)
    if root is None:
        return ""
    block = follow(event, root, now, event.kind in host.TELLS)
    return json.dumps(host.answer(event, block), ensure_ascii=True) if block else ""


def _set_limit(agent: str) -> None:
    """End quietly when the time is over, whatever is under way: files are replaced whole, and the index forgets what
    was not finished."""
    if not hasattr(signal, "setitimer"):
        return

    from reflexion.user_files import get_limit

    limit = get_limit()

    def give_up(*_: object) -> None:
        _log(agent, f"gave up after {limit:g} s")
        os._exit(0)

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, limit)


def _log(agent: str, text: str) -> None:
    try:
        from reflexion.user_files import log_line

        log_line(f"hook {agent}: {text}")
    except BaseException:
        return
