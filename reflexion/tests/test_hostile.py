"""Hooks under what hosts, disks and people do: they never fail, never speak out of turn, and leave a line in a log."""

import fcntl
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import payloads
import pytest
from conftest import home, project, read_entries, tell
from reflexion.hosts import HOSTS
from reflexion.store import Store

from reflexion import cli as hook

SOURCES = Path(__file__).parents[1] / "src"
FAILED = payloads.after_claude("npm run build", 1, 'npm error Missing script: "build"')
PROMPT = payloads.PROMPTS["claude-code"]("npm build")
HOSTILE = [b"", b"[]", b"1", b"{", b"\xff\xfe\x00", b'{"hook_event_name": 3}', b'{"a":' * 5000, b"{}"]


def call(monkeypatch, data: bytes, agent: str = "claude-code") -> bytes:
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    monkeypatch.setattr("sys.stdout", out)
    hook.run_hook(agent)
    return out.buffer.getvalue()


def log(home) -> list[str]:
    return (home / "hook.log").read_text().splitlines() if (home / "hook.log").exists() else []


@pytest.mark.parametrize("agent", [*HOSTS, "nobody", ""])
@pytest.mark.parametrize("data", HOSTILE)
def test_no_payload_makes_a_hook_fail(agent, data, monkeypatch, home):
    assert call(monkeypatch, data, agent) == b""
    assert len(log(home)) <= 1


def test_an_output_of_ten_megabytes_is_bounded(tell, project):
    output = f"{'x' * 120}\n" * 80_000 + "make: *** No rule to make target 'a'.  Stop.\n"
    tell("claude-code", payloads.after_claude("make a", 2, output))
    (entry,) = read_entries(project)
    assert entry["trigger"].startswith("make: *** No rule")
    assert all(file.stat().st_size < 4096 for file in (project / ".reflexion").rglob("*.json"))


def list_refused(project) -> list[str]:
    with Store(str(project)) as store:
        entries, refused = store.load_all()
    assert not entries
    return refused


@pytest.fixture
def learnt(tell, project):
    """The file of an entry that is recalled."""
    tell("claude-code", FAILED)
    tell("claude-code", payloads.after_claude("pnpm run build", 0, ""))
    (file,) = (project / ".reflexion/entries").glob("*.json")
    return file


def test_a_hand_edited_entry_that_is_none_is_named_and_left_alone(tell, project, learnt):
    whole = learnt.read_text()
    for text in ("<<<<<<< ours\n" + whole, "", "[]", "{}", "\x00"):
        learnt.write_text(text)
        assert tell("claude-code", {**PROMPT, "session_id": text[:9]}) == ""
        assert list_refused(project) == [learnt.name]
        assert learnt.read_text() == text
    wrong = {"resolution": "use bun", "occurrences": "many", "confidence": 7, "notes": 3}
    learnt.write_text(json.dumps({**json.loads(whole), **wrong}))
    tell("claude-code", {**PROMPT, "hook_event_name": "SessionStart"})
    assert "use bun" in tell("claude-code", {**PROMPT, "session_id": "z"})


@pytest.mark.parametrize("what", ["private", "entry", "pipe"])
def test_an_entry_that_is_no_file_is_left_alone(what, tell, project, tmp_path, learnt):
    target = tmp_path / "id_rsa"
    target.write_text(learnt.read_text().replace("pnpm", "STOLEN") if what == "entry" else "-----BEGIN KEY")
    before = target.read_text()
    learnt.unlink()
    os.mkfifo(learnt) if what == "pipe" else learnt.symlink_to(target)
    os.utime(learnt.parent, (1, 1))
    assert tell("claude-code", {**PROMPT, "session_id": "x"}) == ""
    assert "STOLEN" not in tell("claude-code", FAILED)
    (project / ".reflexion/index.txt").unlink()
    with Store(str(project)) as store:
        assert store.load_all()[1] == [learnt.name]
    assert target.read_text() == before


def test_half_a_sign_is_taken_as_any_other(tell, project):
    """Hosts cut texts, and go on with half of a sign."""
    cut = payloads.after_claude("npm run build", 1, 'npm error Missing script: "build" \ud83d')
    tell("claude-code", {**cut, "session_id": "a\ud83d\x00"})
    tell("claude-code", {**payloads.after_claude("pnpm run build", 0, ""), "session_id": "a\ud83d\x00"})
    assert "pnpm" in tell("claude-code", payloads.PROMPTS["claude-code"]("npm build \ud83d"))


@pytest.mark.parametrize("where", ["a.txt", "", "gone/deep", "link", "home", "/"])
def test_folders_that_are_none(where, project, tmp_path, monkeypatch, home):
    (tmp_path / "a.txt").touch()
    (tmp_path / "link").symlink_to(tmp_path / "no")
    (tmp_path / "home/.git").mkdir(parents=True)
    cwd = str(tmp_path / where) if where else ""
    assert call(monkeypatch, json.dumps({**FAILED, "cwd": cwd}).encode()) == b""
    assert not list(tmp_path.rglob(".reflexion"))
    assert not os.path.exists("/.reflexion")
    assert len(log(home)) <= 1


@pytest.mark.parametrize("kind", ["file", "link"])
@pytest.mark.parametrize("place", ["project/.reflexion/entries", "project/.reflexion", "state"])
def test_places_that_are_files_or_links(kind, place, monkeypatch, project, tmp_path, home):
    """A repository may bring a link: what is behind it is neither written to nor recalled."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch() if kind == "file" else (tmp_path / place).symlink_to(tmp_path / "elsewhere")
    for payload in (FAILED, PROMPT, payloads.BEFORE["claude-code"]("npm run build")):
        told = call(monkeypatch, json.dumps({**payload, "cwd": str(project)}).encode())
        assert told == b""
    if place != "state":
        assert read_entries(project) == []
        assert not list((tmp_path / "elsewhere").iterdir())
        assert kind == "file" or "is a link" in log(home)[0]


def test_a_disk_that_refuses_writes_loses_nothing_that_was_there(tell, project, monkeypatch):
    tell("claude-code", FAILED)
    before = read_entries(project)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", refuse)
    with pytest.raises(OSError, match="No space"):
        tell("claude-code", FAILED)
    assert read_entries(project) == before


def test_a_lock_that_is_not_given_back_ends_in_a_line(tell, project, home, monkeypatch):
    tell("claude-code", FAILED)
    (path,) = home.rglob("lock")
    with open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        command = [sys.executable, "-m", "reflexion.cli", "hook", "--agent", "claude-code"]
        environment = os.environ | {"PYTHONPATH": str(SOURCES), "REFLEXION_LIMIT": "0.5"}
        payload = json.dumps({**PROMPT, "cwd": str(project)}).encode()
        done = subprocess.run(command, input=payload, capture_output=True, env=environment, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert "gave up after 0.5 s" in log(home)[-1]


def test_the_log_stays_small(monkeypatch, home):
    monkeypatch.setattr(hook, "LONGEST_LOG", 5_000)
    for number in range(200):
        hook.log_line(f"{number} " + "x" * 2000 + "\nsecond line")
    assert (home / "hook.log").stat().st_size < 7_000
    assert log(home)[-1].split()[1] == "199"
