"""`rsso-dspy skills` on a real unit: its library as a file, and the runs that start from it."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.embed import Embedder
from rsso_dspy.memory.formats import read_library
from rsso_dspy.records import Failure
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import FAST
from tests.memory.memory_cases import skill_memory
from tests.records import save

UNIT = "use-thermometer::412"


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """A run of three trials that left a skill, and a second arm that plays the same without memories."""
    folder = tmp_path_factory.mktemp("played") / "run"
    words = ["run", "--methods", "sso", "--tasks", "use-thermometer", "--per-task", "1", "--trials", "3", *FAST]
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["use-thermometer::413"], "did you mean use-thermometer::412"),
        ([UNIT, "--arm", "react-sso"], f"{UNIT} of react-sso keeps no skills; --arm sso"),
        ([UNIT, "--arm", "rsso"], f"{UNIT} of rsso is not finished yet: repeat the run's command"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(rsso, played, tmp_path, words, said):
    code, out, err = rsso("skills", "export", played, *words, "-o", "out.json")
    assert (code, out) == (2, "")
    assert said in err
    assert list(tmp_path.iterdir()) == []


def test_units_without_skills_and_errored_units_are_named(rsso, unit, tmp_path):
    store = Store(tmp_path / "run")
    store.open({}, dict.fromkeys(("sso", "react-sso"), unit.provenance["program"]))
    assert "holds no finished unit yet" in rsso("skills", "export", "run", UNIT, "-o", "x.json")[2]
    save(store, replace(unit, arm="react-sso", memories={}))
    code, _, err = rsso("skills", "export", "run", UNIT, "-o", "x.json")
    assert code == 2
    assert f"{UNIT} of react-sso keeps no skills; play it with --methods sso,rsso" in err
    died = replace(unit.trials[1], trajectory=None, failure=Failure("SimulatorDied", "no answer"))
    save(store, replace(unit, trials=(unit.trials[0], died)))
    code, _, err = rsso("skills", "export", "run", UNIT, "-o", "x.json")
    assert code == 2
    assert "not finished: trial 2 is an error (SimulatorDied: no answer); repeat the run's command" in err
    assert "holds no run" in rsso("skills", "export", "nowhere", UNIT, "-o", "x.json")[2]


# export


def test_an_exported_library_retrieves_what_the_unit_did(rsso, played, unit, tmp_path):
    code, out, _ = rsso("skills", "export", played, UNIT, "-o", "sub/skills.json")
    assert code == 0
    assert f"1 skill of {UNIT}, sso" in out
    file = tmp_path / "sub" / "skills.json"
    library = read_library(file)
    assert library.snapshot == unit.memories["skills"]
    assert library.provenance["made_by"] == unit.provenance
    known = library.provenance
    assert (known["protocol"], known["method"], known["model"]) == (unit.protocol, "sso", "embedded/explorer")
    assert (known["rule_based"], known["embedder"], known["variants"]) == (True, "hash", [UNIT])
    assert (known["seed"], known["trials"], known["learnt_from"]) == (0, 3, [1, 2])
    memory = skill_memory(embed=Embedder("hash"))
    memory.restore(library.snapshot)
    last = unit.trials[2].trajectory
    for index, step in enumerate(last.steps):
        assert memory.recall(last.states[: index + 1], []).ids == step.recalled


# carried to another run

ELSEWHERE = ("run", "--variants", "use-thermometer::413", "--trials", "2", *FAST)


@pytest.fixture
def library(rsso, played, tmp_path) -> Path:
    rsso("skills", "export", played, UNIT, "-o", "skills.json")
    return tmp_path / "skills.json"


@pytest.mark.usefixtures("at_hand")
def test_a_library_is_read_from_the_first_trial_on_and_learnt_on(rsso, unit, library):
    code, _, err = rsso(*ELSEWHERE, "--methods", "sso,react-sso", "--skills", library, "--out", "more")
    assert code == 0, err
    assert f"was learned on {UNIT} of the test split" in err
    records = {record.arm: record for record in Store(Path("more")).units()}
    held, known = records["sso"].memories["skills"], unit.memories["skills"]
    assert [skill["id"] for skill in known["skills"]] == [skill["id"] for skill in held["skills"]][
        : len(known["skills"])
    ]
    assert held["pieces"][: len(known["pieces"])] == known["pieces"]
    assert len(held["pieces"]) > len(known["pieces"])
    assert any(step.recalled for step in records["sso"].trajectories[0].steps)
    assert records["sso"].start.startswith("skills.json (")
    assert records["react-sso"].start == ""
    rsso("skills", "export", "more", "use-thermometer::413", "-o", "both.json")
    assert read_library("both.json").provenance["variants"] == [UNIT, "use-thermometer::413"]
    code, _, err = rsso(*ELSEWHERE, "--methods", "sso", "--out", "more")
    assert code == 2
    assert "carried.skills: there " in err


@pytest.mark.usefixtures("at_hand")
def test_what_a_library_was_learnt_on_is_not_forgotten_in_a_training(rsso, library):
    keys = ("setting=transfer", "train_trials=1", "train_per_task=1", "trials=1")
    transfer = [word for key in keys for word in ("--set", f"protocol.{key}")]
    assert rsso(*ELSEWHERE, *transfer, "--methods", "sso", "--skills", library, "--out", "trained")[0] == 0
    rsso("skills", "export", "trained", "use-thermometer", "-o", "washed.json")
    assert UNIT in read_library("washed.json").provenance["variants"]
    code, _, err = rsso("run", "--variants", UNIT, *FAST, "--methods", "sso", "--skills", "washed.json", "--dry-run")
    assert code == 2
    assert f"was learned on {UNIT}, which this run holds out" in err


@pytest.mark.usefixtures("at_hand")
def test_a_frozen_library_stays_what_it_was(rsso, unit, library):
    code, _, err = rsso(
        *ELSEWHERE, "--methods", "sso", "--skills", library, "--set", "protocol.frozen=true", "--out", "frozen"
    )
    assert code == 0, err
    (record,) = Store(Path("frozen")).units()
    assert record.memories["skills"] == unit.memories["skills"]
    assert all(trial.learnt == {} for trial in record.trials)
    assert "frozen=True" in record.protocol


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("--methods", "react"), "no method of this run uses skills"),
        (("--set", "embedder.model=lexical"), "use embedder.model=hash"),
        (("--set", "memory.skills.max_window=4"), "skills.json: this skill memory has other settings"),
        (("--variants", f"{UNIT},use-thermometer::413"), f"was learned on {UNIT}, which this run holds out"),
    ],
)
def test_a_library_that_does_not_fit_is_refused_before_anything_is_played(rsso, library, words, fix):
    code, _, err = rsso(*ELSEWHERE, "--methods", "sso", "--skills", library, *words, "--out", "none")
    assert code == 2
    assert fix in err
    assert not Path("none").exists()
