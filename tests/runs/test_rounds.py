"""A run in rounds, from its announcement to each of its ends: played by the rule-based player, some of whose rules a
test replaces, so that a memory helps, or does not."""

import json
from dataclasses import replace

import pytest

import rsso_dspy
from rsso_dspy import offline
from rsso_dspy.environments import benchmark
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso
from tests.records import describe_logs
from tests.toy_benchmark import BENCHMARK, ROW

__all__ = ["rsso"]

TYPES = 8
COUNTED = [f"down-{number}" for number in range(TYPES)]
SETTINGS = ["protocol.steps=4", "memory.reflections.examples=none"]
WORDS = ("--benchmark", "counting", "--methods", "react,reflexion", "--trials", "2")


@pytest.fixture(autouse=True)
def counting(monkeypatch):
    """The toy benchmark with task types enough to decide something, six held-out variants each."""
    table = TaskTable(dict.fromkeys(COUNTED, ROW))
    made = replace(BENCHMARK, name="counting", tasks=table)
    monkeypatch.setitem(benchmark.ADDED, "counting", made)


@pytest.fixture
def learner(monkeypatch):
    """An actor that counts down in steps of one, and does nothing right before it has read a plan."""

    def act(prompt, _dice):
        right = bool(prompt.get_region("plans_from_past_attempts"))
        return {"thought": "", "action": "take 1 away" if right else "wait"}

    monkeypatch.setitem(offline.ROLES, "action", act)


@pytest.fixture
def deaf(monkeypatch):
    """An actor that solves every other variant, whatever it has read."""

    def act(prompt, _dice):
        at = prompt.get_region("task").split("from ")[-1][:1]
        return {"thought": "", "action": "take 1 away" if at == "2" else "wait"}

    monkeypatch.setitem(offline.ROLES, "action", act)


def play(out, rounds=6, **options):
    options = {"trials": 2, "benchmark": "counting", "progress": False, **options}
    return rsso_dspy.run(["react", "reflexion"], rounds=rounds, out=out, settings=SETTINGS, **options)


def count_units(out):
    return len(list(Store(out).units()))


def judge(result):
    (pair,) = result.analysis.comparisons
    return pair.verdict


@pytest.mark.usefixtures("learner")
def test_a_run_stops_after_the_round_in_which_a_memory_is_better(tmp_path):
    result = play(tmp_path / "run", until_decided=True)
    verdict = judge(result)
    (decided,) = verdict.reasons
    number = int(decided.split()[3])
    assert verdict.word == "better"
    assert decided == f"decided after round {number} of 6"
    assert number < 6
    assert count_units(tmp_path / "run") == 2 * TYPES * number
    assert result.analysis.missing_units == 0, "rounds that were not begun are not missing"
    assert "beats react on other task types" in result.headline


@pytest.mark.usefixtures("deaf")
def test_a_run_stops_once_a_gain_is_ruled_out(tmp_path):
    result = play(tmp_path / "run", until_decided=True, margin=20.0)
    assert judge(result).word in ("no gain", "no difference")
    assert judge(result).margin == 20.0, "the report's margin is the announced one"
    assert count_units(tmp_path / "run") < 2 * TYPES * 6


@pytest.mark.usefixtures("deaf")
def test_a_run_that_decides_nothing_plays_every_round(tmp_path):
    result = play(tmp_path / "run", rounds=2, until_decided=True, margin=1.0)
    assert judge(result).word == "undecided"
    assert count_units(tmp_path / "run") == 2 * TYPES * 2
    assert "rounds more" not in " ".join(judge(result).reasons)


@pytest.mark.usefixtures("learner")
def test_without_the_option_all_rounds_are_played_in_order_and_the_verdict_is_the_same(tmp_path):
    stopped, whole = play(tmp_path / "stopped", until_decided=True), play(tmp_path / "whole")
    assert judge(whole) == judge(stopped)
    assert count_units(tmp_path / "whole") == 2 * TYPES * 6
    planned = json.loads((tmp_path / "whole/run.json").read_text())["planned"]
    variants = [key.split("/")[1] for key in planned]
    rounds = json.loads((tmp_path / "whole/run.json").read_text())["rounds"]["variants"]
    assert list(dict.fromkeys(variants)) == [key for keys in rounds for key in keys]
    assert [len(keys) for keys in rounds] == [TYPES] * 6


