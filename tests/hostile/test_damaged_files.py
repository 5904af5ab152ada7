"""Whatever stands where a file is expected: no verb ends in a traceback, and a run that could go on goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rsso_dspy.store.run_folder import Store
from tests.hostile.conftest import ORDER

UNIT = "lifespan-longest-lived::98"


def text(content: str | bytes) -> Callable[[Path], None]:
    data = content.encode() if isinstance(content, str) else content
    return lambda path: path.write_bytes(data) and None


DAMAGES: dict[str, Callable[[Path], None]] = {
    "a folder": lambda path: path.mkdir(),
    "deep lists": text("[" * 100_000),
    "not UTF-8": text(b'{"a": "\xff\xfe"}'),
    "cut off": text('{"schema": 1, "trials": ['),
    "empty": text(""),
    "NaN": text('{"schema": NaN}'),
    "a list": text("[]"),
}
SOME = ("a folder", "cut off", "a list")
"""What every file is tried with; the log of a unit is tried with all."""

UNIT_LOG = "run/units/rsso/lifespan-longest-lived/98-s0.jsonl"
REPORT, SHOW = ("report", "run"), ("show", "run", UNIT)
AGAIN, SKILLS = ("run", "--replay", "run", "--dry-run"), ("skills", "export", "run", UNIT, "-o", "new.json")
DRY = (*ORDER, "--out", "run", "--dry-run")
FILES: dict[str, list[tuple[str, ...]]] = {
    UNIT_LOG: [REPORT, SHOW, ("export", "run", "-o", "x.parquet"), AGAIN, SKILLS, DRY],
    "run/run.json": [REPORT, SHOW, AGAIN, SKILLS, DRY],
    "run/trainings/rsso/lifespan-longest-lived/s0.jsonl": [REPORT],
    "rsso.toml": [("config", "show")],
    "skills.json": [(*ORDER, "--skills", "skills.json", "--out", "new", "--dry-run")],
    "constitution.json": [("constitution", "show", "constitution.json")],
    "program.json": [("show", "program.json"), ("evaluate", "program.json", "--dry-run")],
}
CASES = [(file, damage) for file in FILES for damage in (DAMAGES if file == UNIT_LOG else SOME)]


def put(path: Path, damage: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    DAMAGES[damage](path)
    if path.is_file() and damage != "empty" and path.suffix == ".jsonl":  # else it is half a line, which is left out
        path.write_bytes(path.read_bytes() + b"\n")


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_no_verb_breaks(rsso, run, tmp_path, file, damage):
    put(tmp_path / file, damage)
    for words in FILES[file]:
        code, out, err = rsso(*words)
        assert code in (0, 1, 2), words
        assert "Traceback" not in out + err
        if file == UNIT_LOG and damage != "empty":
            assert "98-s0.jsonl " in err, "it is named"
        if words == DRY and file != "run/run.json":
            assert code == 0, err
    if file == UNIT_LOG:
        store = Store(run)
        assert not list(store.units())
        assert [each.suffix for each in store.set_aside] == [".damaged"] * (damage != "empty")


LINES = [
    *("5", "[" * 100_000, "9" * 5000, '{"call": 1, "usage": NaN}', '{"unit": {}}', '{"void": "x"}', '{"trial": []}'),
    *('{"call": 7, "usage": [{"prompt_tokens": "many"}]}', '{"text": 1, "is": 5}', '{"unknown": 1}', "\ud800 \x00"),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: ascii(line[:40]))
def test_a_line_that_says_nothing_breaks_no_verb(rsso, run, unit, line):
    """It may be read past, or the file counts as damaged; a torn last line is left out."""
    before, odd = unit.read_bytes(), line.encode("utf-8", "surrogatepass") + b"\n"
    for content in (odd + before, before + odd):
        unit.write_bytes(content)
        for words in ((*SHOW, "--prompts"), AGAIN, DRY):
            code, out, err = rsso(*words)
            assert code in (0, 1, 2), words
            assert "Traceback" not in out + err, words
        unit.unlink(missing_ok=True)
    unit.write_bytes(before + odd[:-1])
    assert rsso(*REPORT)[0] == 0
    assert Store(run).open_log(Store(run).units().__next__()).path.read_bytes() == before


@pytest.mark.parametrize(("old", "new"), [('"reward":', '"reward":NaN,"was":'), ('"sso-adapt/3-cap60', '"release')])
def test_a_log_that_cannot_be_of_this_run_is_named_set_aside_and_played_again(rsso, run, unit, old, new):
    unit.write_text(unit.read_text().replace(old, new, 1))
    code, _, err = rsso(*REPORT)
    assert code == 2, "nothing else is there"
    assert f"{UNIT_LOG} " in err, "a report names what it left out"
    assert unit.exists(), "and changes nothing"
    code, _, err = rsso(*DRY)
    assert code == 0
    assert f"to be quarantined as {unit.name}.damaged" in err
    store = Store(run)
    assert not list(store.units())
    assert [aside.name for aside in store.set_aside if aside.exists()] == [f"{unit.name}.damaged"]
