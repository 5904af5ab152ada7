"""A simulator that stands still in the middle of everything."""

import os
import signal
from pathlib import Path

from tests.chaos.process import until


def freeze(pid: int) -> None:
    """Stop a process and wait until all its threads stand: one that does not yet may still answer."""
    os.kill(pid, signal.SIGSTOP)
    assert until(lambda: all(map(_stands, Path(f"/proc/{pid}/task").iterdir())), 60), "it goes on"


def _stands(thread: Path) -> bool:
    try:
        return "State:\tT" in (thread / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
        return True