@pytest.mark.usefixtures("learner")
@pytest.mark.parametrize("jobs", [1, 4])
def test_several_jobs_leave_the_same_folder_and_a_repeated_command_plays_nothing_more(tmp_path, jobs):
    play(tmp_path / "run", until_decided=True, jobs=jobs)
    before = describe_logs(tmp_path / "run")
    play(tmp_path / "again", until_decided=True)
    assert describe_logs(tmp_path / "again") == before
    play(tmp_path / "run", until_decided=True)
    assert describe_logs(tmp_path / "run") == before


@pytest.mark.usefixtures("learner")
def test_a_run_that_was_cut_short_goes_on_to_the_same_end(tmp_path):
    whole = play(tmp_path / "whole", until_decided=True)
    cut = play(tmp_path / "cut", until_decided=True)
    logs = sorted((tmp_path / "cut/units").rglob("*.jsonl"))
    for log in logs[::3]:
        log.unlink()
    assert judge(cut).reasons == ("no round is complete",)
    again = play(tmp_path / "cut", until_decided=True)
    assert judge(again) == judge(whole)
    assert describe_logs(tmp_path / "cut") == describe_logs(tmp_path / "whole")


@pytest.mark.usefixtures("learner")
def test_what_was_announced_stays(tmp_path):
    out = tmp_path / "run"
    play(out, rounds=3)
    for options, why in (
        ({"rounds": 4}, "was announced to have 3 rounds.*ask for --rounds 3"),
        ({"rounds": None, "per_task": 3}, "was announced to have 3 rounds"),
        ({"rounds": 3, "margin": 5.0}, "announced with a margin of 10 points"),
        ({"rounds": 3, "trials": 3}, "announced in rounds of 2 trials a variant"),
        ({"rounds": 3, "tasks": COUNTED[:7]}, "announced with other variants"),
    ):
        with pytest.raises(RunMismatch, match=why):
            play(out, **options)
    with pytest.raises(RunMismatch, match="announced to decide reflexion against react"):
        rsso_dspy.run(
            ["react", "reflexion", "last-trajectory"], rounds=3, out=out, benchmark="counting", trials=2,
            settings=SETTINGS, progress=False,
        )  # fmt: skip
    play(tmp_path / "plain", rounds=None, per_task=2)
    with pytest.raises(RunMismatch, match="was begun without rounds"):
        play(tmp_path / "plain", rounds=2)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--rounds", "7"), "down-0 has 6 held-out variants to play"),
        (("--rounds", "2", "--per-task", "2"), "leave --per-task out"),
        (("--rounds", "2", "--shard", "1/2"), "leave --shard out"),
        (("--until-decided",), "--until-decided is of a run in rounds"),
        (("--margin", "5"), "--margin is of a run in rounds"),
        (("--rounds", "2", "--methods", "react,react-sso"), "name both in --methods"),
        (("--rounds", "2", "--methods", "react,omnireflect-neural"), "hands its memory on from unit to unit"),
        (("--rounds", "2", "--variants", "down-0::9,down-0::10,down-1::9"), "down-1 has 1 held-out variant to play"),
    ],
)
def test_what_cannot_be_played_in_rounds_is_refused_before_anything_is_played(rsso, words, why):
    code, _, said = rsso("run", *WORDS, *words, "--out", "run")
    assert code == 2
    assert why in " ".join(said.split())


