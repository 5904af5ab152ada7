"""Gemini CLI. `AfterTool` comes either way: an `error` in the response, or the exit code that the host writes behind
the output. Text reaches the agent at `BeforeAgent`, `AfterTool` and `SessionStart`; before a command there is no way,
so that block waits for `AfterTool`."""

from __future__ import annotations

import re

from reflexion.event import BEFORE, FAILED, NOTHING, PROMPT, START, SUCCEEDED, Event
from reflexion.hosts.reading import Payload, join_output, read_code, read_event, tell_hook_output, tell_outcome
from reflexion.hosts.settings import MILLISECONDS, Settings

TELLS = frozenset({PROMPT, FAILED, SUCCEEDED, START})
KINDS = {"SessionStart": START, "BeforeAgent": PROMPT, "BeforeTool": BEFORE}
SETTINGS = Settings(
    project=".gemini/settings.json",
    user="~/.gemini/settings.json",
    events=(
        ("SessionStart", ""),
        ("BeforeAgent", ""),
        ("BeforeTool", "run_shell_command"),
        ("AfterTool", "run_shell_command"),
    ),
    timeout=5_000 * MILLISECONDS,
    rules_file="AGENTS.md",
    guide="The path of the script is one of this machine: keep `.gemini/settings.json` out of git, or install for the "
    "user. Gemini CLI reads GEMINI.md; set `context.fileName` to AGENTS.md to have promoted rules read.",
)

_LINE = re.compile(
    r"^(Command|Directory|Stdout|Stderr|Output|Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?(.*)$"
)
_BEHIND = ("Error", "Exit Code", "Signal", "Background PIDs", "Process Group PGID")


def read(payload: Payload) -> Event:
    """What a hook was told."""
    event = read_event(payload, "gemini", "GEMINI_PROJECT_DIR", KINDS)
    if event.kind != NOTHING or not event.command:
        return event
    if event.name == "AfterTool":
        response = payload.get("tool_response")
        text = join_output(response.get("llmContent") if isinstance(response, dict) else response)
        code = read_code(response)
        code = _read_trailer(text) if code is None else code
        error = response.get("error") if isinstance(response, dict) else None
        if error and not code:
            if isinstance(error, dict) and "cancel" in str(error.get("type", "")).lower():
                return event
            return event._replace(kind=FAILED, output=join_output(error) or text, code=None)
        return event._replace(kind=tell_outcome(code), output=_cut_output(text), code=code)
    return event


def _read_trailer(text: str) -> int | None:
    """The exit code in the lines that the host writes behind an output. A host that leaves it out means 0, if it wrote
    the head of such a report; other text says nothing."""
    reported = bool(re.match(r"(?:<output>\n?)?(?:Command|Output):", text))
    for line in reversed(text.rstrip().removesuffix("</output>").rstrip().split("\n")[-12:]):
        found = _LINE.match(line)
        if not found or found[1] not in _BEHIND:
            break
        if found[1] == "Exit Code":
            return int(found[2]) if re.fullmatch(r"-?\d{1,10}", found[2]) else None
        if found[1] == "Signal" and found[2] not in ("", "(none)", "0"):
            return None
    return 0 if reported else None


def _cut_output(text: str) -> str:
    """What the command printed, without the host's own lines."""
    lines = []
    for line in text.split("\n"):
        found = _LINE.match(line)
        if not found:
            lines.append(line)
        elif found[1] in ("Stdout", "Stderr", "Output") or (found[1] == "Error" and found[2] != "(none)"):
            lines.append(found[2] if found[2] not in ("(empty)", "(none)") else "")
    return "\n".join(lines)


answer = tell_hook_output
