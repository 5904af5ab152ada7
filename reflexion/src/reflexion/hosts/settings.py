"""Where a host's settings are, and which of its hooks call the script."""

from __future__ import annotations

from typing import NamedTuple

SECONDS = MILLISECONDS = 1
"""The unit that a host counts its limit in, to be read beside the number."""


class Settings(NamedTuple):
    """What `hooks install` needs to know of a host."""

    project: str
    """The file that is one project's, from its folder."""
    user: str
    events: tuple[tuple[str, str], ...]
    """The host's events with the tool that they are limited to, empty for all."""
    timeout: int
    """After how long the host gives up on a hook, in its own unit."""
    rules_file: str
    """Where the host reads rules, and promotion writes them."""
    guide: str
    """What a person has to know of this host."""
