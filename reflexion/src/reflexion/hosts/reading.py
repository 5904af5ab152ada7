"""Fields of a payload, read as they come: a text where an object was expected, an object where a text was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from reflexion.event import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event

_SHELLS = """
bash shell local_shell exec_command unified_exec exec run_shell_command run_terminal_cmd terminal run_command
"""
SHELLS = frozenset(_SHELLS.split())
"""Names of tools that run commands, in lower case."""

Payload = dict[str, Any]


def get_text(payload: Payload, *names: str) -> str:
    """The first of these fields that holds a text."""
    return next((value for name in names if isinstance(value := payload.get(name), str) and value), "")


def get_object(payload: Payload, name: str) -> Payload:
    """A field as an object, also where it is one written as text."""
    value = payload.get(name)
    if isinstance(value, str):
        value = parse_object(value)
    return value if isinstance(value, dict) else {}


def parse_object(text: str) -> Payload | None:
    """The JSON object in a text; None for what holds none."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_shell(payload: Payload) -> bool:
    """Whether the tool runs commands."""
    return get_text(payload, "tool_name", "tool").lower() in SHELLS


def read_command(payload: Payload) -> str:
    """The command of a shell tool: a field of its input, a list of words, or the input itself."""
    given = payload.get("tool_input", payload.get("args"))
    if isinstance(given, str):
        given = parse_object(given) or given
    value = given.get("command", given.get("cmd")) if isinstance(given, dict) else given
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        shell = len(words) > 2 and os.path.basename(words[0]) in ("bash", "sh", "zsh") and words[1].startswith("-")
        value = words[2] if shell else " ".join(words)
    return value if isinstance(value, str) else ""


def read_code(data: object) -> int | None:
    """The exit code that an object says, whatever it calls it; None where it says none."""
    if not isinstance(data, dict):
        return None
    for name in ("exit_code", "exitCode", "exit", "code", "returncode", "status_code"):
        value = data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 6:
            return int(value)
    return read_code(data.get("metadata"))


def join_output(data: object) -> str:
    """What a command printed: of an object its texts, of a list its parts."""
    if isinstance(data, str):
        return data
    if isinstance(data, list):
        return "\n".join(filter(None, map(join_output, data)))
    if isinstance(data, dict):
        names = ("stdout", "stderr", "output", "text", "content", "llmContent", "message", "error")
        return "\n".join(filter(None, (join_output(data.get(name)) for name in names)))
    return ""


def tell_outcome(code: int | None) -> str:
    """The kind of an event by an exit code: nothing where there is none."""
    return NOTHING if code is None else SUCCEEDED if code == 0 else FAILED


def read_event(payload: Payload, agent: str, variable: str, kinds: Mapping[str, str]) -> Event:
    """Read what all hosts tell alike. `kinds` maps the host's names of a session's start, a prompt and a command that
    is about to run. Any other event has the kind `nothing`, with its command if it is about one. `variable` names the
    environment variable in which the host gives the project's folder."""
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    name = get_text(payload, "hook_event_name", "event")
    kind = kinds.get(name, NOTHING)
    event = Event(
        agent=agent,
        name=name,
        session=get_text(payload, "session_id", "conversation_id", "sessionID")[:100],
        cwd=get_text(payload, "cwd", "directory") or root,
        root=os.environ.get(variable, "") or root,
    )
    if kind == START:
        return event._replace(kind=START)
    if kind == PROMPT:
        return event._replace(kind=PROMPT, prompt=get_text(payload, "prompt", "user_prompt"))
    command = read_command(payload) if is_shell(payload) else ""
    return event._replace(kind=BEFORE if kind == BEFORE and command else NOTHING, command=command)


def tell_hook_output(event: Event, block: str) -> Payload:
    """What tells the agent a block, in the form that Claude Code, Codex and Gemini CLI read."""
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": block}}
