"""The transfer setting, and units that are continued: what a record holds does not depend on how often it was begun."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld.tasks import indices
from rsso_dspy.errors import BackendFailure
from rsso_dspy.executor import (
    Executor,
    TrialFinished,
    UnitRunner,
    fingerprint_programs,
    list_pending_jobs,
    make_zero_shot_programs,
)
from rsso_dspy.memory_files import export_library
from rsso_dspy.plan import Plan, forecast_calls, plan_held_out
from rsso_dspy.protocol import make_provenance, make_run_identity, resolve_protocol
from rsso_dspy.store.run_folder import Store, Training
from tests.live import FAST
from tests.records import describe_logs

TRANSFER = [*FAST, "protocol.setting=transfer", "protocol.train_trials=2", "protocol.train_per_task=2"]
TASKS = ["find-plant", "lifespan-longest-lived"]


@contextmanager
def run_of(live, out: Path, settings, methods, tasks=TASKS, **runtime) -> Iterator[tuple[Plan, Store, UnitRunner]]:
    config = load_config(overrides=settings)
    preset = resolve_protocol(config)
    plan = plan_held_out(config, methods, tasks, per_task=1)
    store = Store(out)
    programs = make_zero_shot_programs(plan)
    store.open(make_run_identity(config, preset), fingerprint_programs(programs))
    used = replace(live, config=config, protocol=preset, runtime=replace(live.runtime, rules=preset.rules, **runtime))
    yield plan, store, UnitRunner(used, store, programs, make_provenance(config))


class Killed(BaseException):
    """Nothing catches it."""


def play_in_two(player: UnitRunner, play: Callable[[], object], after: int) -> None:
    """Die after so many trials, then play on."""
    told = []

    def die(event):
        told.append((event.work.key, event.result.trial))
        if len(told) == after:
            raise Killed

    player.events.subscribe(TrialFinished, die)
    with pytest.raises(Killed):
        play()
    player.stop.clear()
    play()
    assert len(told) == len(set(told)), "a trial was played twice"


def check_forecast(out: Path, settings: Sequence[str], methods: Sequence[str], tasks: Sequence[str]) -> None:
    """What was spent is within the forecast, role by role."""
    forecast = forecast_calls(plan_held_out(load_config(overrides=settings), methods, tasks, per_task=1)).calls
    spent = dict.fromkeys(forecast, 0)
    for record in Store(out).records():
        for trial in record.trials:
            for role, usage in trial.usage.items():
                spent[role] += usage.calls
    assert all(0 < spent[role] <= forecast[role] for role in forecast)


@pytest.fixture(scope="module")
def whole(live, tmp_path_factory) -> Path:
    """A transfer run, played in one go."""
    out = tmp_path_factory.mktemp("transfer")
    with run_of(live, out, TRANSFER, ["react-sso", "rsso"]) as (plan, store, player):
        outcome = Executor(player).run(plan, list_pending_jobs(plan, store), jobs=1)
    assert not outcome.errored
    assert not outcome.untrained
    return out


def test_memories_learn_on_training_variants_and_on_nothing_else(whole):
    trainings = list(Store(whole).trainings())
    assert [unit.start for unit in Store(whole).units() if unit.arm == "react-sso"] == ["", ""]
    assert [(training.arm, training.task) for training in trainings] == [("rsso", task) for task in TASKS]
    for training in trainings:
        met = [trajectory.variant for trajectory in training.trajectories]
        assert met[:2] == met[2:]
        assert all(variant.index in indices(training.task, "train") for variant in met)
        assert all("skills" in trial.learnt for trial in training.trials)
        assert [trajectory.trial for trajectory in training.trajectories] == [1, 2, 3, 4]
    check_forecast(whole, TRANSFER, ["react-sso", "rsso"], TASKS)


def test_a_held_out_variant_gets_one_trial_that_reads_the_memories_and_writes_none(whole):
    learnt = {training.task: training.memories for training in Store(whole).trainings()}
    units = [unit for unit in Store(whole).units() if unit.arm == "rsso"]
    for unit in units:
        (trial,), before = unit.trials, learnt[unit.variant.task]
        assert (unit.start, trial.learnt, unit.memories) == (f"training on {unit.variant.task}", {}, {})
        library, _ = export_library(whole, unit.variant.task, "rsso")
        assert library.snapshot == before["skills"]
        assert set(library.provenance["variants"]) == set(unit.learnt_on) != {unit.key}
        known = {skill["id"] for skill in before["skills"]["skills"]}
        assert {name for step in unit.trajectories[0].steps for name in step.recalled} <= known
        shown = trial.shown.get("plans_from_past_attempts", "")
        assert all(entry["plan"].replace("\n", "\n  ") in shown for entry in before["reflections"]["plans"])
    assert any(step.recalled for unit in units for step in unit.trajectories[0].steps)


def test_a_held_out_variant_is_told_that_plans_are_of_other_tasks(whole):
    """rSSO 2.1: in transfer, memories come from training variants, and no prompt calls those this task."""
    units = [unit for unit in Store(whole).units() if unit.arm == "rsso"]
    plans = [unit.trials[0].shown.get("plans_from_past_attempts", "") for unit in units]
    assert any(plans)
    for unit, shown in zip(units, plans, strict=True):
        assert "at this task" not in shown
        assert shown.count("Attempt ") == shown.count(f" at another task ({unit.variant.task})")


def test_a_training_goes_on_after_its_last_finished_episode(live, whole, tmp_path):
    with run_of(live, tmp_path, TRANSFER, ["rsso"], TASKS[:1]) as (plan, _, player):
        play_in_two(player, lambda: player.run_job(plan, plan.trainings[0]), after=3)
    assert describe_logs(tmp_path).items() <= describe_logs(whole).items()


def test_an_errored_training_keeps_its_units_waiting_and_goes_on_from_its_last_good_episode(live, whole, tmp_path):
    def lm(role, rollout):
        if rollout == 3 and dead:
            raise BackendFailure("the server is gone")
        return live.backend.lm(role, rollout)

    with run_of(live, tmp_path, TRANSFER, ["rsso"], TASKS[:1], lm=lm) as (plan, store, player):
        dead = True
        outcome = Executor(player).run(plan, list_pending_jobs(plan, store), jobs=1)
        (errored,) = outcome.errored
        assert (errored.key, outcome.untrained) == ("find-plant", list(plan.units))
        assert [trial.trajectory is None for trial in errored.trials] == [False, False, True]
        left = list_pending_jobs(plan, store)
        assert isinstance(left[0], Training)
        dead = False
        again = Executor(player).run(plan, left, jobs=1)
        assert (again.played, again.errored, again.untrained) == (2, [], [])
    assert describe_logs(tmp_path).items() <= describe_logs(whole).items()


def test_a_task_with_few_training_variants_plays_all_and_says_so():
    said = []
    config = load_config(overrides=["protocol.setting=transfer", "protocol.train_trials=1"])
    plan = plan_held_out(config, ["sso"], ["identify-life-stages-2"], per_task=1, say=said.append)
    assert len(plan.trainings[0].episodes) == 4
    assert "fewer than the requested 10" in said[0]
