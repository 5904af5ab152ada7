"""Constitutions on the command line: built, looked at, read by a run."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.errors import RssoError, SplitError, UsageError
from rsso_dspy.memory.formats import read_constitution
from rsso_dspy.regions import join_items
from rsso_dspy.store.run_folder import Store

FAST = ["--set", "embedder.model=hash", "--set", "protocol.preset=sso-adapt/3-cap60"]
DOLLAR = ["--set", 'prices."embedded/explorer".input=1', "--set", 'prices."embedded/explorer".output=1']
TASKS = ["--tasks", "find-plant,lifespan-longest-lived"]
BUILD = ["constitution", "build", *TASKS, *FAST]
RUN = ["run", "--tasks", "find-plant", "--per-task", "1", "--trials", "2", *FAST]


@pytest.fixture(scope="module", autouse=True)
def _at_hand(env: ScienceWorld):
    """One simulator that runs already, for all commands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", lambda **_: env)
        yield


def call(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*map(str, words)])
    if isinstance(result.exception, RssoError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A constitution from two training variants, each looked around in first."""
    out = tmp_path_factory.mktemp("built") / "book.json"
    said = call(*BUILD, "-o", out)
    assert "Abstract rules" in said
    assert "say nothing about language models" in said
    spent = r"^building it took \d+ model calls \(actor \d+, advisor \d+\), [\d.]+k tokens in, [\d.]+k out$"
    assert re.search(spent, said, re.M)
    return out


@pytest.fixture(scope="module")
def symbolic(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("built") / "symbolic.json"
    call(*BUILD, "--writer", "symbolic", "--explore", 0, "-o", out)
    return out


def test_a_built_file_says_where_it_comes_from_and_leaves_its_logs(built, symbolic):
    book = read_constitution(built)
    assert book.constitution.rules
    assert {rule.lesson.category for rule in book.constitution.rules} <= {"abstract", "error"}
    assert (len(book.variants), book.provenance["rule_based"]) == (2, True)
    assert book.provenance["usage"]["advisor"]["calls"] > 0
    assert sorted(path.name for path in built.parent.iterdir()) == ["book.json", "book.json.run"]
    assert all(part in book.examples[0] for part in ("Task: ", "Step 1. >", "Abstract rules:", "Progress rules:"))
    assert not any("Error rules:" in example for example in book.examples), "patterns drew none: left out"
    assert read_constitution(symbolic).provenance["usage"].keys() == {"actor"}, "patterns ask no model"


def test_a_build_explores_one_variant_of_each_task_type_first(built):
    explored, played = (Store(built.parent / "book.json.run" / folder) for folder in ("1", "2"))

    assert sorted(unit.variant.task for unit in explored.units()) == ["find-plant", "lifespan-longest-lived"]
    assert sorted(unit.key for unit in explored.units()) == sorted(unit.key for unit in played.units())


def test_a_number_of_episodes_of_exploration_may_be_named(symbolic, tmp_path):
    call(*BUILD, "--writer", "symbolic", "--explore", 1, "-o", tmp_path / "one.json")

    assert len(list(Store(tmp_path / "one.json.run/1").units())) == 1
    assert sorted(path.name for path in symbolic.with_name("symbolic.json.run").iterdir()) == ["1"], "none explored"


def test_a_build_that_was_stopped_goes_on_to_the_same_bytes(built, tmp_path):
    out = tmp_path / "book.json"
    tokens = sum(spent["input"] + spent["output"] for spent in read_constitution(built).provenance["usage"].values())
    call(*BUILD, "-o", out, *DOLLAR, "--max-cost", 0.9e-6 * tokens, code=1)
    assert not out.exists()
    assert list((tmp_path / "book.json.run").rglob("*.jsonl")), "it was stopped before anything was asked"
    call(*BUILD, "-o", out)
    assert out.read_bytes() == built.read_bytes(), "what it had paid for is used"


def test_a_finished_build_is_shown_again_and_another_does_not_overwrite_it(built):
    before = built.stat()
    again = CliRunner().invoke(app, [*BUILD, "-o", str(built)])
    assert (again.exit_code, "nothing is left to play" in again.stderr) == (0, True)
    shown = call("constitution", "show", built)
    assert "A1 " in shown
    assert shown.splitlines()[0] in again.stdout
    data = json.loads(call("constitution", "show", built, "--json"))
    assert data["kind"] == "rsso-dspy constitution"
    assert built.stat().st_mtime_ns == before.st_mtime_ns
    for other in (("--writer", "symbolic"), ("--explore", "0"), ("--set", "seed=7")):
        with pytest.raises(UsageError, match="already exists"):
            call(*BUILD, "-o", built, *other)


def test_any_method_reads_a_constitution_at_no_further_call(built, tmp_path):
    call(*RUN, "--methods", "rsso,rsso+constitution", "--constitution", built, "--out", tmp_path / "run")
    plain, reading = Store(tmp_path / "run").units()
    assert (plain.arm, reading.arm, plain.start) == ("rsso", "rsso+constitution", "")
    text = join_items(read_constitution(built).constitution.items)
    assert [trial.shown["constitution@1"] for trial in reading.trials] == [text] * len(reading.trials)
    assert all("advisor" not in trial.usage for trial in reading.trials)
    assert "constitution" not in plain.memories
    assert reading.start.startswith("book.json (")
    assert reading.learnt_on == read_constitution(built).variants


def test_an_agent_starts_from_a_file_and_goes_on_writing(symbolic, tmp_path):
    call(*RUN, "--methods", "omnireflect-symbolic", "--constitution", symbolic, "--out", tmp_path / "run")
    (record,) = Store(tmp_path / "run").units()
    assert record.trials[0].shown["constitution@1"] == join_items(read_constitution(symbolic).constitution.items)
    assert record.start.endswith(f"after symbolic.json ({record.start[-13:-1]})")
    assert "find-plant::229" in call("constitution", "show", tmp_path / "run")
    shown = call("show", tmp_path / "run", "find-plant::229", "--prompts")
    marks = ("Constitution (", "  1 > ", "Progress (", "  2 > ")
    assert (places := [shown.index(mark) for mark in marks]) == sorted(places)


def test_what_cannot_be_read_or_may_not_is_refused(built, tmp_path):
    data, file, out = json.loads(built.read_text()), tmp_path / "book.json", ("--out", tmp_path / "run")
    with pytest.raises(UsageError, match="nothing to read"):
        call(*RUN, "--methods", "react+constitution", *out)
    abstract = [rule for rule in data["rules"] if rule["category"] == "abstract"]
    file.write_text(json.dumps({**data, "rules": abstract}))
    only = 'memory.constitution.categories=["error"]'
    with pytest.raises(UsageError, match="holds no error rule"):
        call(*RUN, "--set", only, "--methods", "react", "--constitution", file, *out)
    with pytest.raises(UsageError, match="compile rsso"):
        call("compile", "--method", "rsso+constitution", *TASKS, *FAST, "-o", tmp_path / "compiled.json")
    data["provenance"]["variants"].append("find-plant::229")
    file.write_text(json.dumps(data))
    with pytest.raises(SplitError, match=r"find-plant::229, which this run holds out"):
        call(*RUN, "--methods", "react", "--constitution", file, *out)
