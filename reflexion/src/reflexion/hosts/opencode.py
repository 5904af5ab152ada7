"""opencode. It has no hooks that run commands but plugins: a small one (opencode_plugin.js) calls the script and puts
blocks behind the output of a command, or into the system prompt of the next request."""

from __future__ import annotations

from reflexion.event import BEFORE, FAILED, PROMPT, START, SUCCEEDED, Event
from reflexion.hosts.reading import Payload, get_object, join_output, read_code, read_event, tell_outcome
from reflexion.hosts.settings import MILLISECONDS, Settings

TELLS = frozenset({PROMPT, BEFORE, FAILED, SUCCEEDED, START})
SETTINGS = Settings(
    project=".opencode/plugins/reflexion.js",
    user="~/.config/opencode/plugins/reflexion.js",
    events=(),
    timeout=5_000 * MILLISECONDS,
    rules_file="AGENTS.md",
    guide="The plugin is read when opencode starts. Before a command opencode takes no text: that block stands behind "
    "its output. Builds that hand no prompt to plugins recall at commands alone.",
)

KINDS = {"session.created": START, "chat.message": PROMPT, "tool.execute.before": BEFORE}


def read(payload: Payload) -> Event:
    """What the plugin told."""
    event = read_event(payload, "opencode", "OPENCODE_PROJECT_DIR", KINDS)
    if event.name == "tool.execute.after" and event.command:
        code = read_code(get_object(payload, "metadata"))
        return event._replace(kind=tell_outcome(code), output=join_output(payload.get("output")), code=code)
    return event


def answer(_event: Event, block: str) -> Payload:
    """What the plugin reads."""
    return {"block": block}
