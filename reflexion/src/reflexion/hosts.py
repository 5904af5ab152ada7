"""The hosts: what their hooks tell, what they listen to, where their settings are; a row of hosts.json each.

Payloads of other versions, with missing fields or strings where objects are expected, make an event of which nothing
follows, never an error. No host is judged by the words of an output: where it says nothing of how a command ended,
nothing follows.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Collection
from functools import cache
from typing import Any, NamedTuple

from reflexion import ReflexionError

PROMPT, BEFORE, FAILED, SUCCEEDED, START, NOTHING = "prompt", "before", "failed", "succeeded", "start", "nothing"
AFTER = "after"
"""A command ended, and an exit code has to say how."""
Payload = dict[str, Any]

SHELLS = (
    "bash", "shell", "local_shell", "exec_command", "unified_exec", "exec", "run_shell_command", "run_terminal_cmd",
    "terminal",
)  # fmt: skip
"""Names of tools that run commands, in lower case."""
_GEMINI_LINES = re.compile(
    r"(?m)^(?:(?:Command|Directory|Exit Code|Signal|Background PIDs|Process Group PGID): .*\n?"
    r"|(?:Stdout|Stderr|Output|Error): ?(?:\(empty\)|\(none\))?)"
)
TRANSCRIPT_TAIL = 1 << 20
"""Bytes at the end of a transcript in which outcomes are looked for."""


class Event(NamedTuple):
    """One hook call."""

    kind: str = NOTHING
    agent: str = ""
    name: str = ""
    """The host's own name of the event."""
    session: str = ""
    cwd: str = ""
    prompt: str = ""
    command: str = ""
    output: str = ""
    code: int | None = None
    """Exit code, where the host says it."""
    root: str = ""
    """The project's folder, where the host says it."""
    call: str = ""
    """Id of a call that ended, where the payload does not say how: the host's transcript may say it later."""
    transcript: str = ""


class Host(NamedTuple):
    """A row of hosts.json."""

    project: str
    """Its settings of one project, from the project's folder."""
    user: str
    skills: list[str]
    """Folders of skills: of a project, of the user."""
    events: list[list[str]]
    """Events that call the hook, with the tool that they are limited to."""
    kinds: dict[str, str]
    """Names of events to their kinds."""
    tells: list[str]
    """Kinds of event at which it takes text for its agent."""
    variable: str
    """Environment variable with the project's folder."""
    rules_file: str
    guide: str
    timeout: int
    """After which the host gives up on a hook, in its own unit."""
    response: str
    """Field of what a command gave; the payload itself when empty."""
    report: str
    """What the host itself writes around an output, with the exit code as its group: a program that prints the like
    prints it inside. Without a code in it the command succeeded."""


@cache
def load_hosts() -> dict[str, Host]:
    """All hosts, by name."""
    with open(os.path.join(os.path.dirname(__file__), "hosts.json"), encoding="utf-8") as file:
        return {name: Host(**row) for name, row in json.load(file).items()}


def get_host(agent: str) -> Host:
    """A host's row. Raises `ReflexionError`."""
    if agent not in load_hosts():
        raise ReflexionError(f"unknown agent {agent!r}: {', '.join(load_hosts())}")
    return load_hosts()[agent]


def read_event(agent: str, payload: Payload) -> Event:
    """What a hook of a host was told."""
    host = get_host(agent)
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    name = _get_text(payload, "hook_event_name", "event")
    event = Event(
        kind=host.kinds.get(name, NOTHING),
        agent=agent,
        name=name,
        session=_get_text(payload, "session_id", "conversation_id", "sessionID")[:100],
        cwd=_get_text(payload, "cwd", "directory") or root,
        root=os.environ.get(host.variable, "") or root,
        transcript=_get_text(payload, "transcript_path") if agent == "codex" else "",
    )
    if event.kind in (START, PROMPT):
        return event._replace(prompt=_get_text(payload, "prompt", "user_prompt") if event.kind == PROMPT else "")
    is_shell = _get_text(payload, "tool_name", "tool").lower() in SHELLS
    event = event._replace(command=_read_command(payload) if is_shell else "")
    if not event.command or event.kind == BEFORE:
        return event if event.command else event._replace(kind=NOTHING)
    kind, output, code = _read_end(agent, event.kind, payload)
    call = _get_text(payload, "tool_use_id")[:100] if agent == "codex" and kind == NOTHING else ""
    return event._replace(kind=kind, output=output, code=code, call=call)


def answer(agent: str, event: Event, block: str) -> Payload:
    """What tells a host's agent a block."""
    if agent == "cursor":
        return {"additional_context": block}
    if agent == "opencode":
        return {"block": block}
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": block}}


