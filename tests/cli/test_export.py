"""`rsso-dspy export`: what is read back is what was played."""

import sys
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from rsso_dspy.config import load_config
from rsso_dspy.pricing import itemize_costs, make_price_lookup
from rsso_dspy.records import TrainingRecord, Variant
from rsso_dspy.report import export
from rsso_dspy.report.metrics import compute_arm_metrics, group_by_arm
from rsso_dspy.store.run_folder import Store
from tests.records import record, save, trajectory

PRICED = '[prices."embedded/explorer"]\ninput = 3\noutput = 15\n'
HOSTILE = 'say "\x1b[2J\x00\N{SNOWMAN}\U0001f600,\n\ud800 end'


def training(arm: str) -> TrainingRecord:
    made = record(arm, "boil", 1, [[10], [30]])
    names = ("protocol", "arm", "method", "program", "backend", "model", "rule_based", "seed", "trials")
    return TrainingRecord(**{name: getattr(made, name) for name in names}, task="boil", budgets=(9, 9))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two arms, one of which learns; an errored unit, a training, and one unit that is not finished."""
    store = Store(tmp_path_factory.mktemp("export") / "run")
    store.open({"protocol": "sso-adapt/3"}, {"react": "1", "reflexion": "2"})
    for index, scores in ((22, [[10, 20], [30, 25]]), (27, [[5], [100]])):
        save(store, record("react", "boil", index, scores))
        save(store, record("reflexion", "boil", index, [*scores, [60]], at_reset=3))
    save(store, record("react", "freeze", 21, [[80], None]))
    save(store, training("reflexion"))
    save(store, record("reflexion", "boil", 28, [[40]]))
    save(store, record("react", "freeze", 22, [[50]]), begun=True)
    return store.folder


@pytest.fixture
def trials(rsso, folder) -> pandas.DataFrame:
    Path("rsso.toml").write_text(PRICED)
    code, out, err = rsso("export", folder, "-o", "t.parquet")
    assert (code, out, "1 unfinished left out" in err) == (0, "t.parquet: 15 trials\n", True)
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
    price_of = make_price_lookup(load_config(Path("rsso.toml")).prices)
    billed = [entry.billed for entry in itemize_costs([*Store(folder).records()], price_of)]
    assert trials.usd.sum() == pytest.approx(sum(billed))
    best = scored[(scored.arm == "reflexion") & (scored.variant == "boil::27")].best_so_far
    assert list(best) == [2, 97, 97]


def test_a_trial_has_the_texts_of_memories_that_stood_in_its_prompts(trials):
    units = trials[trials.kind == "unit"]
    assert {*units[units.arm == "reflexion"].shown} == {'{"plans_from_past_attempts": "- Look first."}'}
    assert {*units[units.arm == "react"].shown} == {"{}"}


def test_what_has_no_score_has_none(trials):
    (row,) = trials[trials.outcome == "error"].to_dict("records")
    assert (row["arm"], row["variant"], row["trial"], row["error"]) == ("react", "freeze::21", 2, "LMServerError: 500")
    for name in ("accumulator", "points_at_reset", "environment_score", "solved", "steps", "invalid", "best_so_far"):
        assert pandas.isna(row[name])
    assert row["actor_calls"] == 2, "it was paid for all the same"
    assert trials[trials.variant == "freeze::21"].unit_errored.all()


def test_steps_hold_every_word_whatever_it_is(rsso, tmp_path):
    made = record("sso", "boil", 22, [[10, -100, 20], None])
    first, *others = made.trials[0].trajectory.steps
    first = replace(first, proposed=HOSTILE, recalled=("a", "b"), subgoal=None)
    played = replace(trajectory(Variant("boil", 22), 1, [10, -100, 20]), steps=(first, *others))
    records = [replace(made, trials=(replace(made.trials[0], trajectory=played), made.trials[1]))]
    assert export.write_parquet(tmp_path / "s.parquet", "steps", records, lambda _: None) == 3
    read = pandas.read_parquet(tmp_path / "s.parquet")
    assert read.proposed[0] == 'say "�[2J�\N{SNOWMAN}\U0001f600,\n� end'
    assert list(read.recalled[0]) == ["a", "b"]
    assert pandas.isna(read.subgoal[0])
    assert (list(read.step), list(read.reward), list(read.accumulator)) == ([1, 2, 3], [10, -110, 120], [10, 10, 130])
    store = Store(tmp_path / "run")
    store.open({}, {"sso": "1"})
    save(store, made)
    assert rsso("export", "run", "--format", "steps")[1] == "run-steps.parquet: 3 steps\n"
    assert (tmp_path / "run-steps.parquet").exists()


def test_a_wrong_call_names_the_fix(rsso, folder, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    Store(tmp_path / "empty").open({}, {"sso": "1"})
    for words, said in (
        (["nowhere"], "holds no run"),
        (["empty"], "there are no trials to write: no unit is finished yet"),
        ([folder, "-o", "notes.txt"], "notes.txt exists and is not a Parquet file of rsso-dspy"),
        ([folder, "-o", tmp_path], "is not a file; name another -o"),
        ([folder, "--format", "step"], "is not one of"),
    ):
        code, _, err = rsso("export", *words)
        assert (code, said in err) == (2, True), err
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert [rsso("export", folder, "-o", "deep/t.parquet")[0] for _ in range(2)] == [0, 0]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = rsso("export", folder)
    assert (code, "pip install 'rsso-dspy[parquet]'" in err) == (2, True)


UNITS = [("boil", 1, [[10], [30]]), ("boil", 2, [[100]]), ("freeze", 3, [[40], [20]]), ("melt", 4, [[5], [5]])]


@pytest.mark.filterwarnings("ignore")
def test_inspect_reads_what_was_played(rsso, tmp_path):
    """Two arms of four units; the second is better, and errored on a fifth."""
    store = Store(tmp_path / "run")
    store.open({"protocol": "sso-adapt/3"}, {"react": "1", "reflexion": "2"})
    for task, index, trials in UNITS:
        save(store, record("react", task, index, [*trials, [1]]))
        save(store, record("reflexion", task, index, [*trials, [60 + index]]))
    save(store, record("react", "melt", 5, [[80]]))
    save(store, record("reflexion", "melt", 5, [None]))
    assert rsso("export", "run", "--format", "inspect", "-o", "logs")[:2] == (0, "logs: 2 files\n")
    logs = sorted(Path("logs").iterdir())
    assert [path.name for path in logs] == ["react.eval", "reflexion.eval"]
    reader = pytest.importorskip("inspect_ai.log", reason="inspect_ai, whose reader opens the logs, is not installed")
    for path, (arm, records) in zip(logs, group_by_arm(store.units()).items(), strict=True):
        log, whole = reader.read_eval_log(str(path)), compute_arm_metrics(arm, records)
        metrics = {score.name: score.metrics["mean"].value for score in log.results.scores}
        assert (log.status, log.eval.solver, log.eval.model) == ("success", arm, "embedded/explorer")
        assert metrics == {"best_accumulator": whole.mean, "solved": whole.solve / whole.units}
        assert "rule-based" in log.eval.metadata["note"]
    errored = next(sample for sample in reader.read_eval_log(str(logs[1])).samples if sample.error)
    assert (errored.id, errored.scores, errored.error.message) == ("melt::5", {}, "LMServerError: 500")
    first = reader.read_eval_log_sample(str(logs[0]), "boil::1", 1)
    assert [message.role for message in first.messages] == ["user", "assistant", "user"] * 3
    taught = reader.read_eval_log_sample(str(logs[1]), "boil::1", 1)
    assert [message.role for message in taught.messages] == ["system", "user", "assistant", "user"] * 3
    assert taught.messages[4].text == "Trial 2, plans_from_past_attempts:\n- Look first."
    assert [reader.read_eval_log(str(path), header_only=True).eval.task for path in logs] == [
        "scienceworld react", "scienceworld reflexion",
    ]  # fmt: skip
    assert first.model_usage["embedded/explorer"].input_tokens == 30
    assert len(reader.read_eval_log_sample_summaries(str(logs[0]))) == 5
