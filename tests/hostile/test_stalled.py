"""A simulator that stands still: its trial has a score and is never passed over in silence, and can be played again."""

import json
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld import ScienceWorld
from rsso_dspy.plan import plan_held_out
from rsso_dspy.records import TrainingRecord, Trajectory, UnitRecord, Usage
from rsso_dspy.runs import list_stalled_jobs, void_stalled_trials
from rsso_dspy.store.run_folder import Store, find_logs
from tests.cli.conftest import FAST, at_hand, rsso  # noqa: F401
from tests.environments.frozen import freeze
from tests.records import record, save

ARMS = "react-sso,rsso"
ASKED: tuple[str, ...] = ("run", "--methods", ARMS, "--tasks", "lifespan-longest-lived", "--per-task", "1", *FAST)
ASKED += ("--trials", "2", "--set", "protocol.stop_on_success=false", "--out", "played")
ASKED += ("--set", "protocol.learn_after_success=false")  # a trial that stalled has solved nothing

STALLED = {"react-sso": 1, "rsso": 2}
"""Arm to the trial that stalls. Nothing is learnt from a last trial, so that what rsso knew before it is kept."""


def halted(made: UnitRecord, number: int) -> UnitRecord:
    """The same unit, a trial of which stalled at its last step: nobody saw what that came to."""
    trials = [
        replace(trial, trajectory=cut_short(trial.trajectory)) if trial.trial == number else trial
        for trial in made.trials
    ]
    return replace(made, trials=tuple(trials))


def cut_short(played: Trajectory | None) -> Trajectory:
    assert played is not None
    *before, last = played.steps
    score = before[-1].score if before else played.points_at_reset
    return replace(played, steps=(*before, replace(last, reward=0, score=score)), outcome="stalled")


def seconds(store: Store) -> list[str]:
    """Unit and trial of everything that was played, in order."""
    texts = {path.parts[-3]: path.read_text() for path in find_logs(store.folder / "units")}
    lines = [(arm, json.loads(line)) for arm, text in texts.items() for line in text.splitlines()]
    ended = sorted((line["time"], f"{arm} {line['trial']}") for arm, line in lines if "time" in line)
    return [trial for _, trial in ended]


@pytest.mark.usefixtures("at_hand")
def test_a_stalled_trial_is_told_and_played_again_to_the_record_of_a_run_without_one(rsso):  # noqa: F811
    assert rsso(*ASKED)[0] == 0
    store = Store(Path("played"))
    before = {made.arm: made for made in store.units()}
    for arm, number in STALLED.items():
        save(store, halted(before[arm], number))

    code, out, err = rsso(*ASKED)
    assert code == 1, "as with errors"
    assert "2 trials stalled: a step took longer than environment.step_seconds" in err
    assert "add --retry stalled to play their units again" in err
    assert "Stalled: react-sso 1 of 2 trials, rsso 1 of 2 trials." in " ".join(out.split())
    code, _, err = rsso(*ASKED, "--retry", "stalled", "--dry-run")
    assert (code, store.read_abandoned()) == (0, [])
    assert "0 units finished, 2 to play" in err
    played = seconds(store)

    assert rsso(*ASKED, "--retry", "stalled")[0] == 0
    assert {made.arm: made for made in store.units()} == before
    again = ["react-sso 1", "react-sso 2", "rsso 2"]
    assert seconds(store)[len(played) :] == again
    lost: dict[str, Usage] = {}
    for arm, _, usage in store.read_abandoned():
        lost[arm] = lost.get(arm, Usage()) + usage
    for arm, first in STALLED.items():
        given_up = [usage for trial in before[arm].trials[first - 1 :] for usage in trial.usage.values()]
        assert lost[arm] == sum(given_up, Usage()), "what was given up stays in the bill"
    assert rsso(*ASKED, "--retry", "stalled")[0] == 0, "there is nothing left to play again"
    assert seconds(store)[len(played) :] == again


@pytest.mark.usefixtures("at_hand")
def test_a_simulator_that_is_paused_is_told(rsso, env: ScienceWorld, monkeypatch):  # noqa: F811
    step = env.step

    def paused(action: str):
        freeze(env._require_jvm().pid)
        with monkeypatch.context() as short:
            short.setattr(env, "_step_limit", 0.3)
            return step(action)

    monkeypatch.setattr(env, "step", paused)
    asked = ["react-sso" if word == ARMS else "1" if word == "2" else word for word in ASKED]
    code, out, err = rsso(*asked)
    assert code == 1
    assert "lifespan-longest-lived::" in err
    assert ", trial 1 stalled" in err
    assert "Stalled: react-sso 1 of 1 trials." in " ".join(out.split())
    monkeypatch.setattr(env, "step", step)
    assert rsso(*asked, "--retry", "stalled")[0] == 0


