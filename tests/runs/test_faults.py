"""Every fault of every provider, in a run on the simulator: what passes leaves no trace but a count, what does not is
an error and never a score, and what would hit every unit stops the run."""

from collections.abc import Collection
from dataclasses import replace
from functools import cache
from itertools import count

import pytest

from rsso_dspy.errors import BackendUnreachable
from rsso_dspy.executor import FAILURES_TO_STOP, list_pending_jobs
from rsso_dspy.lm import LoggedLM
from rsso_dspy.records import UnitRecord
from rsso_dspy.report.metrics import compute_arm_metrics
from tests.live import says
from tests.provider_faults import FAULTS
from tests.provider_formats import WIRES, Said
from tests.provider_runs import KEY, STEPS, VARIABLE, files_with, run_against

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

ENGINES = ("anthropic", "litellm")
"""A provider for each engine: enough where what counts is the class of an error, which other tests establish."""
CASES = [(name, wire) for name in FAULTS for wire in WIRES]


def fated(fate: str, wires: Collection[str] = WIRES) -> pytest.MarkDecorator:
    """The cases that should end so."""
    chosen = [(name, wire) for name, wire in CASES if wire in wires and FAULTS[name].of(wire)[0] == fate]
    return pytest.mark.parametrize(("name", "wire"), chosen)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)


@pytest.fixture(scope="module")
def unharmed(tmp_path_factory):
    """Wire to the record of its first unit when nothing goes wrong."""

    @cache
    def play(wire: str) -> UnitRecord:
        with run_against(wire, tmp_path_factory.mktemp(wire)) as run:
            run.play(units=1)
            (record,) = run.records
            assert (run.served.flaws, len(run.served.requests)) == ([], STEPS)
        return record

    return play


def uncounted(record: UnitRecord) -> UnitRecord:
    """The record as it would be without its failures."""
    trials = [
        replace(each, failures={}, usage={role: replace(usage, failed=0) for role, usage in each.usage.items()})
        for each in record.trials
    ]
    return replace(record, trials=tuple(trials))


SOON = 0.4
"""Seconds after which a request that hangs is given up."""


