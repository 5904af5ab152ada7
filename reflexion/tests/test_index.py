"""The index, which grep reads; entries of other people; what is recalled and how it is told."""

import shlex
import subprocess

import pytest
from conftest import CASES, NOW, make_entry, put, read_entries
from reflexion.recall import count_tokens, recall_for_prompt
from reflexion.store import HEADER, Store

PROMPT = {"hook_event_name": "UserPromptSubmit", "prompt": "npm build", "session_id": "a"}


@pytest.mark.parametrize("evil", CASES["evil"])
@pytest.mark.parametrize("field", ["trigger", "context", "resolution"])
def test_nothing_breaks_out_of_a_block(evil, field, project, tell):
    put(project, make_entry(keywords=("npm", "build"), **{field: evil}))
    block = tell("claude-code", {"hook_event_name": "UserPromptSubmit", "cwd": str(project), "prompt": "npm build"})
    first, *lines, last = block.split("\n")
    assert (first, last) == ("<reflexion-recall>", "</reflexion-recall>")
    assert len(lines) == 2
    assert "<" not in "".join(lines)
    assert lines[1].count('"') in (2, 4, 6)
    assert lines[1].isprintable()
    assert count_tokens(block) <= 80


def run_git(folder, *words):
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize("version", ["2", "4"])
def test_what_git_tracks_is_recalled_only_when_this_user_wants_it(version, project, tell, typed):
    """A repository can bring entries, an index and settings, and cannot say that this user trusts them."""
    run_git(project, "init", "-q")
    run_git(project, "config", "index.version", version)
    put(project, make_entry(1))
    (project / ".reflexion/config.json").write_text('{"shared": true}')
    prompt = {**PROMPT, "cwd": str(project)}
    assert "pnpm" in tell("claude-code", {**prompt, "session_id": "0"})  # written by hand, and not tracked
    run_git(project, "add", "-f", ".reflexion")
    run_git(project, "commit", "-qm", "x")
    assert tell("claude-code", prompt) == ""
    _code, said = typed("status")
    assert "1 entries that git tracks are not recalled" in said
    typed("init", "--shared")
    assert "pnpm" in tell("claude-code", prompt)
    assert (project / ".reflexion/.gitignore").read_text() == "index.txt\n"
    typed("init")
    assert tell("claude-code", {**prompt, "session_id": "b"}) == ""


@pytest.mark.parametrize("content", ["", "garbage\n" * 100, f"{HEADER}12\nno tab"])
def test_a_broken_index_is_made_anew(content, project, tell):
    with Store(put(project, make_entry(1))):
        pass
    (project / ".reflexion/index.txt").write_text(content)
    assert "pnpm" in tell("claude-code", {**PROMPT, "cwd": str(project)})
    assert "\nnpm\tRFX" in (project / ".reflexion/index.txt").read_text()


def test_every_verb_works(project, typed):
    for line, code, printed in CASES["verbs"]:
        entry = (read_entries(project) or [{"id": ""}])[0]["id"]
        ended, said = typed(*shlex.split(line.replace("ID", entry).replace("END", entry[-3:])))
        assert (ended, printed in said) == (code, True), (line, said)
    assert (read_entries(project)[0]["type"], read_entries(project)[0]["resolved_by"]) == ("correction", "confirmed")
    assert not (project / ".codex").exists()


@pytest.mark.parametrize(
    ("words", "answer", "written"),
    [([], "y", True), ([], "n", False), (["--yes"], "", True), (["--dry-run"], "", False)],
)
def test_promotion_asks_at_a_terminal(words, answer, written, project, typed, monkeypatch):
    put(project, make_entry())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: answer)
    code, out = typed("promote", *words)
    assert code == (2 if answer == "n" else 0), out
    assert "+- When `npm run build` fails" in out
    assert (project / "AGENTS.md").exists() is written
    assert read_entries(project)[0]["promoted"] is written
