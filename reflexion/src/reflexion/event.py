"""What a host tells at a hook, whatever the host calls it."""

from __future__ import annotations

from typing import NamedTuple

PROMPT, BEFORE, FAILED, SUCCEEDED, START, NOTHING = "prompt", "before", "failed", "succeeded", "start", "nothing"


class Event(NamedTuple):
    """One hook call."""

    kind: str = NOTHING
    """A prompt was sent, a command is about to run, it failed, it succeeded, a session starts; `nothing` for what
    does not concern the loop, or does not say whether a command failed."""
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
    """The host's file of the session, where it is known how to read it."""
