"""Fields of a payload, read as they come: a text where an object was expected, an object where a text was."""

from __future__ import annotations

import json
import os
from typing import Any

from rsso_dspy.coding.event import FAILED, NOTHING, SUCCEEDED

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


def describe_common(payload: Payload, agent: str, variable: str) -> dict[str, Any]:
    """What every event has: session, folder, and the project's folder as the host's variable says it."""
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    return {
        "agent": agent,
        "name": get_text(payload, "hook_event_name", "event"),
        "session": get_text(payload, "session_id", "conversation_id", "sessionID")[:100],
        "cwd": get_text(payload, "cwd", "directory") or root,
        "root": os.environ.get(variable, "") or root,
    }
