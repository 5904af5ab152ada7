"""Several benchmarks in one run: each plays as it does alone, and is reported apart and together."""

import json
import re
from pathlib import Path

import pytest

from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import GoldUnknown, SplitError, UsageError
from rsso_dspy.experiment.run_programs import CompileEnvironment
from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.program_file import load
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import PART
from rsso_dspy.store.unit_store import Store
from tests.cli.conftest import mark_confirmed
from tests.cli.test_benchmark import units_in
from tests.toy_benchmark import TEMPLATES
from tests.toy_package import installed

FAST = ("--protocol", "sso-adapt/1-cap60", "--set", "embedder.model=hash")
MIXED = ("--benchmark", "toy,pddl")
RUN = ("run", "--methods", "react,reflexion", "--per-task", "1", "--trials", "2", *FAST)
BOTH = (*RUN, "--tasks", "up,gripper")


@pytest.fixture(autouse=True)
def toy(monkeypatch, tmp_path_factory) -> None:
    points = {name: f"tests.toy_package:{made}" for name, made in (("toy", "BENCHMARK"), ("goldless", "WITHOUT_GOLD"))}
    monkeypatch.syspath_prepend(installed(tmp_path_factory.mktemp("site"), **points))
    get_benchmark.cache_clear()


def test_a_mixed_run_plays_each_as_alone_and_goes_through_the_verbs(rsso):
    assert rsso(*BOTH, *MIXED, "--out", "mixed")[0] == 0
    mixed = {(unit.arm, unit.key): unit for unit in Store(Path("mixed")).units()}
    for name, task in (("toy", "up"), ("pddl", "gripper")):
        assert rsso(*RUN, "--benchmark", name, "--tasks", task, "--out", name)[0] == 0
        alone = list(Store(Path(name)).units())
        assert len(alone) == 2
        for unit in alone:
            same = mixed.pop((unit.arm, unit.key))
            assert (same.trials, same.budget, same.variant) == (unit.trials, unit.budget, unit.variant)
            assert (same.provenance[PART], same.provenance["benchmark"]) == (name, "pddl,toy 1,1.0")
            assert PART not in unit.provenance
    assert not mixed

    _, _, err = rsso(*BOTH, "--benchmark", "pddl,toy", "--out", "mixed")
    assert "4 units finished, 0 to play" in err, "either order continues the run"
    for key, shown in (("up::9", TEMPLATES.splitlines()[0]), ("gripper::50", "gripper")):
        assert shown in rsso("show", "mixed", key, "--prompts", "--trial", "1")[1]
    code, out, err = rsso("reproduce", "mixed", "--run")
    assert (code, "4 of 4 records are equal" in out) == (0, True), err

    told = json.loads(rsso("report", "mixed", "--json")[1])
    assert rsso("export", "mixed", "--format", "card", "--references", "-o", "card.md")[0] == 0
    card = Path("card.md").read_text()
    assert re.search(r"\*\*: actions drawn uniformly .*: best of 2 trials [\d.]+ points.* on 1 of 2 variants; re", card)
    assert "**oracle**: gold paths within the same steps, a ceiling that no agent has seen: 100.00 points" in card
    each = {part["name"]: {row["arm"]: row["mean"] for row in part["arms"]} for part in told["benchmarks"]["each"]}
    for arm, mean in told["benchmarks"]["means"].items():
        assert mean == pytest.approx((each["toy"][arm] + each["pddl"][arm]) / 2)
    assert "benchmarks" not in json.loads(rsso("report", "toy", "--json")[1])
    out = " ".join(rsso("report", "mixed")[1].split())
    assert all(words in out for words in ("By benchmark", "Paired differences by benchmark", "as the mean of pddl and"))
    assert rsso("report", "mixed", "--html", "page.html")[0] == 0
    assert "By benchmark" in Path("page.html").read_text()
    requests = {words for unit in units_in(Path("page.html")) for words in ("add NUMBER", "gripper") if words in unit}
    assert requests == {"add NUMBER", "gripper"}


