"""`rsso-dspy report` in all its forms, on a run in which a unit errored."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.errors import RssoError
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


def read_report(*words: object) -> tuple[str, str]:
    done = CliRunner().invoke(app, ["report", *map(str, words)], env={"COLUMNS": "200"})
    if isinstance(done.exception, RssoError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr


def test_every_form_of_a_run_with_an_errored_unit(run, tmp_path):
    out, _ = read_report(run)
    for text in ("3 (1 err)", "LMServerError: 500", "compose"):
        assert text in out
    page, tables, figures = tmp_path / "new" / "page.html", tmp_path / "tables", tmp_path / "figures"
    out, err = read_report(run, "--html", page, "--tables", tables, "--figures", figures)
    assert "Highest mean" in out
    assert "13 units" in err
    html = page.read_text(encoding="utf-8")
    assert html.count("data:image/svg+xml") == 5
    assert "LMServerError: 500" in html
    assert {"methods.md", "differences.tex", "tasks.csv"} <= {path.name for path in tables.iterdir()}
    for ending in ("png", "svg"):
        drawn = {path.stem for path in figures.glob(f"*.{ending}")}
        assert drawn == {"best-of-t", "survival", "differences", "scores", "efficiency"}


def test_comparisons_are_chosen(run):
    for more, count in (((), 4), (("--against", "rsso"), 3), (("--against", "all"), 6)):
        found = [each["second"] for each in json.loads(read_report(run, "--json", *more)[0])["comparisons"]]
        assert (len(found), count == 3 and "rsso" in found) == (count, False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--against", "rso"), "rsso"),
        (("--html", "."), "is not a file"),
        (("--tables", "/dev/null/x"), "name another --tables"),
        (("--figures", "/dev/null/x"), "name another --figures"),
    ],
)
def test_what_cannot_be_done_is_said(run, words, message):
    with pytest.raises(RssoError, match=message):
        read_report(run, *words)


def test_units_that_some_command_had_to_play_and_that_are_not_there_are_counted(run, tmp_path):
    store = Store(Path(shutil.copytree(run, tmp_path / "copy")))
    here = [f"{arm}/{task}::1/s0" for arm in ARMS for task in ("boil", "freeze", "find-plant")]
    store.open(*store.read_identity(), planned=[*here, "rsso/boil (training)/s0", "rsso/melt::3/s0"])
    assert "The run is incomplete: 1 planned unit has no record." in read_report(store.folder)[0]
    (store.folder / "units" / "sso" / "boil" / "1-s0.jsonl").unlink()
    assert "The run is incomplete: 2 planned units have no record." in read_report(store.folder)[0]
    assert json.loads(read_report(run, "--json")[0])["missing"] == 0
