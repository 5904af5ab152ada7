"""What version 0.1.0 wrote is read and reported as it was then."""

import csv
import tarfile
from pathlib import Path

import pytest

import rsso_dspy
from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embedders import Embedder
from rsso_dspy.memory.skills import load_library
from rsso_dspy.programs.agent import Agent
from rsso_dspy.store.unit_store import Store
from tests.cli.conftest import rsso  # noqa: F401 - a fixture

ARCHIVE = Path(__file__).with_name("bb9b97b.tar.xz")
RUNS = ("adapt", "transfer", "advised", "compiled")


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


RENAMED = {"detects": "min. detectable difference"}
"""Column of a table then to its name now."""


def read_rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="", encoding="utf-8") as opened:
        return [{RENAMED.get(name, name): cell for name, cell in row.items()} for row in csv.DictReader(opened)]


@pytest.mark.parametrize("run", RUNS)
def test_every_table_of_its_reports_comes_out_the_same(golden, rsso, run):  # noqa: F811
    code, _, err = rsso("report", golden / "runs" / run, "--tables", "tables")
    assert (code, "left out" in err) == (0, False)
    for file in sorted((golden / f"tables-{run}").glob("*.csv")):
        now = read_rows(Path("tables") / file.name)
        for row in read_rows(file):
            same = [each for each in now if row.items() <= each.items()]
            assert same, f"{file.name} has no more row {row}; it has {now}"


@pytest.mark.parametrize("run", [*RUNS, "killed"])
def test_every_record_is_believed(golden, run):
    store = Store(golden / "runs" / run, read_only=True)
    records = [*store.units(), *store.trainings(), *store.load_begun()]
    files = [file for kind in ("units", "trainings") for file in (store.folder / kind).rglob("*.json")]
    begun = list((store.folder / "started").rglob("*.json"))
    assert len(records) == len(files) + len(begun)
    assert store.set_aside == []


def test_what_a_kill_cut_short_is_on_the_bill(golden):
    store = Store(golden / "runs/killed", read_only=True)
    assert sum(usage.calls for _, _, usage in store.read_under_way()) > 0


@pytest.mark.parametrize("file", ["compiled.json", "baseline.json"])
def test_a_compiled_program_is_read_as_it_was(golden, file):
    compiled = rsso_dspy.load(golden / file)
    zero_shot, agent = Agent("rsso").dump_state(), compiled.agent().dump_state()
    assert agent.keys() == zero_shot.keys()
    demos = {name: len(state["demos"]) for name, state in agent.items() if state["demos"]}
    assert demos == ({"actor": 2} if file == "compiled.json" else {})
    assert compiled.changes == (("2 demonstrations of actor",) if demos else ())
    loaded = Agent("rsso")
    loaded.load(golden / file)
    assert loaded.dump_state() == agent


@pytest.mark.parametrize(
    "words",
    [
        ("program", "show", "compiled.json"),
        ("program", "validate", "compiled.json"),
        ("constitution", "show", "constitution.json"),
        ("skills", "show", "runs/adapt", "grow-plant::98", "--arm", "rsso"),
        ("show", "runs/adapt", "find-plant::229", "--arm", "rsso", "--prompts"),
        ("report", "runs/killed"),
        ("export", "runs/adapt", "-o", "units.parquet"),
        ("report", "runs/adapt", "--html", "page.html"),
    ],
    ids=" ".join,
)
def test_every_verb_that_reads_still_does(golden, rsso, words):  # noqa: F811
    code, _, err = rsso(
        *(golden / word if word.startswith("runs/") or word.endswith(".json") else word for word in words)
    )
    assert code == 0, err


def test_a_skill_library_is_read(golden):
    assert load_library(golden / "skills.json", Embedder(EmbedderConfig(model="hash")))
