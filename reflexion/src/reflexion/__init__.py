"""A memory loop for coding agents: what failed and what helped, recalled when it is needed, verified, made a rule."""

import json
import os
from typing import Any

__version__ = "0.1.0"

with open(os.path.join(os.path.dirname(__file__), "tables.json"), encoding="utf-8") as _file:
    TABLES: dict[str, Any] = json.load(_file)
"""The hosts, and words: programs that only look, that take a subcommand, that say no by an exit code."""


class ReflexionError(Exception):
    """What was wrong, and what to do about it, for the person who typed the command."""
