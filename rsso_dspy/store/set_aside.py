"""What answers in a damaged log cost. Its trials do not count, and what was paid for it stays paid."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.calls import read_cost
from rsso_dspy.errors import DamagedFile
from rsso_dspy.files import parse_entry, salvage_bytes
from rsso_dspy.log_lines import Entry
from rsso_dspy.records import Usage
from rsso_dspy.store.unit_log import TEACHER


@dataclass(frozen=True, slots=True)
class SetAsideLog:
    """What can still be read of the bill of a damaged log."""

    arm: str
    usage: dict[str, Usage]  # by role
    unreadable_lines: int = 0  # what they cost is not known
    is_teacher: bool = False  # whether a compile's teacher played


def find_set_aside_logs(folder: Path) -> list[Path]:
    """The damaged files that were renamed below a folder of arms, packed ones too."""
    return sorted(folder.glob("*/*/*.jsonl.damaged*"))


def read_set_aside_log(path: Path) -> SetAsideLog:
    """Sum the calls of a damaged file line by line, each line once; what cannot be read is counted."""
    arm = path.parts[-3]
    try:
        content = salvage_bytes(path)
    except (DamagedFile, OSError):  # such as a folder in the place of a file
        return SetAsideLog(arm, {})

    usage: dict[str, Usage] = {}
    roles: dict[Any, str] = {}  # by the number of the call
    unreadable = 0
    is_teacher = False
    complete = content[: content.rfind(b"\n") + 1]
    for line in dict.fromkeys(complete.splitlines()):
        entry = parse_entry(line)
        if not isinstance(entry, dict):
            unreadable += 1
        elif "unit" in entry:
            is_teacher = entry["unit"] == TEACHER
        elif "call" in entry:
            try:
                role, cost = _read_call(entry, roles)
            except (AttributeError, KeyError, TypeError, ValueError):
                unreadable += 1
                continue
            usage[role] = usage.get(role, Usage()) + cost

    paid = {role: role_usage for role, role_usage in usage.items() if role_usage != Usage()}
    return SetAsideLog(arm, paid, unreadable, is_teacher)


def _read_call(entry: Entry, roles: dict[Any, str]) -> tuple[str, Usage]:
    """Return the role of a line of a call, and what it cost. Raises what reading a wrong value raises."""
    if "role" in entry:
        roles[entry["call"]] = str(entry["role"])
    return roles[entry["call"]], read_cost([entry])
