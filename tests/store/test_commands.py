"""What a run's folder keeps of its commands, and parts of a run."""

from dataclasses import replace

import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.config import Config, load_config
from rsso_dspy.errors import UsageError
from rsso_dspy.plan import plan_held_out, select_shard
from rsso_dspy.protocol import make_run_identity, resolve_protocol
from rsso_dspy.store.commands import RunSpec, Shard, add_command, describe_command, extract_given, load_commands
from rsso_dspy.store.pooled_runs import PooledRuns
from rsso_dspy.store.run_folder import Store
from tests.records import record, save
from tests.store.test_store import IDENTITY


def open_store(config: Config, asked: RunSpec) -> Store:
    """A folder in which a command was given, and nothing played."""
    store = Store(asked.out)
    told = add_command(store, *describe_command(config, asked))
    store.open(make_run_identity(config, resolve_protocol(config)), {"sso": "1"}, str(asked.shard or ""), **told)
    return store


def test_a_command_is_read_back_as_it_was_given_with_copies_of_its_files(tmp_path):
    address = "http://user:hunter2@127.0.0.1:8000/v1?key=hunter2"
    config = load_config(
        overrides=["backend=vllm", f"backends.vllm.base_url={address}", f"embedder.base_url={address}"]
    )
    file, given = tmp_path / "mine.json", tmp_path / "given"
    file.write_text("{}")
    order = RunSpec(
        methods=("sso",), programs=("mine",), compiled=(file,), tasks=("boil",), out=tmp_path / "p1", shard=Shard(1, 2)
    )
    store = open_store(config, order)
    (command,) = load_commands(store)
    assert command.locate_files(given, order.out) == replace(order, compiled=(given / "programs/mine.json",))
    paths = extract_given(store, given)
    assert [path.relative_to(given).as_posix() for path in paths] == ["config.toml", "programs/mine.json"]
    assert load_config(paths[0]).hash() == config.hash()
    assert load_config(paths[0]).active_backend.base_url == "http://127.0.0.1:8000/v1"
    assert not [path for path in order.out.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]


@pytest.mark.parametrize("settings", [[], ["protocol.setting=transfer", "protocol.train_trials=1"]])
@pytest.mark.parametrize("of", [1, 3])
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


def test_what_is_no_shard_or_holds_no_units_is_refused():
    for text in ("", "1", "0/2", "3/2", "a/b", "1/0", "-1/2"):
        with pytest.raises(UsageError, match="expected i/n"):
            Shard.parse(text)
    plan = plan_held_out(load_config(), ["sso"], ["boil"], per_task=2)
    with pytest.raises(UsageError, match="at most 2 parts"):
        select_shard(plan, Shard(3, 3))


def test_parts_are_read_as_one_run_that_knows_what_is_missing(tmp_path):
    longer, errored = record("sso", "boil", 27, [[10], [30]]), record("sso", "freeze", 21, [[10], None])
    first, second = Store(tmp_path / "a"), Store(tmp_path / "b")
    first.open(IDENTITY, {"sso": "1"}, "1/3", planned=["sso/boil::22/s0", "sso/boil::30/s0"])
    second.open(IDENTITY, {"sso": "1"}, "2/3")
    for store, each in ((first, record("sso", "boil", 22, [[10]])), (first, errored), (second, longer)):
        save(store, each)
    played = collect_played(PooledRuns([first, second]))
    assert [(unit.variant.index, unit.has_errors) for unit in played.records] == [(22, False), (21, True), (27, False)]
    assert (played.missing, played.missing_shards) == ({"sso": 1}, ["3/3"])
    first.open(IDENTITY, {"sso": "1"}, "3/3")
    assert first.read_file()["shards"] == ["1/3", "3/3"]
    first.open(IDENTITY, {"sso": "1"})
    assert "shards" not in first.read_file(), "the whole run is no shard"
