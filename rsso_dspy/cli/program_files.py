"""Programs by name on the command line: `zero-shot`, or the files of compiled ones."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.optimize.compiled import Compiled


def load_programs(texts: Sequence[str]) -> "dict[str, Compiled | None]":
    """Program names to compiled programs, None for `zero-shot`. Raises `UsageError` for two of one name, and what
    `load` raises."""
    from rsso_dspy.optimize.compiled import derive_program_name, load
    from rsso_dspy.records import ZERO_SHOT

    found: dict[str, Compiled | None] = {}
    for text in texts:
        name = text if text == ZERO_SHOT else derive_program_name(text)
        if name in found:
            raise UsageError(f"--programs names {name!r} twice: programs are called after their files; rename one")
        found[name] = None if text == ZERO_SHOT else load(text)
    return found
