"""The verbs of `reflexion`, and what `recall --explain` says."""

import json
import os

import pytest
from conftest import NOW, read_entries
from entries import make_entry, put
from reflexion.index import open_index
from reflexion.recall import recall_for_prompt
from reflexion.user_files import sign


def test_every_verb_works(project, tmp_path, typed):
    run = typed

    def typed(*words: str, code: int = 0) -> str:
        ended, said = run(*words)
        assert ended == code, said
        return said

    assert "begin with" in typed("status", code=2)
    assert "RFX-" in typed(
        "capture", "--type", "correction", "--trigger", "use pnpm here", "--resolution", "run `pnpm install`"
    )
    (entry,) = read_entries(project)
    assert (entry["type"], entry["resolved_by"]) == ("correction", "confirmed")
    assert "confidence 0.87" in typed("verify", entry["id"], "--worked")
    assert "0.4" in typed("verify", entry["id"][-3:], "--failed", "--note", "no lock file")
    assert "pnpm" in typed("edit", entry["id"], "--resolution", "run `pnpm install --frozen-lockfile`")
    assert "recalled" in typed("recall", "--explain", "install with pnpm here")
    assert json.loads(typed("recall", "--json", "pnpm install"))["ids"] == [entry["id"]]
    assert json.loads(typed("show", entry["id"]))["occurrences"] == 2
    assert "seen 2 of 3" in typed("list", "--why")
    assert "1 entries indexed" in typed("rebuild-index")
    assert "SKILL.md" in typed("export", "--as", "skill", "--all", "-o", str(tmp_path / "skills"))
    assert "NO  hooks" in typed("doctor", code=1)
    assert "forgotten" in typed("forget", entry["id"])
    assert "unknown entry" in typed("show", entry["id"], code=2)
    assert json.loads(typed("status", "--json"))["entries"] == 0


@pytest.mark.parametrize(
    ("words", "answer", "written"),
    [([], "y", True), ([], "n", False), (["--yes"], "", True), (["--dry-run"], "", False)],
)
def test_promotion_asks_at_a_terminal(words, answer, written, project, typed, monkeypatch):
    monkeypatch.chdir(put(project, make_entry()))
    ours, theirs = os.openpty()
    with os.fdopen(ours, "w") as keyboard, os.fdopen(theirs) as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        keyboard.write(f"{answer}\n")
        keyboard.flush()
        code, out = typed("promote", *words)
    assert code == (2 if answer == "n" else 0), out
    assert "+- When `npm run build` fails" in out
    assert (project / "AGENTS.md").exists() is written
    assert read_entries(project)[0]["promoted"] is written


def test_the_score_is_explained_and_meaning_is_compared_when_asked_for(project):
    root = put(project, make_entry(1), make_entry(2, resolution="", keywords=("npm", "build")))
    with open_index(root) as index:
        (first,) = recall_for_prompt(index, "the npm build", NOW, 0.01)
        assert first.score == pytest.approx(first.overlap * first.confidence * first.experience)
        assert (first.words, first.why_not) == (("npm", "build"), "")
        assert recall_for_prompt(index, "Missing script", NOW, 9)[0].why_not == "below 9"
        assert not recall_for_prompt(index, "unrelated", NOW, 0.01)
