"""The hosts: what their hooks tell, what they listen to, where their settings are; a row each.

Payloads of other versions, with missing fields or strings where objects are expected, make an event of which nothing
follows, never an error. No host is judged by the words of an output: where it says nothing of how a command ended,
nothing follows.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, NamedTuple

from reflexion import ReflexionError

PROMPT, BEFORE, FAILED, SUCCEEDED, START, NOTHING = "prompt", "before", "failed", "succeeded", "start", "nothing"
Payload = dict[str, Any]
Outcome = tuple[str, str, int | None]
"""Kind of an event, output, exit code."""

_SHELLS = """
bash shell local_shell exec_command unified_exec exec run_shell_command run_terminal_cmd terminal run_command
"""
SHELLS = frozenset(_SHELLS.split())
"""Names of tools that run commands, in lower case."""


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
    """Names of a session's start, a prompt, a command to come."""
    tells: list[str]
    """Kinds of event at which it takes text for its agent."""
    variable: str
    """Environment variable with the project's folder."""
    rules_file: str
    guide: str
    timeout: int
    """After which the host gives up on a hook, in its own unit."""


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
    if name == "beforeShellExecution":
        return event._replace(kind=BEFORE, command=_get_text(payload, "command"))
    is_shell = _get_text(payload, "tool_name", "tool").lower() in SHELLS
    event = event._replace(command=_read_command(payload) if is_shell else "")
    if not event.command or event.kind == BEFORE:
        return event if event.command else event._replace(kind=NOTHING)
    kind, output, code = READERS[agent](name, payload)
    silent = agent == "codex" and kind == NOTHING and name.startswith("PostToolUse")
    call = _get_text(payload, "tool_use_id")[:100] if silent else ""
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


_CLAUDE_CODE = re.compile(
    r"^(?:Error: )?(?:Exit code|Command exited with (?:non-zero status )?code|Command failed with exit code):? (\d+)\s*"
)


def _read_claude(name: str, payload: Payload) -> Outcome:
    """`PostToolUseFailure` has its text in `error`; `PostToolUse` means success."""
    if name == "PostToolUseFailure" and payload.get("is_interrupt") is not True:
        error = _join_output(payload.get("error", payload.get("error_message", "")))
        found = _CLAUDE_CODE.match(error)
        code = int(found[1]) if found else _read_code(payload.get("error"))
        return FAILED, error[found.end() :] if found else error, code
    response = payload.get("tool_response")
    told = response if isinstance(response, dict) else {}
    if name != "PostToolUse" or told.get("interrupted") is True or told.get("backgroundTaskId"):
        return NOTHING, "", None
    code = _read_code(response)
    return FAILED if code or told.get("is_error") is True else SUCCEEDED, _join_output(response), code


_CODEX_HEAD = re.compile(
    r"\A((?:(?:Chunk ID|Wall time|Original token count|Total output lines|Process exited with code|Exit code)\b"
    r"[^\n]*\n)+)(?:Final )?output:(?:\n|\Z)",
    re.I,
)
"""What Codex writes before an output. A program that prints such a line prints it behind this."""
_CODEX_CODE = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})\s*$", re.M | re.I)
TAIL = 1 << 20
"""Bytes at the end of a transcript in which outcomes are looked for."""


def _read_codex(name: str, payload: Payload) -> Outcome:
    """An object with an exit code, or the head before an output; newer builds send the output alone."""
    if name not in ("PostToolUse", "PostToolUseFailure"):
        return NOTHING, "", None
    code, output = _read_codex_response(payload.get("tool_response"))
    code = 1 if name == "PostToolUseFailure" and not code else code
    return tell_outcome(code), output, code


def _read_codex_response(response: object) -> tuple[int | None, str]:
    """Exit code and output of a response."""
    if isinstance(response, str):
        older = _parse_object(response)  # what a command prints has not both fields
        if older and isinstance(older.get("metadata"), dict) and "output" in older:
            return _read_code(older["metadata"]), _join_output(older["output"])
        head = _CODEX_HEAD.match(response)
        line = _CODEX_CODE.search(head[1]) if head else None
        return (int(line[1]) if line else None), response[head.end() :] if head else response
    code, output = _read_code(response), _join_output(response)
    return _read_codex_response(output) if code is None and output else (code, output)


