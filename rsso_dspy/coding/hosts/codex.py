"""Codex CLI. `PostToolUse` comes either way, and no field says how the command ended: the head that Codex itself puts
before the output does, or an object with an exit code. A response without either tells nothing, and nothing follows."""

from __future__ import annotations

import re

from rsso_dspy.coding.event import BEFORE, FAILED, PROMPT, START, SUCCEEDED, Event
from rsso_dspy.coding.hosts.reading import (
    Payload,
    describe_common,
    get_text,
    is_shell,
    join_output,
    parse_object,
    read_code,
    read_command,
    tell_outcome,
)
from rsso_dspy.coding.hosts.settings import SECONDS, Settings

TELLS = frozenset({PROMPT, BEFORE, FAILED, SUCCEEDED, START})
SETTINGS = Settings(
    project=".codex/hooks.json",
    user="~/.codex/hooks.json",
    events=(("SessionStart", ""), ("UserPromptSubmit", ""), ("PreToolUse", "Bash"), ("PostToolUse", "Bash")),
    timeout=5 * SECONDS,
    rules_file="AGENTS.md",
    guide="Codex asks once whether the hooks may run (/hooks); older builds need `[features] hooks = true` in "
    "config.toml, `codex_hooks` before that. Where a build says no exit code at all, nothing is captured.",
)

_HEAD = re.compile(
    r"\A((?:(?:Chunk ID|Wall time|Original token count|Total output lines|Process exited with code|Exit code)\b"
    r"[^\n]*\n)+)"
    r"(?:Final )?output:(?:\n|\Z)",
    re.I,
)
"""What Codex writes before an output. A program that prints such a line prints it behind this."""
_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})\s*$", re.M | re.I)


def read(payload: Payload) -> Event:
    """What a hook was told."""
    event = Event(**describe_common(payload, "codex", "CODEX_PROJECT_DIR"))
    if event.name == "SessionStart":
        return event._replace(kind=START)
    if event.name == "UserPromptSubmit":
        return event._replace(kind=PROMPT, prompt=get_text(payload, "prompt"))
    if not is_shell(payload) or not (command := read_command(payload)):
        return event
    event = event._replace(command=command)
    if event.name == "PreToolUse":
        return event._replace(kind=BEFORE)
    if event.name in ("PostToolUse", "PostToolUseFailure"):
        code, output = _read_response(payload.get("tool_response"))
        if event.name == "PostToolUseFailure" and not code:
            code = 1
        return event._replace(kind=tell_outcome(code), output=output, code=code)
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


def answer(event: Event, block: str) -> Payload:
    """What tells the agent a block."""
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": block}}
