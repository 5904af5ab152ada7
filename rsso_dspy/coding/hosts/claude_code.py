"""Claude Code. A failed command reaches `PostToolUseFailure`, its text in `error`; `PostToolUse` means success."""

from __future__ import annotations

import re

from rsso_dspy.coding.event import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from rsso_dspy.coding.hosts.reading import (
    Payload,
    describe_common,
    get_text,
    is_shell,
    join_output,
    read_code,
    read_command,
)
from rsso_dspy.coding.hosts.settings import SECONDS, Settings

TELLS = frozenset({PROMPT, BEFORE, FAILED, SUCCEEDED, START})
SETTINGS = Settings(
    project=".claude/settings.local.json",
    user="~/.claude/settings.json",
    events=(
        ("SessionStart", ""),
        ("UserPromptSubmit", ""),
        ("PreToolUse", "Bash"),
        ("PostToolUse", "Bash"),
        ("PostToolUseFailure", "Bash"),
    ),
    timeout=5 * SECONDS,
    rules_file="CLAUDE.md",
    guide="Hooks are read when a session starts; /hooks lists them. The project's settings go to settings.local.json, "
    "which is yours alone: the path of the script is one of this machine.",
)

_CODE = re.compile(
    r"^(?:Error: )?(?:Exit code|Command exited with (?:non-zero status )?code|Command failed with exit code):? (\d+)\s*"
)


def read(payload: Payload) -> Event:
    """What a hook was told."""
    event = Event(**describe_common(payload, "claude-code", "CLAUDE_PROJECT_DIR"))
    if event.name == "SessionStart":
        return event._replace(kind=START)
    if event.name == "UserPromptSubmit":
        return event._replace(kind=PROMPT, prompt=get_text(payload, "prompt", "user_prompt"))
    if not is_shell(payload) or not (command := read_command(payload)):
        return event
    event = event._replace(command=command)
    if event.name == "PreToolUse":
        return event._replace(kind=BEFORE)
    if event.name == "PostToolUseFailure":
        if payload.get("is_interrupt") is True:
            return event
        error = join_output(payload.get("error", payload.get("error_message", "")))
        found = _CODE.match(error)
        code = int(found[1]) if found else read_code(payload.get("error"))
        return event._replace(kind=FAILED, output=error[found.end() :] if found else error, code=code)
    if event.name == "PostToolUse":
        response = payload.get("tool_response")
        if isinstance(response, dict) and (response.get("interrupted") is True or response.get("backgroundTaskId")):
            return event
        code = read_code(response)  # no version says one today; one that would is believed
        kind = FAILED if code or (isinstance(response, dict) and response.get("is_error") is True) else SUCCEEDED
        return event._replace(kind=kind, output=join_output(response), code=code)
    return event._replace(kind=NOTHING)


def answer(event: Event, block: str) -> Payload:
    """What tells the agent a block."""
    return {"hookSpecificOutput": {"hookEventName": event.name, "additionalContext": block}}
