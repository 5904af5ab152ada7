"""The hosts, a file each: what their hooks tell, what they listen to, where their settings are.

A host's module has `read(payload)`, an `Event`; `TELLS`, the kinds of event at which the host takes text for its agent;
`answer(event, block)`, what is printed; and `SETTINGS` (settings.py). Payloads of other versions, with missing fields
or strings where objects are expected, make an event of which nothing follows, never an error.
"""

from importlib import import_module
from types import ModuleType

NAMES = ("claude-code", "codex", "gemini", "cursor", "opencode")


def get_host(name: str) -> ModuleType:
    """The module of a host. Raises `KeyError`."""
    if name not in NAMES:
        raise KeyError(name)
    return import_module(f"reflexion.hosts.{name.replace('-', '_')}")
