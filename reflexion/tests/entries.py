"""An entry that is ready to be a rule, its variations, and a project that holds some."""

from pathlib import Path

from conftest import NOW
from reflexion.entry import Entry, format_time
from reflexion.entry_files import save
from reflexion.user_files import sign

DAY = 86_400


def make_entry(number: int = 0, **changes: object) -> Entry:
    entry_id = f"RFX-20260320-a{number:02d}"
    ready = Entry(
        entry_id, trigger='npm error Missing script: "build"', context="npm run build", resolution="use `pnpm run build`",
        resolved_by="confirmed", keywords=("npm", "build", "missing", "script", "pnpm"), occurrences=3,
        first_seen=format_time(NOW - 3 * DAY), last_seen=format_time(NOW - DAY), confidence=0.8, owner="mine",
    )  # fmt: skip
    return ready._replace(**changes)  # type: ignore[arg-type]


def sign_mine(root: str, entry: Entry) -> Entry:
    return entry._replace(owner=sign(root, entry.id)) if entry.owner == "mine" else entry


def put(project: Path, *entries: Entry) -> str:
    (project / ".reflexion/entries").mkdir(parents=True, exist_ok=True)
    for entry in entries:
        save(str(project), sign_mine(str(project), entry))
    return str(project)
