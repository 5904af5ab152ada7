"""The hosts: what their hooks tell, what they listen to, where their settings are; a row of tables.json each.

`events` are a host's names of events, with what each is to us and the tool that the hook is limited to; `tells` the
kinds at which it takes text for its agent, in the field `answer`. `response` is the field of what a command gave;
`report` what the host itself writes around an output, with the exit code as its group, success without one: a program
that prints the like prints it inside. Payloads of other versions make an event of which nothing follows. What a host
says of how a command ended holds. Only where it says nothing, or its exit code is that of a `| tail` or a `|| true`,
are the words of the output looked at (`commands.says_failed`); where they say nothing either, nothing follows.
"""

import json
import os
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from reflexion import TABLES
from reflexion.commands import hides_end, is_tolerated, says_failed
from reflexion.store import read_regular

PROMPT, BEFORE, FAILED, SUCCEEDED, START, NOTHING = "prompt", "before", "failed", "succeeded", "start", "nothing"
AFTER = "after"  # a command ended, and an exit code has to say how
Payload = dict[str, Any]
HOSTS: dict[str, Payload] = TABLES["hosts"]
_SHELLS = TABLES["words"]["shells"].split()  # names of tools that run commands, in lower case
TRANSCRIPT_TAIL = 1 << 20  # bytes at the end of a transcript in which outcomes are looked for


class Event(NamedTuple):
    """One hook call. `name` is the host's own of the event; `code` the exit code, where the host says it; `by_words`
    that only the output says of a failure; `call` a call that ended, where the payload does not say how: the host's
    transcript may say it later."""

    kind: str = NOTHING
    agent: str = ""
    name: str = ""
    session: str = ""
    cwd: str = ""
    prompt: str = ""
    command: str = ""
    output: str = ""
    code: int | None = None
    by_words: bool = False
    call: str = ""
    transcript: str = ""


def read_event(agent: str, payload: Payload) -> Event:
    """What a hook of a host was told."""
    name = _get_text(payload, "hook_event_name")
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else ""
    event = Event(
        kind=HOSTS[agent]["events"].get(name, [NOTHING])[0],
        agent=agent,
        name=name,
        session=_get_text(payload, "session_id", "conversation_id")[:100],
        cwd=_get_text(payload, "cwd") or root,
        transcript=_get_text(payload, "transcript_path") if agent == "codex" else "",
    )
    if event.kind in (START, PROMPT):
        return event._replace(prompt=_get_text(payload, "prompt") if event.kind == PROMPT else "")
    is_shell = _get_text(payload, "tool_name", "tool").lower() in _SHELLS
    event = event._replace(command=_read_command(payload) if is_shell else "")
    if not event.command or event.kind == BEFORE:
        return event if event.command else event._replace(kind=NOTHING)
    kind, output, code = _read_end(agent, event.kind, payload)
    call = _get_text(payload, "tool_use_id")[:100] if agent == "codex" and kind == NOTHING else ""
    ended = event._replace(kind=kind, output=output, code=code, call=call)
    return ended if call and event.transcript else judge_end(ended)


def judge_end(event: Event) -> Event:
    """The event, as a failure where nobody said how its command ended and the output says that it failed."""
    is_hidden = event.kind == SUCCEEDED and hides_end(event.command) and not is_tolerated(event.command)
    if not (event.kind == NOTHING or is_hidden) or not says_failed(event.command, event.output):
        return event
    return event._replace(kind=FAILED, code=None, by_words=True, call="")


def tell_outcome(code: int | None) -> str:
    """The kind of an event by an exit code: nothing where there is none."""
    return NOTHING if code is None else SUCCEEDED if code == 0 else FAILED


def _read_end(agent: str, kind: str, payload: Payload) -> tuple[str, str, int | None]:
    """How a command ended: kind of the event, output, exit code."""
    field = HOSTS[agent]["response"]
    response: Any = payload.get(field) if field else payload
    if kind == FAILED:
        response = payload.get("error", payload.get("error_message"))
    fields = response if isinstance(response, dict) else {}
    error = fields.get("error")
    stopped = (
        payload.get("is_interrupt") is True
        or payload.get("failure_type") == "permission_denied"
        or fields.get("interrupted") is True
        or fields.get("backgroundTaskId")
        or (isinstance(error, dict) and "cancel" in str(error.get("type", "")).lower())
    )
    if stopped or kind == NOTHING:
        return NOTHING, "", None
    code, output = _read_response(agent, response, kind)
    if kind == FAILED or (not code and fields.get("is_error") is True):
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
    report = HOSTS[agent]["report"] if code is None and kind != SUCCEEDED else ""
    if report and (found := re.search(report, output)):
        code = int(found[1] or 0)
        output = output if agent == "gemini" else output[found.end() :]
    return code, re.sub(TABLES["gemini_lines"], "", output) if agent == "gemini" else output


def find_outcomes(transcript: str, calls: Collection[str]) -> dict[str, tuple[int | None, str]]:
    """Exit code and output of the calls that the end of a transcript of Codex has an output of. It is written after the
    hook of a call has ended, so it is read at the next one."""
    try:
        lines = read_regular(transcript, TRANSCRIPT_TAIL, last=True).decode("utf-8", errors="replace").split("\n")
    except (OSError, ValueError):
        return {}
    items: list[Any] = [(_parse_object(line) or {}).get("payload") for line in lines if "call_output" in line]
    found = [item for item in items if isinstance(item, dict) and str(item.get("type")).endswith("call_output")]
    ended = {str(item.get("call_id")): item.get("output") for item in found}
    return {call: _read_response("codex", ended[call]) for call in calls if call in ended}


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
    codes = [data.get(name) for name in ("exit_code", "exitCode", "exit", "code", "returncode")]
    return next((code for code in codes if type(code) is int), _read_code(data.get("metadata")))


def _join_output(data: object) -> str:
    """What a command printed: of an object its texts, of a list its parts."""
    if isinstance(data, dict):
        names = ("stdout", "stderr", "output", "text", "content", "llmContent", "message", "error")
        data = [data.get(name) for name in names]
    if isinstance(data, list):
        return "\n".join(filter(None, map(_join_output, data)))
    return data if isinstance(data, str) else ""
