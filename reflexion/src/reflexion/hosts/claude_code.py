"""Claude Code. A failed command reaches `PostToolUseFailure`, its text in `error`; `PostToolUse` means success."""

from __future__ import annotations

import re

from reflexion.event import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from reflexion.hosts.reading import Payload, join_output, read_code, read_event, tell_hook_output
from reflexion.hosts.settings import SECONDS, Settings

TELLS = frozenset({PROMPT, BEFORE, FAILED, SUCCEEDED, START})
KINDS = {"SessionStart": START, "UserPromptSubmit": PROMPT, "PreToolUse": BEFORE}
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
    event = read_event(payload, "claude-code", "CLAUDE_PROJECT_DIR", KINDS)
    if event.kind != NOTHING or not event.command:
        return event
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
    return event


answer = tell_hook_output
