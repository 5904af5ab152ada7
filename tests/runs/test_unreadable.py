"""An answer that cannot be read is the model's, and scores as what it is: a step that does nothing. Where none of the
first twenty can be read, a run stops, and what they scored is no score."""

from dataclasses import replace

import pytest

from rsso_dspy.errors import UnreadableAnswers
from rsso_dspy.executor import FormatCheck
from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import Variant
from rsso_dspy.report.analysis import analyze
from rsso_dspy.report.tables import write_headline
from rsso_dspy.store.run_folder import Arm, Unit
from tests.live import says
from tests.provider_formats import Said
from tests.provider_runs import KEY, STEPS, VARIABLE, Run, run_against

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

CHAT = Said("I would rather chat.", 11, 7)
ACT = Said(says(action="look around"), 11, 7)


@pytest.fixture(autouse=True)
def _key(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)


def answer_by_number(readable):
    """An answer that says an action if `readable` says so of its number, from 1."""
    count = 0

    def answer(_body):
        nonlocal count
        count += 1
        return ACT if readable(count) else CHAT

    return answer


def play_units(run: Run, count: int, steps: int, jobs: int = 1):
    """Units that differ in their seed alone."""
    units = tuple(replace(run.plan.units[0], seed=seed, budget=steps) for seed in range(count))
    run.plan = replace(run.plan, units=units)
    return run.executor.run(run.plan, units, jobs=jobs)


def test_a_single_answer_that_cannot_be_read_is_a_score(tmp_path):
    """In question answering a trial is one answer: the worst ones would leave the mean, were they errors."""
    with run_against(
        "openai", tmp_path, answer=answer_by_number(lambda number: number % 2 == 0), ask_again=False
    ) as run:
        outcome = play_units(run, count=4, steps=1)

    assert not outcome.errored
    steps = [record.trajectories[0].steps[0] for record in run.records]
    assert [step.malformed for step in steps] == [True, False, True, False]
    assert [record.trajectories[0].accumulator for record in run.records] == [0, 0, 0, 0]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_stops_at_the_twentieth_answer_if_none_could_be_read(tmp_path, jobs):
    with run_against("openai", tmp_path, answer=lambda _: CHAT, ask_again=False) as run:
        with pytest.raises(UnreadableAnswers) as stopped:
            play_units(run, count=40, steps=1, jobs=jobs)

        asked = len(run.served.requests)
        assert 20 <= asked <= 20 + jobs
        failed = [record for record in run.records if record.has_errors]
        assert len(failed) == 20, "the units of the first twenty answers"
        why = "none of the first 20 answers of openai/gpt-4.1-mini could be read"
        assert {record.trials[-1].failure.message for record in failed} == {why}

    assert "I would rather chat." in str(stopped.value)
    assert "backends.mine.adapter=json" in str(stopped.value)


def test_answers_that_were_asked_again_count_each(tmp_path):
    with run_against("openai", tmp_path, answer=lambda _: CHAT) as run, pytest.raises(UnreadableAnswers):
        play_units(run, count=20, steps=4)
    assert len(run.served.requests) == 20


def test_units_that_had_become_errors_are_played_again(tmp_path):
    with run_against("openai", tmp_path, answer=answer_by_number(lambda number: number > 20), ask_again=False) as run:
        with pytest.raises(UnreadableAnswers):
            play_units(run, count=10, steps=STEPS)
        run.executor.player.stop.clear()

        outcome = play_units(run, count=10, steps=STEPS)

    assert (outcome.played, outcome.errored) == (10, [])
    assert not any(step.malformed for record in run.records for step in record.trajectories[0].steps)


def test_one_readable_answer_among_the_first_twenty_lets_a_run_go_on(tmp_path):
    with run_against("openai", tmp_path, answer=answer_by_number(lambda number: number == 20), ask_again=False) as run:
        outcome = play_units(run, count=30, steps=1)
    assert (outcome.played, outcome.errored) == (30, [])


def test_answers_of_an_earlier_command_come_first(tmp_path):
    with run_against("openai", tmp_path, answer=lambda _: CHAT, ask_again=False) as run:
        play_units(run, count=12, steps=1)
        units = tuple(replace(run.plan.units[0], seed=seed) for seed in range(40))
        with pytest.raises(UnreadableAnswers):
            run.executor.run(replace(run.plan, units=units), units[12:], jobs=1)
        assert len(run.served.requests) == 20
        assert sum(record.has_errors for record in run.records) == 20


def test_the_first_answers_are_those_of_the_first_jobs_of_the_plan():
    """A later job that was quicker neither stops a run nor lets it pass before the first ones are heard."""
    arm, variant = Arm(get_method("react")), Variant("gripper", 50)
    first, second = Unit(arm, variant, 0, 9), Unit(arm, variant, 1, 9)
    check = FormatCheck([first, second])
    check.hear(second, 25, False)
    assert not check.find_unreadable()
    check.hear(first, 19, False)
    assert not check.find_unreadable()
    check.finish(first)
    assert check.find_unreadable() == [first, second]
    check.hear(second, 1, True)
    assert not check.find_unreadable()


def test_a_report_warns_of_an_arm_of_which_no_answer_could_be_read(tmp_path):
    with run_against("openai", tmp_path, answer=lambda _: CHAT, ask_again=False) as run:
        play_units(run, count=3, steps=2)
        warning = "WARNING: react is scored for doing nothing: none of the actor's answers at 6 steps could be read."
        assert warning in write_headline(analyze(run.records))


def test_no_warning_where_any_answer_could_be_read(tmp_path):
    with run_against("openai", tmp_path, answer=answer_by_number(lambda number: number == 5), ask_again=False) as run:
        play_units(run, count=3, steps=2)
        assert "WARNING" not in write_headline(analyze(run.records))
