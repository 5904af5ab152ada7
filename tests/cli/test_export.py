"""`rsso-dspy export`: what is read back is what was played."""

import sys
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from rsso_dspy.config import load_config
from rsso_dspy.pricing import itemize_costs, make_price_lookup
from rsso_dspy.records import Source, TrainingRecord, TrialResult, Variant
from rsso_dspy.report import frame
from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
from rsso_dspy.store.run_folder import Store
from tests.records import record, save, trajectory

PRICED = '[prices."embedded/explorer"]\ninput = 3\noutput = 15\n'
HOSTILE = 'say "\x1b[2J\x00\N{SNOWMAN}\U0001f600,\n\ud800 end'


def training(arm: str, held: int) -> TrainingRecord:
    made = record(arm, "boil", 1, [[10], [30]])
    fields = {name: getattr(made, name) for name in ("protocol", "arm", "method", "program", "backend", "model")}
    plans = {"reflections": {"plans": [{"trial": n, "plan": "x"} for n in range(held)]}}
    return TrainingRecord(
        **fields, rule_based=True, seed=0, trials=made.trials, memories=plans, task="boil", budgets=(9, 9)
    )


def learnt(trial: TrialResult, held: int) -> TrialResult:
    return replace(trial, learnt={"plans_from_past_attempts": {"held": held}})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two arms, one of which learns; an errored unit, a training, and one unit that is not finished."""
    store = Store(tmp_path_factory.mktemp("export") / "run")
    store.open({"protocol": "sso-adapt/2"}, {"react": "1", "reflexion": "2"})
    for index, scores in ((22, [[10, 20], [30, 25]]), (27, [[5], [100]])):
        save(store, record("react", "boil", index, scores))
        made = record("reflexion", "boil", index, [*scores, [60]], at_reset=3)
        trials = (learnt(made.trials[0], 1), learnt(made.trials[1], 2), made.trials[2])
        memories = {"reflections": {"plans": [{"trial": 1, "plan": HOSTILE[:5]}]}}
        save(store, replace(made, trials=trials, memories=memories))
    save(store, record("react", "freeze", 21, [[80], None]))
    save(store, training("reflexion", 2))
    learned = Source("reflections", "training", "boil", size=2)
    save(store, replace(record("reflexion", "boil", 28, [[40]]), start="training on boil", sources=(learned,)))
    save(store, record("react", "freeze", 22, [[50]]), begun=True)
    return store.folder


def test_runs_of_several_seeds_are_one_file(rsso, folder):
    other = Store(Path("other"))
    other.open({"protocol": "sso-adapt/2"}, {"react": "1"})
    save(other, record("react", "boil", 22, [[10, 20], [30, 25]], seed=1))
    code, out, _ = rsso("export", folder, "other", "-o", "t.parquet")
    assert (code, out) == (0, "t.parquet: 17 trials\n")
    rows = pandas.read_parquet("t.parquet")
    assert list(rows[(rows.arm == "react") & (rows.variant == "boil::22")].seed) == [0, 0, 1, 1]
    save(other, record("react", "boil", 22, [[10]]))
    code, _, err = rsso("export", folder, "other", "-o", "t.parquet")
    assert code == 2
    assert f"{folder} and other both hold units/react/boil/22-s0; drop one of them" in err
    assert len(pandas.read_parquet("t.parquet")) == 17


@pytest.fixture
def trials(rsso, folder) -> pandas.DataFrame:
    Path("rsso.toml").write_text(PRICED)
    code, out, err = rsso("export", folder, "-o", "t.parquet")
    assert (code, out) == (0, "t.parquet: 15 trials\n")
    assert "1 unfinished left out" in err
    return pandas.read_parquet("t.parquet")


def test_the_numbers_are_those_of_the_report(trials, folder):
    scored = trials[(trials.kind == "unit") & ~trials.unit_errored]
    units = scored.groupby(["arm", "variant", "seed"])
    for arm, records in group_by_arm(Store(folder).units()).items():
        theirs = compute_arm_metrics(arm, records)
        ours = units.agg({"accumulator": ["max", "mean", "first"], "environment_score": "max", "solved": "max"})
        ours = ours.loc[arm]
        assert ours["accumulator", "max"].mean() == theirs.mean
        assert ours["accumulator", "mean"].mean() == theirs.mean_over_trials
        assert ours["accumulator", "first"].mean() == theirs.trial_1
        assert ours["environment_score", "max"].mean() == theirs.environment_score
        assert ours["solved", "max"].sum() == theirs.solve
        assert scored[scored.arm == arm].steps.sum() == theirs.steps
        whole = trials[(trials.arm == arm) & (trials.kind == "unit")]
        assert whole.actor_input.sum() == whole.tokens_in.sum() == theirs.tokens["actor"].input
    store = Store(folder)
    price_of = make_price_lookup(load_config(Path("rsso.toml")).prices)
    billed = [entry.billed for entry in itemize_costs([*store.units(), *store.trainings()], price_of)]
    assert trials.usd.sum() == pytest.approx(sum(billed))
    best = scored[(scored.arm == "reflexion") & (scored.variant == "boil::27")].best_so_far
    assert list(best) == [2, 97, 97]


def test_what_has_no_score_has_none(trials):
    errored = trials[trials.outcome == "error"]
    (row,) = errored.to_dict("records")
    assert (row["arm"], row["variant"], row["trial"], row["error"]) == ("react", "freeze::21", 2, "LMServerError: 500")
    for name in ("accumulator", "points_at_reset", "environment_score", "solved", "steps", "invalid", "best_so_far"):
        assert pandas.isna(row[name])
    assert row["actor_calls"] == 2, "it was paid for all the same"
    assert trials[trials.variant == "freeze::21"].unit_errored.all()


def test_steps_hold_every_word_whatever_it_is(rsso, tmp_path):
    store = Store(tmp_path / "run")
    store.open({}, {"sso": "1"})
    made = record("sso", "boil", 22, [[10, -100, 20], None])
    step = replace(made.trials[0].trajectory.steps[0], proposed=HOSTILE, recalled=("a", "b"), subgoal=None)
    played = replace(trajectory(Variant("boil", 22), 1, [10, -100, 20]), steps=())
    played = replace(played, steps=(step, *made.trials[0].trajectory.steps[1:]))
    records = [replace(made, trials=(replace(made.trials[0], trajectory=played), made.trials[1]))]
    assert frame.write_parquet(tmp_path / "s.parquet", "steps", records, lambda _: None) == 3
    read = pandas.read_parquet(tmp_path / "s.parquet")
    assert read.proposed[0] == HOSTILE.replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    assert list(read.recalled[0]) == ["a", "b"]
    assert pandas.isna(read.subgoal[0])
    assert list(read.step) == [1, 2, 3]
    assert list(read.reward) == [10, -110, 120]
    assert list(read.accumulator) == [10, 10, 130]
    save(store, made)
    assert rsso("export", "run", "--format", "steps")[1] == "run-steps.parquet: 3 steps\n"
    assert (tmp_path / "run-steps.parquet").exists()


def test_a_wrong_call_names_the_fix(rsso, folder, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    empty = Store(tmp_path / "empty")
    empty.open({}, {"sso": "1"})
    for words, said in (
        (["nowhere"], "holds no run"),
        (["empty"], "there are no trials to write: no unit is finished yet"),
        ([folder, "-o", "notes.txt"], "notes.txt exists and is not a Parquet file of rsso-dspy"),
        ([folder, "-o", tmp_path], "is a folder; name a file"),
        ([folder, "--format", "step"], "is not one of"),
    ):
        code, _, err = rsso("export", *words)
        assert code == 2
        assert said in err
    assert (tmp_path / "notes.txt").read_text() == "mine"
    for _ in range(2):
        assert rsso("export", folder, "-o", "deep/t.parquet")[0] == 0
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = rsso("export", folder)
    assert code == 2
    assert "pip install 'rsso-dspy[parquet]'" in err


UNITS = [("boil", 1, [[10], [30]]), ("boil", 2, [[100]]), ("freeze", 3, [[40], [20]]), ("melt", 4, [[5], [5]])]
NEEDED = "inspect_ai is not installed: its reader opens no log here (pip install inspect_ai)"


@pytest.fixture(scope="module")
def inspected(tmp_path_factory) -> Path:
    """Two arms of four units; the second is better, and errored on a fifth."""
    store = Store(tmp_path_factory.mktemp("inspect") / "run")
    store.open({"protocol": "sso-adapt/2"}, {"react": "1", "reflexion": "2"})
    for task, index, trials in UNITS:
        save(store, record("react", task, index, [*trials, [1]]))
        save(store, record("reflexion", task, index, [*trials, [60 + index]]))
    save(store, record("react", "melt", 5, [[80]]))
    save(store, record("reflexion", "melt", 5, [None]))
    return store.folder


@pytest.fixture
def logs(rsso, inspected) -> list[Path]:
    code, out, _ = rsso("export", inspected, "--format", "inspect", "-o", "logs")
    assert (code, out) == (0, "logs: 2 files\n")
    found = sorted(Path("logs").iterdir())
    assert [path.name for path in found] == ["react.eval", "reflexion.eval"]
    return found


@pytest.mark.filterwarnings("ignore")
def test_inspect_reads_what_was_played(logs, inspected):
    reader = pytest.importorskip("inspect_ai.log", reason=NEEDED)
    arms = group_by_arm(Store(inspected).units())
    for path, arm in zip(logs, ("react", "reflexion"), strict=True):
        log = reader.read_eval_log(str(path))
        metrics = {score.name: score.metrics["mean"].value for score in log.results.scores}
        whole = compute_arm_metrics(arm, arms[arm])
        assert (log.status, log.eval.solver, log.eval.model) == ("success", arm, "embedded/explorer")
        assert metrics == {"best_accumulator": whole.mean, "solved": whole.solve / whole.units}
        assert "rule-based" in log.eval.metadata["note"]
    errored = next(sample for sample in reader.read_eval_log(str(logs[1])).samples if sample.error)
    assert (errored.id, errored.scores, errored.error.message) == ("melt::5", {}, "LMServerError: 500")
    first = reader.read_eval_log_sample(str(logs[0]), "boil::1", 1)
    assert [message.role for message in first.messages] == ["user", "assistant", "user"] * 3
    assert first.model_usage["embedded/explorer"].input_tokens == 30
    assert len(reader.read_eval_log_sample_summaries(str(logs[0]))) == 5