def tell_outcome(code: int | None) -> str:
    """The kind of an event by an exit code: nothing where there is none."""
    return NOTHING if code is None else SUCCEEDED if code == 0 else FAILED


def _read_end(agent: str, kind: str, payload: Payload) -> tuple[str, str, int | None]:
    """How a command ended: kind of the event, output, exit code."""
    host = get_host(agent)
    response: Any = payload.get(host.response) if host.response else payload
    if kind == FAILED:
        response = payload.get("error", payload.get("error_message"))
    response_fields = response if isinstance(response, dict) else {}
    error = response_fields.get("error")
    stopped = (
        payload.get("is_interrupt") is True
        or payload.get("failure_type") == "permission_denied"
        or response_fields.get("interrupted") is True
        or response_fields.get("backgroundTaskId")
        or (isinstance(error, dict) and "cancel" in str(error.get("type", "")).lower())
    )
    if stopped or kind == NOTHING:
        return NOTHING, "", None
    code, output = _read_response(agent, response, kind)
    if kind == FAILED or (not code and response_fields.get("is_error") is True):
        return FAILED, output, code
    if error and not code and kind == AFTER:
        return FAILED, _join_output(error) or output, None
    return (SUCCEEDED if code is None and kind == SUCCEEDED else tell_outcome(code)), output, code


def _read_response(agent: str, response: object, kind: str = AFTER) -> tuple[int | None, str]:
    """Exit code and output of a response."""
    fields: Any = _parse_object(response) if isinstance(response, str) else response
    if agent != "cursor" and isinstance(response, str) and fields:  # what a command prints has not both fields
        fields = fields if isinstance(fields.get("metadata"), dict) and "output" in fields else None
    code, output = _read_code(fields), _join_output(fields or response)
    if agent == "gemini":
        output = _join_output(fields.get("llmContent") if isinstance(fields, dict) else response)
    report = get_host(agent).report if code is None and kind != SUCCEEDED else ""
    if report and (found := re.search(report, output)):
        code = int(found[1] or 0)
        output = output if agent == "gemini" else output[found.end() :]
    return code, _GEMINI_LINES.sub("", output) if agent == "gemini" else output


def find_outcomes(transcript: str, calls: Collection[str]) -> dict[str, tuple[int | None, str]]:
    """Exit code and output of the calls that the end of a transcript of Codex has an output of; empty for a transcript
    that cannot be read. It is written after the hook of a call has ended, so it is read at the next one."""
    try:
        with open(os.open(transcript, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return {}
            file.seek(max(0, file.seek(0, os.SEEK_END) - TRANSCRIPT_TAIL))
            lines = file.read(TRANSCRIPT_TAIL).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return {}
    outcomes = {}
    for line in lines:
        if "call_output" in line and any(call in line for call in calls):
            item = _parse_object(line) or {}
            item = item["payload"] if isinstance(item.get("payload"), dict) else item
            call = item.get("call_id")
            if isinstance(call, str) and call in calls and str(item.get("type")).endswith("call_output"):
                outcomes[call] = _read_response("codex", item.get("output"))
    return outcomes


def _get_text(payload: Payload, *names: str) -> str:
    """The first of these fields that holds a text."""
    return next((value for name in names if isinstance(value := payload.get(name), str) and value), "")


def _parse_object(text: str) -> Payload | None:
    """The JSON object in a text; None for what holds none."""
    try:
        data = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _read_command(payload: Payload) -> str:
    """The command of a shell tool: a field of its input, a list of words, or the input itself."""
    given = payload.get("tool_input", payload.get("args"))
    if isinstance(given, str):
        given = _parse_object(given) or given
    value = given.get("command", given.get("cmd")) if isinstance(given, dict) else given
    if isinstance(value, list):
        words = [word for word in value if isinstance(word, str)]
        shell = len(words) > 2 and os.path.basename(words[0]) in ("bash", "sh", "zsh") and words[1].startswith("-")
        value = words[2] if shell else " ".join(words)
    return value if isinstance(value, str) else ""


def _read_code(data: object) -> int | None:
    """The exit code that an object says, whatever it calls it; None where it says none."""
    if not isinstance(data, dict):
        return None
    for name in ("exit_code", "exitCode", "exit", "code", "returncode"):
        value = data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return _read_code(data.get("metadata"))


def _join_output(data: object) -> str:
    """What a command printed: of an object its texts, of a list its parts."""
    if isinstance(data, str):
        return data
    if isinstance(data, list):
        return "\n".join(filter(None, map(_join_output, data)))
    if isinstance(data, dict):
        names = ("stdout", "stderr", "output", "text", "content", "llmContent", "message", "error")
        return "\n".join(filter(None, (_join_output(data.get(name)) for name in names)))
    return ""
