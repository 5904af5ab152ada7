from dataclasses import replace

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.fork import find_reusable_records
from rsso_dspy.experiment.plan import plan_held_out
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.experiment.provenance import make_run_identity
from rsso_dspy.records import TrainingRecord
from rsso_dspy.store.unit_store import Store
from tests.records import record

METHODS = ["react-sso", "reflexion-sso", "sso", "rsso"]
KEPT = "lifespan-longest-lived"
PROGRAMS = dict.fromkeys(METHODS, "p")


def run_of(folder, *settings, trials=((10, 20), (30,)), programs=PROGRAMS):
    """A finished run on one variant, by hand; its plan."""
    config = load_config(overrides=["protocol.trials=2", *settings])
    plan = plan_held_out(config, METHODS, [KEPT], per_task=1)
    store = Store(folder)
    store.open(make_run_identity(config, resolve_protocol(config)), programs)
    for unit in plan.units:
        made = record(unit.arm.name, KEPT, unit.variant.index, trials)
        made = replace(made, protocol=plan.protocol, provenance={"commit": "c"})
        store.save(replace(made, budget=unit.budget, variant=unit.variant))
    return store


def taken(store, *settings, methods=METHODS, programs=PROGRAMS):
    config = load_config(overrides=["protocol.trials=2", *settings])
    plan = plan_held_out(config, methods, [KEPT], per_task=1)
    return list(find_reusable_records(store, plan, make_run_identity(config, resolve_protocol(config)), programs))


@pytest.mark.parametrize(
    ("setting", "arms"),
    [
        ("memory.reflections.size=1", ["react-sso", "sso"]),
        ("memory.skills.max_window=4", ["react-sso", "reflexion-sso"]),
        ("embedder.model=hash", ["react-sso", "reflexion-sso"]),
        ("backends.embedded.roles.verbalizer.temperature=0.9", ["react-sso", "reflexion-sso"]),
        ("backends.embedded.roles.reflector.temperature=0.9", ["react-sso", "sso"]),
        ("backends.embedded.roles.proposer.temperature=0.9", METHODS),
        ("protocol.learn_after_last=true", ["react-sso"]),
        ("protocol.setting=adaptation", METHODS),
        ("backends.embedded.temperature=0.9", []),
        ("seed=1", []),
        ("protocol.preset=release", []),
        ("environment.simplification=teleportAction", []),
    ],
)
def test_a_unit_survives_a_change_that_its_method_never_looks_at(tmp_path, setting, arms):
    assert sorted(unit.arm for unit in taken(run_of(tmp_path), setting)) == sorted(arms)


def test_what_is_taken_over_is_of_the_new_run_and_says_where_it_came_from(tmp_path):
    store = run_of(tmp_path)
    (unit,) = taken(store, "memory.reflections.size=1", methods=["sso"])
    before = next(other for other in store.units() if other.arm == "sso")
    assert unit.protocol == "adapt/2 trials=2 reflections=1"
    assert unit.trials == before.trials
    assert unit.provenance["commit"] == "c"
    assert unit.provenance["forked_from"] == store.read_identity()[0]["config_hash"] != unit.provenance["config_hash"]


def test_more_trials_leave_the_solved_units_valid_and_fewer_those_that_did_not_need_more(tmp_path):
    unsolved, solved = run_of(tmp_path / "a"), run_of(tmp_path / "b", trials=((100,),))
    assert taken(unsolved, "protocol.trials=5") == []
    assert [unit.trials_allowed for unit in taken(solved, "protocol.trials=5")] == [5] * 4
    assert taken(solved, "protocol.trials=5", "protocol.stop_on_success=false") == []
    assert taken(unsolved, "protocol.trials=1") == []
    assert len(taken(solved, "protocol.trials=1")) == 4


def test_an_errored_unit_and_another_program_are_not_taken_over(tmp_path):
    assert taken(run_of(tmp_path / "a", trials=((10,), None))) == []
    programs = {**PROGRAMS, "sso": "compiled"}
    assert sorted(unit.arm for unit in taken(run_of(tmp_path / "b"), programs=programs)) == [
        "react-sso",
        "reflexion-sso",
        "rsso",
    ]


def test_trainings_are_taken_over_with_the_units_that_start_from_them(tmp_path):
    transfer = (
        "protocol.setting=transfer",
        "protocol.trials=1",
        "protocol.train_trials=1",
        "protocol.train_per_task=1",
    )
    store = run_of(tmp_path, *transfer, trials=((10,),))
    config = load_config(overrides=["protocol.trials=2", *transfer])
    plan = plan_held_out(config, METHODS, [KEPT], per_task=1)
    for training in plan.trainings:
        made = record(training.arm.name, KEPT, 0, ((10,),))
        made = replace(made, protocol=plan.protocol)
        fields = {name: getattr(made, name) for name in ("protocol", "arm", "method", "program", "backend", "model")}
        store.save(
            TrainingRecord(**fields, rule_based=True, seed=0, trials=made.trials, task=KEPT, budgets=training.budgets)
        )
    again = taken(store, *transfer, "memory.reflections.size=1")
    assert [(type(each).__name__, each.arm) for each in again] == [
        ("TrainingRecord", "sso"),
        ("UnitRecord", "react-sso"),
        ("UnitRecord", "sso"),
    ]
    assert {each.arm for each in taken(store, *transfer, "protocol.train_trials=2")} == {"react-sso"}


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        taken(Store(tmp_path))