def test_report_page_and_export_tell_of_stalled_trials_only_where_there_are_some(rsso):  # noqa: F811
    for name in ("sound", "some"):
        store = Store(Path(name))
        store.open({}, {"sso": "1", "rsso": "2"})
        for arm in ("sso", "rsso"):
            made = record(arm, "boil", 1, [[10], [40], [20]])
            save(store, halted(made, 2) if (name, arm) == ("some", "rsso") else made)
    note = "Stalled: rsso 1 of 3 trials. A step of these trials took longer than environment.step_seconds."
    for name, there in (("sound", False), ("some", True)):
        assert (note in " ".join(rsso("report", name)[1].split())) == there
        assert [row["stalled"] for row in json.loads(rsso("report", name, "--json")[1])["arms"]][1] == there
        assert rsso("report", name, "--html", f"{name}.html", "--tables", f"{name}-tables")[0] == 0
        assert (note in Path(f"{name}.html").read_text(encoding="utf-8")) == there
        assert (note in Path(f"{name}-tables", "methods.md").read_text(encoding="utf-8")) == there
        assert rsso("export", name, "-o", f"{name}.parquet")[0] == 0
        rows = pandas.read_parquet(f"{name}.parquet")
        assert list(rows[rows.arm == "rsso"].unit_stalled) == [int(there)] * 3
        assert list(rows[rows.outcome == "stalled"].trial) == [2] * there
        assert list(rows[rows.arm == "sso"].unit_stalled) == [0] * 3


def test_what_cannot_be_retried_is_refused_before_anything(rsso):  # noqa: F811
    code, _, err = rsso(*ASKED, "--retry", "stale")
    assert (code, Path("played").exists()) == (2, False)
    assert "did you mean stalled?" in err


LEARNT = {"skills": {"written": 1}}
CASES = {
    "the first trial": ([1], {}, 0),
    "a later trial, nothing learnt since": ([3], {}, 2),
    "two trials": ([2, 3], {}, 1),
    "learnt from": ([2], {2: LEARNT}, 0),
    "learnt from a trial after it": ([1], {2: LEARNT}, 0),
    "learnt from trials before it alone": ([3], {1: LEARNT, 2: LEARNT}, 2),
}
"""Which trials stalled, what memories learnt after which, and how many trials stand."""


@pytest.mark.parametrize("state", ["finished", "begun", "errored"])
@pytest.mark.parametrize("case", CASES)
def test_trials_before_a_stalled_one_stand_where_no_memory_learnt_since(tmp_path, case, state):
    numbers, learnt, standing = CASES[case]
    plan = plan_held_out(load_config(), ["sso"], ["boil"], ["boil::22", "boil::27"])
    store = Store(tmp_path)
    store.open({}, {"sso": "1"})
    made = record("sso", "boil", 22, [[10], [20], [30]], allowed=3)
    for number in numbers:
        made = halted(made, number)
    trials = tuple(replace(trial, learnt=learnt.get(trial.trial, {})) for trial in made.trials)
    made = replace(made, trials=trials, memories={"reflections": {"plans": [{"trial": 1, "plan": "Look."}]}})
    failed = replace(record("sso", "boil", 22, [None]).trials[0], trial=4)
    if state == "finished":
        save(store, made)
    else:
        save(store, made, begun=True)
    if state == "errored":
        save(store, replace(made, trials=(*trials, failed)))
    sound = record("sso", "boil", 27, [[10], [20]])
    save(store, sound)

    assert [work.name for work in list_stalled_jobs(plan, store)] == ["boil::22"]
    void_stalled_trials(plan, store)
    assert list(store.units()) == [sound]
    left = [(each.trials, each.memories) for each in store.load_begun()]
    assert left == ([(made.trials[:standing], made.memories)] if standing else [])
    spent = Usage(calls=2, input=10, output=3)
    given_up = [spent] * (3 + (state == "errored") - standing)
    assert [usage for _, _, usage in store.read_abandoned()] == [sum(given_up, Usage())]
    assert list_stalled_jobs(plan, store) == []


def test_units_after_a_stalled_training_are_played_again(tmp_path):
    settings = ["protocol.setting=transfer", "protocol.train_trials=1", "protocol.train_per_task=2"]
    plan = plan_held_out(load_config(overrides=settings), ["rsso"], ["boil", "freeze"], per_task=1)
    store = Store(tmp_path)
    store.open({}, {"rsso": "1"})
    for unit in plan.units:
        save(store, record("rsso", unit.variant.task, unit.variant.index, [[10]]))
    for training in plan.trainings:
        made = record("rsso", training.task, 1, [[10], [20]])
        made = halted(made, 2) if training.task == "boil" else made
        shared = {name: getattr(made, name) for name in ("protocol", "arm", "method", "program", "backend", "model")}
        save(
            store,
            TrainingRecord(
                **shared, rule_based=True, seed=0, trials=made.trials, task=training.task, budgets=training.budgets
            ),
        )
    assert [work.key.split("/")[1] for work in list_stalled_jobs(plan, store)] == [
        "boil (training)",
        next(unit.name for unit in plan.units if unit.variant.task == "boil"),
    ]
    void_stalled_trials(plan, store)
    assert [unit.variant.task for unit in store.units()] == ["freeze"]
    assert [training.task for training in store.trainings()] == ["freeze"]
