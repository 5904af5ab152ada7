"""`rsso-dspy report` in all its forms, on a run in which a unit errored."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.store.run_folder import Store
from tests.records import record, save

ARMS = {"react-sso": [[10], [20]], "reflexion-sso": [[10], [60]], "sso": [[10], [30]], "rsso": [[10], [100]]}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "run"
    store = Store(folder)
    store.open({}, dict.fromkeys(ARMS, "1"))
    for arm, trials in ARMS.items():
        for task in ("boil", "freeze"):
            save(store, record(arm, task, 1, trials))
        save(store, record(arm, "find-plant", 1, [trials[0], [trials[1][0] - (arm == "rsso")]]))
    save(store, record("rsso", "boil", 2, [[40], None]))
    return folder


def said(*words: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["report", *map(str, words)], env={"COLUMNS": "200"})
    return done.exit_code, done.stdout, done.stderr


def test_every_form_of_a_run_with_an_errored_unit(run, tmp_path):
    code, out, _ = said(run)
    assert code == 0
    assert "3 (1 err)" in out
    assert "rsso boil::2: LMServerError: 500" in out
    assert "compose" in out
    where = {
        "--html": tmp_path / "new" / "page.html",
        "--tables": tmp_path / "tables",
        "--figures": tmp_path / "figures",
    }
    code, out, err = said(run, *(word for option in where.items() for word in option))
    assert code == 0
    assert "Highest mean" in out
    page = where["--html"].read_text(encoding="utf-8")
    assert page.count("data:image/svg+xml") == 5
    assert "LMServerError: 500" in page
    assert "13 units" in err
    tables = {path.name for path in where["--tables"].iterdir()}
    assert {"methods.md", "differences.tex", "tasks.csv"} <= tables
    drawn = {path.stem for path in where["--figures"].glob("*.png")}
    assert drawn == {"best-of-t", "survival", "differences", "scores", "efficiency"}
    assert drawn == {path.stem for path in where["--figures"].glob("*.svg")}


def test_comparisons_are_chosen(run):
    asked = [[each["second"] for each in json.loads(said(run, "--json", *more)[1])["comparisons"]] for more in (
        (), ("--against", "rsso"), ("--against", "all"),
    )]  # fmt: skip
    assert [len(each) for each in asked] == [4, 3, 6]
    assert "rsso" not in asked[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--against", "rso"), "rsso"),
        (("--html", "."), "is a folder"),
        (("--tables", "/dev/null/x"), "name another --tables"),
        (("--figures", "/dev/null/x"), "name another --figures"),
    ],
)
def test_what_cannot_be_done_is_said(run, words, message):
    from rsso_dspy.errors import RssoError

    done = CliRunner().invoke(app, ["report", str(run), *words])
    assert isinstance(done.exception, RssoError)
    assert message in str(done.exception)


def test_runs_that_differ_in_seed_alone_are_one_report(run, tmp_path):
    other = Store(tmp_path / "other")
    other.open({"config": {"seed": 1}, "config_hash": "x"}, dict.fromkeys(ARMS, "1"))
    for arm, trials in ARMS.items():
        save(other, record(arm, "boil", 1, trials, seed=1))
    first = Store(tmp_path / "first")
    first.open({"config": {"seed": 0}, "config_hash": "y"}, dict.fromkeys(ARMS, "1"))
    save(first, record("sso", "boil", 1, [[70]]))
    data = json.loads(said(first.folder, other.folder, "--json")[1])
    assert {row["arm"]: row["units"] for row in data["arms"]}["sso"] == 2
    assert data["facts"]["seed"] == ["0", "1"]
    code, out, _ = said(first.folder, other.folder)
    assert code == 0
    assert "50.00" in out
    done = CliRunner().invoke(app, ["report", str(run), str(copied(run, tmp_path))])
    assert "both hold" in str(done.exception)


def test_units_that_some_command_had_to_play_and_that_are_not_there_are_counted(run, tmp_path):
    store = Store(copied(run, tmp_path))
    here = [f"{arm}/{task}::1/s0" for arm in ARMS for task in ("boil", "freeze", "find-plant")]
    store.open(*store.read_identity(), planned=[*here, "rsso/boil (training)/s0", "rsso/melt::3/s0"])
    assert "The run is incomplete: 1 planned unit has no record." in said(store.folder)[1]
    (store.folder / "units" / "sso" / "boil" / "1-s0.jsonl").unlink()
    assert "The run is incomplete: 2 planned units have no record." in said(store.folder)[1]
    assert json.loads(said(run, "--json")[1])["missing"] == 0


def copied(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "copy"))