def test_the_plan_says_what_can_be_decided(rsso):
    code, _, said = rsso("run", *WORDS, "--rounds", "4", "--dry-run")
    assert code == 0
    assert (
        "4 rounds of 8 task types, to decide reflexion against react: better, or no gain of 10 points or more" in said
    )
    few = ("--tasks", ",".join(COUNTED[:5]))
    code, _, said = rsso("run", *WORDS, *few, "--rounds", "4", "--dry-run")
    assert (
        "no gain of 10 points or more, whenever you look between rounds; never better, which takes 6 task types" in said
    )
    code, _, said = rsso("run", *WORDS, "--tasks", COUNTED[0], "--rounds", "1", "--dry-run")
    assert "1 round of 1 task type, to decide reflexion against react: nothing can be decided, since it takes 2" in said


@pytest.mark.usefixtures("learner")
def test_the_command_says_after_each_round_where_it_stands(rsso):
    words = (
        *WORDS,
        "--rounds",
        "6",
        "--until-decided",
        *(word for setting in SETTINGS for word in ("--set", setting)),
        "--out",
        "run",
    )
    code, out, said = rsso("run", *words)
    assert code == 0
    assert "round 1 of 6: reflexion - react +" in said
    assert said.count("always valid") >= 2
    assert "decided after round" in out
    code, _, said = rsso("run", *words)
    assert "every memory is decided: no further round is played" in said
    assert "no model calls left" in said
    code, out, _ = rsso("run", "--replay", "run")
    assert code == 0
    assert "equal: " in out
    code, _, said = rsso("report", "run", "run2")
    assert code == 2
    code, _, said = rsso("report", "run", "--over", "variants")
    assert "leave --over variants out" in said


@pytest.mark.usefixtures("learner")
def test_damaged_rounds_are_named(rsso, tmp_path):
    play(tmp_path / "run", rounds=2)
    file = tmp_path / "run/run.json"
    data = json.loads(file.read_text())
    whole = data["rounds"]
    cut_short = [whole["variants"][0], whole["variants"][1][:-1]]
    for rounds in (
        {"variants": []},
        {**whole, "variants": [["down-0::9"], ["down-0::9"]]},
        {**whole, "variants": cut_short},
        {**whole, "pairs": []},
        {**whole, "margin": -1.0},
        {"margin": "x"},
        {},
    ):
        file.write_text(json.dumps({**data, "rounds": rounds}))
        code, _, said = rsso("report", "run")
        assert code == 2
        assert "its rounds cannot be read" in said
    del data["rounds"]
    file.write_text(json.dumps(data))
    code, _, said = rsso("report", "run")
    assert code == 2, "a run in rounds is not reported as one whose size nobody chose by its results"
    assert "its rounds cannot be read" in said


@pytest.mark.parametrize(("options", "why"), [({"rounds": 0}, "1 round or more"), ({"margin": 0.0}, "above 0"), ({"margin": float("nan")}, "above 0"), ({"margin": 100.5}, "100 at most")])  # fmt: skip  # noqa: E501
def test_no_round_and_no_margin_are_refused(tmp_path, options, why):
    with pytest.raises(UsageError, match=why):
        play(tmp_path / "run", **options)


@pytest.mark.usefixtures("learner")
def test_a_run_that_was_stopped_in_its_first_round_compares_nothing(tmp_path):
    result = play(tmp_path / "run", rounds=2)
    for log in sorted((tmp_path / "run/units").rglob("*.jsonl"))[1:]:
        log.unlink()
    started = rsso_dspy.open_run(tmp_path / "run", None)
    assert started.headline.count("No round is complete yet, so nothing is compared.") == 1
    assert "No two arms share" not in started.headline
    assert result.folder == started.folder


def test_a_run_in_rounds_is_reported_by_itself(tmp_path):
    play(tmp_path / "one", rounds=2)
    play(tmp_path / "other", rounds=None, per_task=1, seed=5)
    pool = rsso_dspy.api.PooledRuns([Store(tmp_path / name, read_only=True) for name in ("one", "other")])
    with pytest.raises(UsageError, match="was played in rounds, which are judged alone"):
        rsso_dspy.api.collect_played(pool)