def test_a_program_and_a_constitution_are_made_on_a_mixture_and_play_there(rsso):
    small = (*MIXED, "--tasks", "up,gripper", *FAST)
    bounds = ("--optimizer", "gepa", "--compile-trials", "1", "--compile-steps", "9")
    assert rsso("compile", "--method", "react", *small, *bounds, "-o", "mine.json")[0] == 0
    made = load("mine.json")
    assert (str(made.environment), {key.partition("::")[0] for key in made.train}) == (
        "pddl,toy 1,1.0, simplification none", {"up", "gripper"}
    )  # fmt: skip
    mark_confirmed("mine.json")
    code, _, err = rsso("evaluate", "mine.json", *small, "--per-task", "1", "--trials", "2", "--out", "both")
    assert (code, "by the best of 1 trial: the report compares programs by the best of 2" in err) == (0, True), err
    told = json.loads(rsso("report", "both", "--json")[1])
    assert [part["name"] for part in told["benchmarks"]["each"]] == ["pddl", "toy"]
    assert [(each["trials"], each["pairs"]) for each in told["as_compiled"]] == [(1, 2)]
    code, _, err = rsso("evaluate", "mine.json", "--benchmark", "pddl", *small[2:])
    assert (code, "made on the benchmark pddl,toy, not on pddl" in err) == (2, True), err
    assert rsso("constitution", "build", *small, "-o", "rules.json")[0] == 0
    read = ("run", "--methods", "react", "--constitution", "rules.json", "--per-task", "1", "--dry-run")
    assert rsso(*read, *small)[0] == 0
    assert "made on the benchmark pddl,toy, not on toy" in rsso(*read, "--benchmark", "toy", "--tasks", "up", *FAST)[2]


def test_a_mixed_benchmark_asks_the_one_that_a_variant_is_of():
    mixed, toy, pddl = map(get_benchmark, ("toy, pddl", "toy", "pddl"))
    assert (mixed.name, mixed.table.tasks()) == ("pddl,toy", (*pddl.table.tasks(), *toy.table.tasks()))
    assert get_benchmark("toy,toy,") is toy
    assert mixed.table.held_out("gripper", n=3) == pddl.table.held_out("gripper", "generated", 3)
    assert [variant.key for variant in mixed.table.held_out("up", n=2)] == ["up::9", "up::10"]
    for of, key in ((toy, "up::1"), (pddl, "gripper::0")):
        variant = of.table.parse(key)
        assert mixed.find_part(variant.task) is of
        assert mixed.gold_length(variant) == of.gold_length(variant)
        assert mixed.find_gold_path(variant) == of.find_gold_path(variant)
    assert get_benchmark("babyai,pddl").examples() == (*get_benchmark("babyai").examples(), *pddl.examples())
    assert mixed.examples() == (), "of the toy there are none"
    with pytest.raises(SplitError, match="up::9"):
        mixed.find_gold_path(toy.table.parse("up::9"))
    with pytest.raises(GoldUnknown, match="goldless has no gold paths"):
        get_benchmark("goldless,pddl").find_gold_path(toy.table.parse("up::1"))


@pytest.mark.parametrize(
    ("folder", "says"),
    [
        ("some", "environment.data = some does not say whose folder it is: write NAME=DIR.* for pddl"),
        ("toy=some", "environment.data = toy=some does not say"),
        ("pddl=", "environment.data = pddl= does not say"),
        ("pddl=nowhere", "no problems of gripper"),
    ],
)
def test_a_folder_of_data_names_its_benchmark(folder, says):
    with pytest.raises(UsageError, match=says):
        get_benchmark("toy,pddl").identify_data(folder)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("run", "--benchmark", "toy,goldless"), "goldless and toy both have a task type up"),
        (("run", "--benchmark", "toy,tpy"), "unknown benchmark 'tpy'"),
        (("run", *MIXED, "--variants", "agentboard"), "selection or variant 'agentboard': known: each, first"),
        (
            (
                "compile",
                "--method",
                "react",
                "--benchmark",
                "goldless,pddl",
                "--tasks",
                "up,gripper",
                "--teacher",
                "gold",
            ),
            "goldless has no gold paths to teach from: name a backend as the teacher",
        ),
        (
            ("evaluate", "part.json", *MIXED),
            "made on the benchmark pddl, not on pddl,toy, which has other tasks, actions",
        ),
        (("evaluate", "part.json", *MIXED), "name pddl (--benchmark pddl, "),
        (("golds", "verify", *MIXED), "ships no gold lengths"),
    ],
)
def test_what_a_mixture_cannot_do_is_refused(rsso, words, says):
    Compiled.from_agent(Agent("react"), environment=CompileEnvironment("pddl", "1", "")).save("part.json")
    code, _, err = rsso(*words)
    assert (code, says in " ".join(err.split())) == (2, True), err
