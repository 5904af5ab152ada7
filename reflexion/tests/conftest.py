"""A project and a user's folder of its own for every test of the loop."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from reflexion.cli import answer_payload
from reflexion.entry import Entry, dump_entry, format_time
from reflexion.verbs import run_verb

NOW = 1_774_958_400.0
"""2026-03-31T12:00:00Z."""

CASES = json.loads((Path(__file__).parent / "data/cases.json").read_text(encoding="utf-8"))
"""Tables of what is given and what is expected, by name; SECRET and X stand for what may not be kept."""

Tell = Callable[..., str]


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path) -> Path:
    """The user's folder; nothing in it yet."""
    monkeypatch.setenv("REFLEXION_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("REFLEXION_LIMIT", "50")  # machines that run tests may be busy
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "state"


@pytest.fixture
def project(tmp_path) -> Path:
    """A repository in which the loop has not begun."""
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def tell(project) -> Tell:
    """Call a hook in this process; gives what the agent is told."""

    def told(agent: str, payload: dict[str, Any], now: float = NOW) -> str:
        here = json.loads(json.dumps(payload).replace('"/project"', json.dumps(str(project))))
        text = answer_payload(agent, json.dumps(here).encode(), now)
        if not text:
            return ""
        said = json.loads(text)
        said = said.get("hookSpecificOutput", said)
        return str(said.get("additionalContext") or said.get("additional_context") or said.get("block") or "")

    return told


def read_entries(project: Path) -> list[dict[str, Any]]:
    """All entries, as their files have them."""
    files = sorted((project / ".reflexion/entries").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


@pytest.fixture
def typed(monkeypatch, capsys, project) -> Callable[..., tuple[int, str]]:
    """Type a command of `reflexion` in the project; gives exit code and what it printed."""
    monkeypatch.chdir(project)

    def run(*words: str) -> tuple[int, str]:
        code = run_verb(words)
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


DAY = 86_400


def make_entry(number: int = 0, **changes: object) -> Entry:
    """An entry that is ready to be a rule."""
    ready = Entry(
        f"RFX-20260320-a{number:02d}", trigger='npm error Missing script: "build"', context="npm run build",
        resolution="use `pnpm run build`", resolved_by="confirmed", occurrences=3, confidence=0.8,
        keywords=("npm", "build", "missing", "script", "pnpm"), first_seen=format_time(NOW - 3 * DAY),
        last_seen=format_time(NOW - DAY),
    )  # fmt: skip
    return ready._replace(**changes)  # type: ignore[arg-type]


def put(project: Path, *entries: Entry) -> str:
    """Write files by hand, as a person does."""
    folder = project / ".reflexion/entries"
    folder.mkdir(parents=True, exist_ok=True)
    for entry in entries:
        (folder / f"{entry.id}.json").write_text(json.dumps(dump_entry(entry)))
    return str(project)
