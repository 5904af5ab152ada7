"""Logs of units that are changed by hand."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def edit_lines(file: Path, kind: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the lines of a log whose first key is `kind`."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        if next(iter(line)) == kind:
            change(line)
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
