import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.config import load_config
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.plan import plan_held_out, select_shard
from rsso_dspy.store.commands import Invocation, Shard, add_command
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_folder import Store
from tests.records import record, save
from tests.store.test_store import IDENTITY


@pytest.mark.parametrize("settings", [[], ["protocol.setting=transfer", "protocol.train_trials=1"]])
@pytest.mark.parametrize("of", [1, 2, 3])
def test_shards_are_the_run_each_unit_once_and_arms_stay_together(settings, of):
    plan = plan_held_out(
        load_config(overrides=settings), ["react-sso", "sso"], ["boil", "find-plant", "freeze"], per_task=3
    )
    parts = [select_shard(plan, Shard(number, of)) for number in range(1, of + 1)]
    assert sorted(unit.key for part in parts for unit in part.units) == sorted(unit.key for unit in plan.units)
    assert sorted(t.key for part in parts for t in part.trainings) == sorted(t.key for t in plan.trainings)
    for part in parts:
        for variant in {unit.variant for unit in part.units}:
            assert {unit.arm.name for unit in part.units if unit.variant == variant} == {"react-sso", "sso"}
        assert all(part.get_training(unit) == plan.get_training(unit) for unit in part.units)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "a/b", "1/0", "-1/2"])
def test_what_is_no_shard_is_refused_by_form(text):
    with pytest.raises(UsageError, match="expected i/n"):
        Shard.parse(text)


def test_a_shard_without_units_is_refused():
    plan = plan_held_out(load_config(), ["sso"], ["boil"], per_task=2)
    with pytest.raises(UsageError, match="at most 2 parts"):
        select_shard(plan, Shard(3, 3))


def part(folder, *records, identity=IDENTITY, arms=None, shard="", per_task=2):
    store = Store(folder)
    asked = Invocation(methods=("sso",), per_task=per_task, shard=shard)
    store.open(identity, arms or {"sso": "1"}, shard, **add_command(store, asked, {}))
    for each in records:
        save(store, each)
    return store


def test_parts_are_read_as_one_run_that_knows_what_is_missing(tmp_path):
    longer, errored = record("sso", "boil", 27, [[10], [30]]), record("sso", "freeze", 21, [[10], None])
    first = part(tmp_path / "a", record("sso", "boil", 22, [[10]]), errored, shard="1/3")
    second = part(tmp_path / "b", longer, shard="2/3")
    first.open(IDENTITY, shard="1/3", planned=["sso/boil::22/s0", "sso/boil::30/s0"])
    played = collect_played(PooledRuns([first, second]))
    assert [(unit.variant.key, unit.has_errors) for unit in played.records] == [
        ("boil::22", False),
        ("freeze::21", True),
        ("boil::27", False),
    ]
    assert (played.missing, played.missing_shards) == (1, ["3/3"])


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"shard": "2/2", "per_task": 4}, r"different variants:\n.*--per-task 2\n.*--per-task 4\nPlay one"),
        ({"shard": "1/3"}, r"a is one of 2, .*b is one of 3"),
        ({"shard": "2/2", "seed": 1}, ""),
    ],
)
def test_shards_of_other_selections_or_splits_are_refused_unless_they_are_of_another_run(tmp_path, second, said):
    seed = second.pop("seed", 0)
    stores = [
        part(tmp_path / "a", shard="1/2"),
        part(tmp_path / "b", identity={**IDENTITY, "config": {**IDENTITY["config"], "seed": seed}}, **second),
    ]
    if said:
        with pytest.raises(RunMismatch, match=said):
            PooledRuns(stores)
    else:
        PooledRuns(stores)


def test_a_whole_run_that_is_asked_for_is_no_shard_any_more(tmp_path):
    store = part(tmp_path / "a", shard="1/3")
    store.open(IDENTITY, {"sso": "1"}, "2/3")
    assert store.read_shards() == ("1/3", "2/3")
    store.open(IDENTITY, {"sso": "1"})
    assert store.read_shards() == ()
