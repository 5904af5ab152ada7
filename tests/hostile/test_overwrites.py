"""A file that a command did not write is never lost to it, and a run's own files to none."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rsso_dspy.memory.constitution import Constitution
from rsso_dspy.memory.formats import ConstitutionFile
from rsso_dspy.store.run_folder import Store
from tests.memory.memory_cases import skill_memory
from tests.optimize.test_compiled import a_program
from tests.records import record, save

FOREIGN = {
    ".json": b'{"kind": "rsso-dspy skill librarian", "schema": 1}',
    ".html": b"<!DOCTYPE html>\n<title>rsso-dspy, as somebody else tells it</title>",
    ".svg": b'<?xml version="1.0"?><svg><dc:title>mine, of rsso-dspy</dc:title></svg>',
    ".png": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
    ".parquet": b"PAR1 of another tool \x15\x00\x00\x00PAR1",
    ".csv": b"arm,address\n1,2\n",
    ".md": b"**Best of t**, as I see it\n",
    ".tex": b"mine",
    ".toml": b"mine = 1\n",
}
"""Files of another hand that look most like those that are written, by the ending of their names."""

ALONE = ("--tasks", "lifespan-longest-lived")
WRITES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "skills export": (("skills", "export", "run", "boil::22", "-o", "new/x.json"), ("x.json",)),
    "constitution build": (("constitution", "build", *ALONE, "-o", "new/x.json"), ("x.json",)),
    "compile": (("compile", *ALONE, "-o", "new/x.json"), ("x.json",)),
    "report --html": (("report", "run", "--html", "new/x.html"), ("x.html",)),
    "report --tables": (("report", "run", "--tables", "new"), ("methods.csv", "learning.md", "tokens.tex")),
    "report --figures": (("report", "run", "--figures", "new"), ("best-of-t.svg", "best-of-t.png")),
    "export": (("export", "run", "-o", "new/x.parquet"), ("x.parquet",)),
    "config init": (("config", "init", "new/x.toml"), ("x.toml",)),
    "run": (("run", *ALONE, "--out", "new"), ("x.json",)),
}
"""What writes a place that its user names, and files that it would write there."""

ONCE = ("constitution build", "compile", "config init", "run", "report --figures")
"""Those that write over nothing, not even their own; that play, which other tests have; or that draw."""


@pytest.fixture
def place(rsso, tmp_path):
    """An empty folder with a run, a compiled program and a constitution; gives what types commands in it."""
    store = Store(tmp_path / "run")
    store.open({"protocol": "sso-adapt/3"}, {"sso": "1", "rsso": "2"})
    skills = skill_memory().snapshot()
    for arm in ("sso", "rsso"):
        save(store, replace(record(arm, "boil", 22, [[10], [60]]), memories={"skills": skills}))
    a_program().save(tmp_path / "program.json")
    (tmp_path / "book.json").write_text(ConstitutionFile(Constitution()).to_json())
    return rsso


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("verb", WRITES)
def test_what_somebody_else_wrote_is_not_written_over(place, tmp_path, verb):
    words, files = WRITES[verb]
    (tmp_path / "new").mkdir()
    for name in files:
        file = tmp_path / "new" / name
        file.write_bytes(FOREIGN[file.suffix])
        before = tree(tmp_path)
        code, _, err = place(*words)
        assert code == 2, name
        assert tree(tmp_path) == before, "nothing else was written either"
        assert (f"new/{name}" if "new" not in words or len(files) > 1 else "new") in err
        assert re.search(r"name another|use another|remove it, or", err), err
        file.unlink()


OWN_FILES = ("run.json", "units/sso/boil/22-s0.jsonl", "units/sso/boil/23-s0.jsonl", "trainings/x.json")
OWN_FOLDERS = ("units/new", "trainings")
"""What a run keeps, or might keep."""


@pytest.mark.parametrize("verb", WRITES)
def test_a_runs_own_files_are_its_own(place, tmp_path, verb):
    words, _ = WRITES[verb]
    named = words[-1]
    before = tree(tmp_path)
    for own in OWN_FOLDERS if named == "new" else OWN_FILES:
        code, _, err = place(*words[:-1], Path("run", own))
        assert code == 2, own
        assert re.search("name another|remove it, or|move it away", err), err
        assert tree(tmp_path) == before
    if named != "new":
        linked = (tmp_path / named).with_name("link")
        linked.parent.mkdir()
        linked.symlink_to(tmp_path / "run" / "run.json")
        assert place(*words[:-1], linked)[0] == 2
        assert linked.is_symlink()


@pytest.mark.parametrize("verb", [verb for verb in WRITES if verb not in ONCE])
def test_what_a_command_wrote_it_writes_again(place, tmp_path, verb):
    words, files = WRITES[verb]
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / files[0]).touch()  # an empty file is nobody's
    code, _, err = place(*words)
    assert code == 0, err
    written = tree(tmp_path / "new")
    assert all(written[name] for name in files)
    (tmp_path / "new" / "beside.txt").write_text("mine")
    code, _, err = place(*words)
    assert code == 0, err
    assert tree(tmp_path / "new").keys() == {*written, "beside.txt"}


@pytest.mark.parametrize(("verb", "folder"), [("compile", "x.json.rollouts"), ("constitution build", "x.json.run")])
def test_a_folder_that_would_be_cleared_is_looked_into_first(place, tmp_path, verb, folder):
    (tmp_path / "new" / folder).mkdir(parents=True)
    (tmp_path / "new" / folder / "notes.txt").write_text("mine")
    before = tree(tmp_path)
    code, _, err = place(*WRITES[verb][0])
    assert (code, tree(tmp_path)) == (2, before)
    assert re.search(rf"new/{folder}.* (holds|is not empty).*(name|use) another -o", err)