def give_up_second_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up the second request soon. The others have all the time they need."""
    send, numbers = LoggedLM.send, count(1)

    def send_timed(self, heard, prompt, messages, kwargs):
        return send(self, heard, prompt, messages, kwargs | ({"timeout": SOON} if next(numbers) == 2 else {}))

    monkeypatch.setattr(LoggedLM, "send", send_timed)


def assert_errored(record: UnitRecord, error: str, times: int = 1) -> None:
    """Its only trial has no score, and the requests that failed so are counted."""
    (trial,) = record.trials
    assert (trial.trajectory, trial.failures, trial.usage["actor"].failed) == (None, {error: times}, times)
    assert trial.error.startswith(f"{error}: ")


@fated("recovers")
def test_what_passes_leaves_the_record_of_a_run_without_it(name, wire, tmp_path, unharmed, monkeypatch):
    if FAULTS[name].how == "hang":
        give_up_second_soon(monkeypatch)
    with run_against(wire, tmp_path, {2: name}, retries=1) as run:
        outcome = run.play(units=1)
        assert run.served.heard(STEPS + 1) == STEPS + 1, "nothing but the run itself asks again"
    (record,) = run.records
    (trial,) = record.trials
    assert (outcome.errored, trial.failures, trial.usage["actor"].failed) == ([], {FAULTS[name].of(wire)[1]: 1}, 1)
    assert uncounted(record) == unharmed(wire)


@fated("recovers", wires=ENGINES)
def test_what_may_pass_and_does_not_is_an_error_and_no_score(name, wire, tmp_path):
    soon = {"timeout": SOON} if FAULTS[name].how == "hang" else {}
    with run_against(wire, tmp_path, {0: name}, retries=1, **soon) as run:
        outcome = run.play(units=1)
        assert run.served.heard(2) == 2
    assert outcome.errored == run.records
    assert_errored(run.records[0], FAULTS[name].of(wire)[1], times=2)


@fated("error")
def test_requests_refused_for_what_they_say_never_stop_a_run_whose_model_answers(name, wire, tmp_path):
    with run_against(wire, tmp_path, dict.fromkeys((2, 4, 6), name), retries=2) as run:
        outcome = run.play(units=FAILURES_TO_STOP)
        assert len(run.served.requests) == 2 * FAILURES_TO_STOP, "they are not asked again"
    assert len(outcome.errored) == FAILURES_TO_STOP
    for record in run.records:
        assert_errored(record, FAULTS[name].of(wire)[1])


@pytest.mark.parametrize("name", ["context too long", "content policy"])
def test_the_same_refusal_of_the_very_first_request_of_three_units_stops_the_run(name, tmp_path):
    with (
        run_against("openai", tmp_path, {0: name}) as run,
        pytest.raises(BackendUnreachable, match="the backend 'mine'"),
    ):
        run.play(units=FAILURES_TO_STOP + 1)
    assert len(run.records) == FAILURES_TO_STOP


def test_refusals_of_other_kinds_do_not_add_up(tmp_path):
    faults = {1: "context too long", 2: "content policy", 3: "context too long", 4: "content policy"}
    with run_against("openai", tmp_path, faults) as run:
        assert len(run.play(units=4).errored) == 4


@fated("suspect")
def test_an_error_that_no_request_explains_is_no_score_and_the_run_goes_on(name, wire, tmp_path):
    with run_against(wire, tmp_path, {1: name}, retries=2) as run:
        run.play(units=2)
        assert len(run.served.requests) == 1 + STEPS, "it is not asked again"
    failed, fine = run.records
    assert_errored(failed, FAULTS[name].of(wire)[1])
    assert fine.trials[0].trajectory is not None


@fated("suspect", wires=ENGINES)
def test_such_errors_in_a_row_stop_the_run(name, wire, tmp_path):
    with run_against(wire, tmp_path, {0: name}) as run, pytest.raises(BackendUnreachable, match="doctor"):
        run.play(units=FAILURES_TO_STOP + 1)
    assert len(run.records) == FAILURES_TO_STOP


@fated("stops")
def test_what_would_hit_every_unit_stops_the_run_at_once(name, wire, tmp_path):
    with run_against(wire, tmp_path, {0: name}, retries=2) as run:
        with pytest.raises(BackendUnreachable) as caught:
            run.play()
        assert len(run.served.requests) == 1, "it is not asked again"
    (record,) = run.records
    error = FAULTS[name].of(wire)[1]
    assert_errored(record, error)
    assert (error in str(caught.value), KEY in str(caught.value), files_with(KEY, tmp_path)) == (True, False, [])


@fated("plays on")
def test_an_answer_without_use_is_a_step_that_does_nothing(name, wire, tmp_path):
    with run_against(wire, tmp_path, {1: name, 2: name}, ask_again=True) as run:
        run.play(units=1)
    (record,) = run.records
    (trial,) = record.trials
    usage = trial.usage["actor"]
    assert [step.malformed for step in trial.trajectory.steps] == [True] + [False] * (STEPS - 1)
    assert trial.failures == {}
    assert (usage.calls, usage.malformed, usage.failed) == (STEPS + 1, 1, 0), "asked once more in another format"
    assert usage.truncated == (2 if FAULTS[name].how == "length" else 0)


def test_a_unit_that_errored_comes_last_and_is_played_again(tmp_path):
    with run_against("openai", tmp_path, {1: "server error"}) as run:
        assert len(run.play(units=2).errored) == 1
        row = compute_arm_metrics("react", run.records)
        assert (row.units, row.errored) == (1, 1), "an error is no score"
        left = list_pending_jobs(replace(run.plan, units=run.plan.units[:3]), run.store)
        assert left == [run.plan.units[2], run.plan.units[0]]
        run.executor.run(run.plan, left[-1:], jobs=1)
    assert not any(record.has_errors for record in run.records)


def test_what_no_file_can_hold_is_replaced(tmp_path):
    said = says(thought="half: \ud83d", action="look around")
    with run_against("openai", tmp_path, answer=lambda _: Said(said, 11, 7)) as run:
        run.play(units=1)
    (record,) = run.records
    assert [step.reasoning for step in record.trajectories[0].steps] == ["half: ?"] * STEPS
    usage = record.trials[0].usage["actor"]
    assert (usage.calls, usage.input, usage.output) == (STEPS, 11 * STEPS, 7 * STEPS)
    assert not record.rule_based
    assert not files_with(KEY, tmp_path)
