"""`rsso-dspy skills` on a real unit: its library as a file, and the runs that start from it."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.config import EmbedderConfig
from rsso_dspy.embed import Embedder
from rsso_dspy.memory.formats import read_library
from rsso_dspy.records import Failure
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import FAST
from tests.memory.memory_cases import skill_memory
from tests.records import save

UNIT = "use-thermometer::464"


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """A run of three trials that left a skill, and a second arm that plays the same without memories."""
    folder = tmp_path_factory.mktemp("played") / "run"
    words = ["run", "--methods", "sso", "--variants", UNIT, "--trials", "3", *FAST]
    done = CliRunner().invoke(app, [*words, "--out", str(folder)])
    assert done.exit_code == 0, done.output
    store = Store(folder)
    (unit,) = store.units()
    store.open(store.read_identity()[0], dict.fromkeys(("react-sso", "rsso"), unit.provenance["program"]))
    save(store, replace(unit, arm="react-sso", method="react-sso", memories={}))
    return folder


@pytest.fixture
def unit(played):
    return next(record for record in Store(played).units() if record.arm == "sso")


@pytest.fixture
def export(rsso):
    return lambda run, *words: rsso("skills", "export", run, *words, "-o", "sub/skills.json")


def test_what_is_not_there_is_refused_with_what_is(export, played, unit, tmp_path):
    store = Store(tmp_path / "run")
    store.open({}, dict.fromkeys(("sso", "react-sso"), unit.provenance["program"]))
    assert "holds no finished unit yet" in export("run", UNIT)[2]
    save(store, replace(unit, arm="react-sso", memories={}))
    assert (
        f"{UNIT} of react-sso keeps no skills; name its training, or play it with --methods sso,rsso"
        in export("run", UNIT)[2]
    )
    died = replace(unit.trials[1], trajectory=None, failure=Failure("SimulatorDied", "no answer"))
    save(store, replace(unit, trials=(unit.trials[0], died)))
    for words, said in (
        (("run", UNIT), "not finished: trial 2 is an error (SimulatorDied: no answer); repeat the run's command"),
        (("nowhere", UNIT), "holds no run"),
        ((played, "use-thermometer::413"), f"did you mean {UNIT}"),
        ((played, UNIT, "--arm", "react-sso"), f"{UNIT} of react-sso keeps no skills; --arm sso"),
        ((played, UNIT, "--arm", "rsso"), "Not finished yet? Then repeat the run's command"),
    ):
        code, out, err = export(*words)
        assert (code, out, said in err) == (2, "", True), err
    assert not (tmp_path / "sub").exists()


def test_an_exported_library_retrieves_what_the_unit_did(export, played, unit, tmp_path):
    code, out, _ = export(played, UNIT)
    assert (code, f"1 skill of {UNIT}, sso" in out) == (0, True)
    file = tmp_path / "sub" / "skills.json"
    library = read_library(file)
    assert library.snapshot == unit.memories["skills"]
    known = library.provenance
    assert (known["protocol"], known["method"], known["model"]) == (unit.protocol, "sso", "embedded/explorer")
    assert (known["rule_based"], known["embedder"], known["variants"]) == (True, "hash", [UNIT])
    assert (known["trials"], known["learnt_from"], known["made_by"]) == (3, [1, 2], unit.provenance)
    memory = skill_memory(embed=Embedder(EmbedderConfig(model="hash")))
    memory.restore(library.snapshot)
    last = unit.trials[2].trajectory
    for index, step in enumerate(last.steps):
        assert memory.recall(last.states[: index + 1], []).ids == step.recalled


ELSEWHERE = ("run", "--variants", "use-thermometer::413", "--trials", "2", *FAST, "--methods", "sso")


@pytest.fixture
def library(export, played, tmp_path) -> Path:
    export(played, UNIT)
    return tmp_path / "sub" / "skills.json"


@pytest.mark.usefixtures("at_hand")
def test_a_library_is_read_from_the_first_trial_on_and_learnt_on(rsso, export, unit, library):
    code, _, err = rsso(*ELSEWHERE, "--methods", "sso,react-sso", "--skills", library, "--out", "more")
    assert (code, f"was learned on {UNIT} of the test split" in err) == (0, True), err
    records = {record.arm: record for record in Store(Path("more")).units()}
    held, known = records["sso"].memories["skills"], unit.memories["skills"]
    names = [skill["id"] for skill in known["skills"]]
    assert [skill["id"] for skill in held["skills"]][: len(names)] == names
    assert held["pieces"][: len(known["pieces"])] == known["pieces"]
    assert len(held["pieces"]) > len(known["pieces"])
    assert any(step.recalled for step in records["sso"].trajectories[0].steps)
    assert records["sso"].start.startswith("skills.json (")
    assert records["react-sso"].start == ""
    code, _, err = rsso(*ELSEWHERE, "--out", "more")
    assert (code, "carried.skills: there " in err) == (2, True)
    export("more", "use-thermometer::413")
    assert read_library(library).provenance["variants"] == [UNIT, "use-thermometer::413"]
