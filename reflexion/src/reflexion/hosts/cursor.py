"""Cursor. A failed command reaches `postToolUseFailure`, or `postToolUse` with an exit code in its `tool_output`; text
reaches the agent at `postToolUse`, so blocks of other events wait for it."""

from __future__ import annotations

from reflexion.event import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from reflexion.hosts.reading import Payload, get_object, get_text, join_output, read_code, read_event
from reflexion.hosts.settings import SECONDS, Settings

TELLS = frozenset({SUCCEEDED, START})
KINDS = {"sessionStart": START, "beforeSubmitPrompt": PROMPT, "preToolUse": BEFORE}
SETTINGS = Settings(
    project=".cursor/hooks.json",
    user="~/.cursor/hooks.json",
    events=(
        ("sessionStart", ""),
        ("beforeSubmitPrompt", ""),
        ("preToolUse", "Shell"),
        ("postToolUse", "Shell"),
        ("postToolUseFailure", "Shell"),
    ),
    timeout=5 * SECONDS,
    rules_file="AGENTS.md",
    guide="Cursor takes text after a command that succeeded; what is recalled at a prompt or before a command waits "
    "for that. The path of the script is one of this machine: keep `.cursor/hooks.json` out of git.",
)


def read(payload: Payload) -> Event:
    """What a hook was told."""
    event = read_event(payload, "cursor", "CURSOR_PROJECT_DIR", KINDS)
    if event.name == "beforeShellExecution":
        return event._replace(kind=BEFORE, command=get_text(payload, "command"))
    if event.kind != NOTHING or not event.command:
        return event
    if event.name == "postToolUseFailure":
        if payload.get("is_interrupt") is True or payload.get("failure_type") == "permission_denied":
            return event
        output = join_output(payload.get("error_message", payload.get("error", "")))
        return event._replace(kind=FAILED, output=output, code=read_code(payload))
    if event.name == "postToolUse":
        told = get_object(payload, "tool_output")
        code = read_code(told)
        return event._replace(kind=FAILED if code else SUCCEEDED, output=join_output(told), code=code)
    return event


def answer(_event: Event, block: str) -> Payload:
    """What tells the agent a block."""
    return {"additional_context": block}
