"""A benchmark of another package goes through every verb: no simulator, and nothing of the one that comes along."""

import base64
import gzip
import json
import re
from pathlib import Path

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.memory.formats import CONSTITUTION_KIND, SCHEMA
from rsso_dspy.store.run_folder import Store
from tests.live import says
from tests.provider_formats import Said
from tests.toy_package import installed

TOY = ("--set", "benchmark=toy", "--set", "protocol.preset=sso-adapt/3-cap60", "--set", "embedder.model=hash")
RUN = ("run", "--methods", "react,rsso", "--tasks", "up", "--per-task", "2", "--trials", "2", *TOY)


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path_factory) -> Path:
    """The package is installed, and nothing else can be played."""

    def none(**_):
        raise AssertionError("this benchmark needs no simulator")

    folder = installed(tmp_path_factory.mktemp("site"))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("rsso_dspy.environments.scienceworld.ScienceWorld", none)
    get_benchmark.cache_clear()
    return folder


def counting(request: dict) -> Said:
    """A model that reads the templates, and adds one."""
    text = "\n".join(message["content"] for message in request["messages"])
    return Said(says(thought="One more.", action="add 1" if "add NUMBER" in text else "wait"))


def units_in(page: Path) -> list[str]:
    """What the page holds of every unit, as JSON."""
    packed = re.findall(r">(H4sI[^<]+)</script>", page.read_text())
    assert packed
    return [gzip.decompress(base64.b64decode(each)).decode() for each in packed]


def test_its_tasks_are_listed_and_it_is_checked(rsso):
    code, out, _ = rsso("tasks", "--benchmark", "toy")
    assert code == 0
    assert [line.split() for line in out.splitlines()[1:3]] == [
        [task, "6", "3", "6", "3-4", "9", "10", "11", "12", "13", "14"] for task in ("up", "down")
    ]
    code, out, _ = rsso("doctor", *TOY[:2], "--set", "embedder.model=hash")
    assert "simulator: toy 1.0 plays" in out


def test_a_run_is_played_shown_reported_and_reproduced(rsso):
    assert rsso(*RUN, "--out", "first")[0] == 0
    units = list(Store(Path("first")).units())
    assert {(unit.arm, unit.key) for unit in units} == {(a, f"up::{n}") for a in ("react", "rsso") for n in (9, 10)}
    assert {(unit.budget, unit.variant.simplification) for unit in units} == {(3, ""), (4, "")}
    known = json.loads(Path("first/run.json").read_text())["identity"]
    assert (known["benchmark"], known["config"]["benchmark"]) == ("toy 1.0", "toy")
    assert {unit.provenance["benchmark"] for unit in units} == {"toy 1.0"}
    assert not any("scienceworld" in each for each in (known, *(unit.provenance for unit in units)))
    _, out, _ = rsso("show", "first", "up::9", "--prompts", "--trial", "1")
    assert ("add NUMBER" in out, "focus on" in out) == (True, False)
    assert rsso("report", "first", "--html", "page.html")[0] == 0
    assert all("take NUMBER away" in unit for unit in units_in(Path("page.html")))

    code, out, err = rsso("run", "--replay", "first")
    assert code == 0, err
    assert "equal: 4 of 4 records are equal" in out
    code, _, err = rsso(*RUN, "--benchmark", "scienceworld", "--out", "first", "--dry-run")
    assert (code, "unknown task 'up'" in err) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--methods", "react,omnireflect-neuro-symbolic", "--tasks", "up", "--per-task", "1", "--dry-run"),
        ("constitution", "build", "--writer", "neuro-symbolic", "--explore", "0", "-o", "c.json"),
    ],
    ids=lambda words: f"{words[0]}-{words[2]}",
)
def test_a_writer_that_needs_examples_and_finds_none_is_refused(rsso, words):
    code, _, err = rsso(*words, *TOY)
    assert code == 2
    assert "--set memory.constitution.examples=FILE" in " ".join(err.split())
    told = {"kind": CONSTITUTION_KIND, "schema": SCHEMA, "rules": [], "examples": ["Progress rules:\n- At 1."]}
    Path("book.json").write_text(json.dumps(told))
    chosen = ("--set", "memory.constitution.examples=book.json")
    assert rsso(*words, *TOY, *chosen)[0] == (2 if words[0] == "constitution" else 0)  # which keeps no progress
    Path("book.json").write_text(json.dumps({**told, "examples": ["Error rules:\n- Mistake: x. Instead: y."]}))
    assert rsso(*words, *TOY, *chosen)[0] == 0
    code, _, err = rsso(*words, *TOY, *chosen, "--set", "memory.constitution.prompts=separate")
    assert code == 2, "abstract rules are asked for alone, and no example has one"
    assert "its examples hold no abstract" in " ".join(err.split())


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (
            {},
            r"unknown benchmark 'toi': did you mean toy\? "
            r"Known: alfworld, babyai, house-rules, pddl, scienceworld, tau2, textworld-express, toy\.",
        ),
        ({"toi": "no_such_module:X"}, r"benchmark toi of toy-package \(no_such_module:X\) cannot be loaded: ModuleNot"),
        ({"toi": "tests.toy_benchmark:NOTHING"}, r"cannot be loaded: AttributeError: .* Fix that package"),
        ({"toi": "tests.toy_package:BROKEN"}, "is no Benchmark with the name toi"),
        ({"toi": "tests.toy_benchmark:BENCHMARK"}, "is no Benchmark with the name toi"),
    ],
)
def test_one_that_cannot_be_loaded_is_named_with_its_package(rsso, monkeypatch, tmp_path, points, said):
    if points:
        monkeypatch.syspath_prepend(installed(tmp_path / "other", **points))
    code, out, err = rsso("tasks", "--benchmark", "toi")
    assert (code, out) == (2, "")
    assert re.search(said, " ".join(err.split())), err
    assert "Traceback" not in err
    assert rsso("tasks")[0] == 0, "the others can be used"
