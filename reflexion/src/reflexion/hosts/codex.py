"""Codex CLI. `PostToolUse` comes after success and failure alike. How the command ended is read from, in this order:
an object with an exit code; the head that Codex puts before an output; or, where the response is the bare output, as in
newer builds, the session's transcript. The transcript (`transcript_path`) gets the output with its head after the hook
has ended, so the command is captured at the next hook of the session."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection

from reflexion.event import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from reflexion.hosts.reading import (
    Payload,
    get_text,
    join_output,
    parse_object,
    read_code,
    read_event,
    tell_hook_output,
    tell_outcome,
)
from reflexion.hosts.settings import SECONDS, Settings

TELLS = frozenset({PROMPT, BEFORE, FAILED, SUCCEEDED, START})
KINDS = {"SessionStart": START, "UserPromptSubmit": PROMPT, "PreToolUse": BEFORE}
SETTINGS = Settings(
    project=".codex/hooks.json",
    user="~/.codex/hooks.json",
    events=(("SessionStart", ""), ("UserPromptSubmit", ""), ("PreToolUse", "Bash"), ("PostToolUse", "Bash")),
    timeout=5 * SECONDS,
    rules_file="AGENTS.md",
    guide="Codex asks once whether the hooks may run (/hooks); older builds need `[features] hooks = true` in "
    "config.toml, `codex_hooks` before that. Newer builds send no exit code; it is then read from the session's "
    "transcript at the next hook. `reflexion doctor` says when a build gives it in neither place: then nothing "
    "is captured.",
)

_HEAD = re.compile(
    r"\A((?:(?:Chunk ID|Wall time|Original token count|Total output lines|Process exited with code|Exit code)\b"
    r"[^\n]*\n)+)"
    r"(?:Final )?output:(?:\n|\Z)",
    re.I,
)
"""What Codex writes before an output. A program that prints such a line prints it behind this."""
TAIL = 1 << 20
"""Bytes at the end of a transcript in which outcomes are looked for."""
_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})\s*$", re.M | re.I)


def read(payload: Payload) -> Event:
    """What a hook was told."""
    event = read_event(payload, "codex", "CODEX_PROJECT_DIR", KINDS)
    event = event._replace(transcript=get_text(payload, "transcript_path"))
    if event.kind != NOTHING or not event.command:
        return event
    if event.name in ("PostToolUse", "PostToolUseFailure"):
        code, output = _read_response(payload.get("tool_response"))
        if event.name == "PostToolUseFailure" and not code:
            code = 1
        call = get_text(payload, "tool_use_id")[:100] if code is None else ""
        return event._replace(kind=tell_outcome(code), output=output, code=code, call=call)
    return event


def _read_response(response: object) -> tuple[int | None, str]:
    """Exit code and output of a response."""
    if isinstance(response, str):
        older = parse_object(response)  # as older builds have it; what a command prints has not both fields
        if older and isinstance(older.get("metadata"), dict) and "output" in older:
            return read_code(older["metadata"]), join_output(older["output"])
        head = _HEAD.match(response)
        line = _CODE.search(head[1]) if head else None
        return (int(line[1]) if line else None), response[head.end() :] if head else response
    output = join_output(response)
    code = read_code(response)
    if code is None and output:
        return _read_response(output)
    return code, output


def find_outcomes(transcript: str, calls: Collection[str]) -> dict[str, tuple[int | None, str]]:
    """Exit code and output of the calls that the end of a transcript has an output of; no exit code where it says none.
    Empty for a transcript that cannot be read."""
    try:
        with open(transcript, "rb", opener=_open_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return {}
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read(TAIL).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines:
        if "call_output" not in line or not any(call in line for call in calls):
            continue
        item = parse_object(line) or {}
        item = item["payload"] if isinstance(item.get("payload"), dict) else item
        call = item.get("call_id")
        if isinstance(call, str) and call in calls and str(item.get("type")).endswith("call_output"):
            found[call] = _read_response(item.get("output"))
    return found


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # a pipe in its place would wait for a writer


answer = tell_hook_output
