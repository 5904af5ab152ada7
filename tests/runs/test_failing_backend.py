"""Errors are not scores: what a failing provider does to a run; `test_faults.py` has every fault."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.executor import Executor, UnitRunner, list_pending_jobs, make_zero_shot_programs
from rsso_dspy.plan import plan_held_out
from rsso_dspy.protocol import make_provenance, make_run_identity
from rsso_dspy.report.metrics import compute_arm_metrics
from rsso_dspy.sessions import session
from rsso_dspy.store.run_folder import Store
from tests.live import says
from tests.provider_server import completion, provider

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

LOOK = completion(says(thought="hm", action="look around"))
VARIANTS = [
    "lifespan-longest-lived::98",
    "lifespan-longest-lived::111",
    "find-plant::229",
    "find-plant::228",
    "boil::22",
]


@contextmanager
def run_against(answer, out: Path, monkeypatch) -> Iterator[tuple]:
    monkeypatch.setenv("TEST_PROVIDER_KEY", "sk-planted-secret")
    with provider(answer) as served:
        table = {
            "model": '"openai/m"',
            "base_url": f'"{served.url}"',
            "key_variable": '"TEST_PROVIDER_KEY"',
            "retries": "0",
        }
        overrides = [f"backends.mine.{key}={value}" for key, value in table.items()]
        config = load_config(overrides=["backend=mine", "protocol.trials=1", "embedder.model=hash", *overrides])
        plan = plan_held_out(config, ["react"], variants=VARIANTS)
        with session(config) as live:
            store = Store(out)
            store.open(make_run_identity(config, live.protocol))
            executor = Executor(UnitRunner(live, store, make_zero_shot_programs(plan), make_provenance(config)))
            yield plan, store, executor, served


def test_a_unit_that_meets_a_server_error_has_no_score_and_is_played_again(tmp_path, monkeypatch):
    calls = 0

    def answer(_):
        nonlocal calls
        calls += 1
        return (500, {"error": {"message": "oops"}}) if calls == 3 else LOOK

    with run_against(answer, tmp_path, monkeypatch) as (plan, store, executor, _):
        outcome = executor.run(plan, plan.units[:2], jobs=1)
        assert (outcome.played, len(outcome.errored)) == (2, 1)
        records = list(store.units())
        row = compute_arm_metrics("react", records)
        assert (row.units, row.errored) == (1, 1)
        failed = next(record for record in records if record.has_errors)
        assert failed.trials[0].trajectory is None
        assert "LM" in failed.trials[0].error
        left = list_pending_jobs(plan, store)
        assert left[-1] == plan.units[0], "what errored comes last, so that it keeps nothing from being played"
        executor.run(plan, left[-1:], jobs=1)
        assert not any(record.has_errors for record in store.units())


def test_a_model_none_of_whose_answers_can_be_read_has_no_score(tmp_path, monkeypatch):
    with run_against(lambda _: completion("I would rather chat."), tmp_path, monkeypatch) as (plan, store, executor, _):
        executor.run(plan, plan.units[:1], jobs=1)
        (record,) = store.units()
        assert record.has_errors
        assert "could be read" in record.trials[0].error


def test_characters_that_no_file_can_hold_are_replaced(tmp_path, monkeypatch):
    odd = completion(says(thought="half an emoji: \ud83d", action="look around"))
    with run_against(lambda _: odd, tmp_path, monkeypatch) as (plan, store, executor, _):
        executor.run(plan, plan.units[:1], jobs=1)
        (record,) = store.units()
        assert not record.has_errors
        assert record.trajectories[0].steps[0].reasoning == "half an emoji: ?"


def test_the_ledger_holds_the_providers_own_counts_and_the_key_is_in_no_file(tmp_path, monkeypatch):
    with run_against(lambda _: LOOK, tmp_path, monkeypatch) as (plan, store, executor, served):
        executor.run(plan, plan.units[:1], jobs=1)
        (record,) = store.units()
        usage = record.trials[0].usage["actor"]
        steps = len(record.trials[0].trajectory.steps)
        assert (usage.calls, usage.input, usage.output) == (steps, 11 * steps, 7 * steps)
        assert len(served.requests) == steps
        assert not record.rule_based
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or b"sk-planted-secret" not in file.read_bytes()