def find_outcomes(transcript: str, calls: Collection[str]) -> dict[str, tuple[int | None, str]]:
    """Exit code and output of the calls that the end of a transcript of Codex has an output of; empty for a transcript
    that cannot be read. It is written after the hook of a call has ended, so it is read at the next one."""
    try:
        with open(os.open(transcript, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return {}
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read(TAIL).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return {}
    found = {}
    for line in lines:
        if "call_output" in line and any(call in line for call in calls):
            item = _parse_object(line) or {}
            item = item["payload"] if isinstance(item.get("payload"), dict) else item
            call = item.get("call_id")
            if isinstance(call, str) and call in calls and str(item.get("type")).endswith("call_output"):
                found[call] = _read_codex_response(item.get("output"))
    return found


_GEMINI_LINE = re.compile(
    r"^(Command|Directory|Stdout|Stderr|Output|Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?(.*)$"
)


def _read_gemini(name: str, payload: Payload) -> Outcome:
    """An `error` in the response, or the exit code that the host writes behind the output."""
    if name != "AfterTool":
        return NOTHING, "", None
    response = payload.get("tool_response")
    told = response if isinstance(response, dict) else {}
    text = _join_output(told.get("llmContent") if told else response)
    code = _read_code(response)
    code = _read_gemini_trailer(text) if code is None else code
    if (error := told.get("error")) and not code:
        if isinstance(error, dict) and "cancel" in str(error.get("type", "")).lower():
            return NOTHING, "", None
        return FAILED, _join_output(error) or text, None
    lines = []
    for line in text.split("\n"):  # without the host's own lines
        found = _GEMINI_LINE.match(line)
        if not found:
            lines.append(line)
        elif found[1] in ("Stdout", "Stderr", "Output", "Error"):
            lines.append(found[2] if found[2] not in ("(empty)", "(none)") else "")
    return tell_outcome(code), "\n".join(lines), code


def _read_gemini_trailer(text: str) -> int | None:
    """The exit code in the lines behind an output. A host that leaves it out means 0, if it wrote the head of such a
    report; other text says nothing."""
    for line in reversed(text.rstrip().removesuffix("</output>").rstrip().split("\n")[-12:]):
        found = _GEMINI_LINE.match(line)
        if not found or found[1] in ("Command", "Directory", "Stdout", "Stderr", "Output"):
            break
        if found[1] == "Exit Code":
            return int(found[2]) if re.fullmatch(r"-?\d{1,10}", found[2]) else None
        if found[1] == "Signal" and found[2] not in ("", "(none)", "0"):
            return None
    return 0 if re.match(r"(?:<output>\n?)?(?:Command|Output):", text) else None


def _read_cursor(name: str, payload: Payload) -> Outcome:
    """`postToolUseFailure`, or an exit code in `tool_output`."""
    stopped = payload.get("is_interrupt") is True or payload.get("failure_type") == "permission_denied"
    if name == "postToolUseFailure" and not stopped:
        return FAILED, _join_output(payload.get("error_message", payload.get("error", ""))), _read_code(payload)
    if name != "postToolUse":
        return NOTHING, "", None
    told = _get_object(payload, "tool_output")
    code = _read_code(told)
    return FAILED if code else SUCCEEDED, _join_output(told), code


def _read_opencode(name: str, payload: Payload) -> Outcome:
    """What the plugin tells: `metadata.exit`."""
    code = _read_code(_get_object(payload, "metadata")) if name == "tool.execute.after" else None
    return tell_outcome(code), _join_output(payload.get("output")), code


READERS: dict[str, Callable[[str, Payload], Outcome]] = {
    "claude-code": _read_claude,
    "codex": _read_codex,
    "gemini": _read_gemini,
    "cursor": _read_cursor,
    "opencode": _read_opencode,
}
"""How a command ended, by the event's name and the payload."""


@cache
def _load_hosts() -> dict[str, Host]:
    with open(os.path.join(os.path.dirname(__file__), "hosts.json"), encoding="utf-8") as file:
        return {name: Host(**row) for name, row in json.load(file).items()}


def get_host(agent: str) -> Host:
    """A host's row. Raises `ReflexionError`."""
    if agent not in READERS:
        raise ReflexionError(f"unknown agent {agent!r}: {', '.join(READERS)}")
    return _load_hosts()[agent]


def _get_text(payload: Payload, *names: str) -> str:
    """The first of these fields that holds a text."""
    return next((value for name in names if isinstance(value := payload.get(name), str) and value), "")


def _get_object(payload: Payload, name: str) -> Payload:
    """A field as an object, also where it is one written as text."""
    value = payload.get(name)
    value = _parse_object(value) if isinstance(value, str) else value
    return value if isinstance(value, dict) else {}


def _parse_object(text: str) -> Payload | None:
    """The JSON object in a text; None for what holds none."""
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


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
    for name in ("exit_code", "exitCode", "exit", "code", "returncode", "status_code"):
        value = data.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 6:
            return int(value)
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
