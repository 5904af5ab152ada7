"""Self-sustaining agents: a stream of held-out variants, and the constitution that goes from each to the next."""

from itertools import pairwise
from pathlib import Path

import dspy
import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.errors import BackendFailure, RunMismatch
from rsso_dspy.executor import Executor, list_pending_jobs, void_downstream_units
from rsso_dspy.memory.constitution import Constitution, ConstitutionSettings
from rsso_dspy.memory_files import get_stream_position, open_constitution
from rsso_dspy.plan import plan_held_out, select_shard
from rsso_dspy.records import UnitRecord
from rsso_dspy.regions import join_items
from rsso_dspy.runs import check_streams
from rsso_dspy.store.commands import Shard
from rsso_dspy.store.run_folder import Store
from tests.live import FAST, Recorder
from tests.records import describe_logs
from tests.runs.test_transfer import check_forecast, play_in_two, run_of

TASKS = ["find-plant", "lifespan-longest-lived", "find-living-thing"]
WRITERS = ["omnireflect-neural", "omnireflect-symbolic", "omnireflect-neuro-symbolic"]
SETTINGS = [*FAST, "protocol.trials=2", "memory.constitution.r_freq=5", "memory.constitution.s_freq=2"]
BOOK = ConstitutionSettings(r_freq=5, s_freq=2)
MARKER = "axolotl-7f3a"


def play(live, out: Path, methods, jobs: int = 1, tasks=TASKS, **runtime):
    with run_of(live, out, SETTINGS, methods, tasks, constitution=BOOK, **runtime) as (plan, store, player):
        void_downstream_units(plan, store)
        return Executor(player).run(plan, list_pending_jobs(plan, store), jobs)


def plan(methods, tasks=TASKS, *more: str, per_task: int = 1):
    return plan_held_out(load_config(overrides=[*SETTINGS, *more]), methods, tasks, per_task=per_task)


def stream(out: Path, arm: str) -> list[UnitRecord]:
    return sorted((record for record in Store(out).units() if record.arm == arm), key=get_stream_position)


def rules(record: UnitRecord) -> Constitution:
    return Constitution.load(record.memories["constitution"])


def prompts_of(record: UnitRecord, region: str) -> list[str]:
    return [text for name, text in record.trials[0].shown.items() if name.startswith(f"{region}@")]


@pytest.fixture(scope="module")
def whole(live, tmp_path_factory) -> Path:
    """Streams of the three writers, played in one go, with a method that has no constitution beside them."""
    out = tmp_path_factory.mktemp("stream")
    outcome = play(live, out, ["react", *WRITERS])
    assert not outcome.errored
    assert not outcome.untrained
    check_forecast(out, SETTINGS, ["react", *WRITERS], TASKS)
    return out


@pytest.mark.parametrize("arm", WRITERS)
def test_every_unit_starts_from_the_rules_that_the_one_before_it_left(whole, arm):
    units = stream(whole, arm)
    assert [record.start.split(" of ")[0] for record in units] == ["stream 1/3", "stream 2/3", "stream 3/3"]
    assert len({record.start.split(" of ")[1] for record in units}) == 1
    for before, after in pairwise(units):
        assert after.learnt_on == (*before.learnt_on, before.variant.key)
        assert prompts_of(after, "constitution")[0] == join_items(rules(before).items) != ""
    assert [len(record.trials) for record in units] == [1, 1, 1] == [record.trials_allowed for record in units]
    assert {record.trials_allowed for record in Store(whole).units() if record.arm == "react"} == {2}


def test_all_streams_of_a_seed_have_one_order_and_another_seed_has_another(whole):
    orders = {tuple(record.variant.key for record in stream(whole, arm)) for arm in WRITERS}
    assert len(orders) == 1
    first, second = ([unit.variant.key for unit in plan(WRITERS[:1], None, f"seed={seed}").units] for seed in range(2))
    assert sorted(first) == sorted(second)
    assert first != second


def test_a_model_is_asked_every_r_freq_steps_and_patterns_ask_nobody(whole):
    for record in stream(whole, "omnireflect-neural"):
        (trial,) = record.trials
        asked = trial.learnt["constitution"]
        assert asked["calls"] == len(trial.trajectory.steps) // BOOK.r_freq
        calls = trial.usage["advisor"].calls if "advisor" in trial.usage else 0
        assert calls == asked["calls"] + asked["summaries"]
    assert sum(r.trials[0].learnt["constitution"]["summaries"] for r in stream(whole, "omnireflect-neural")) == 1
    for record in stream(whole, "omnireflect-symbolic"):
        assert record.trials[0].usage.keys() == {"actor"}
    assert any(record.trials[0].learnt["constitution"]["written"] for record in stream(whole, "omnireflect-symbolic"))


def test_the_constitution_of_a_stream_can_be_read(whole):
    book = open_constitution(whole, "omnireflect-neural")
    units = stream(whole, "omnireflect-neural")
    assert book.constitution.rules == rules(units[-1]).rules
    assert book.variants == tuple(record.variant.key for record in units)


def test_streams_replay_byte_for_byte_with_other_jobs(live, whole, tmp_path):
    play(live, tmp_path, WRITERS[:2], jobs=2)
    assert describe_logs(tmp_path).items() <= describe_logs(whole).items()


def test_a_killed_stream_goes_on_at_the_boundary(live, whole, tmp_path):
    with run_of(live, tmp_path, SETTINGS, WRITERS[:1], TASKS, constitution=BOOK) as (plan, store, player):
        Executor(player).run(plan, plan.units[:1], 1)
        play_in_two(player, lambda: player.run_job(plan, plan.units[1]), after=1)
        Executor(player).run(plan, list_pending_jobs(plan, store), 1)
    assert describe_logs(tmp_path).items() <= describe_logs(whole).items()


def test_what_followed_a_lost_unit_is_played_again(live, whole, tmp_path):
    play(live, tmp_path, WRITERS[1:2])
    first, second, _ = stream(tmp_path, WRITERS[1])
    store = Store(tmp_path)
    store.path_of(second).unlink()
    left = [unit.variant.key for unit in list_pending_jobs(plan(WRITERS[1:2]), store)]
    assert left == [record.variant.key for record in stream(whole, WRITERS[1])[1:]]
    kept = store.path_of(first).stat().st_mtime_ns
    play(live, tmp_path, WRITERS[1:2])
    assert describe_logs(tmp_path).items() <= describe_logs(whole).items()
    assert store.path_of(first).stat().st_mtime_ns == kept
    assert len(store.read_abandoned()) == 1, "what the third unit cost the first time is noted"


def test_an_error_stops_its_stream_and_no_other(live, whole, tmp_path):
    dead, asked = True, []

    def lm(role, rollout):
        if role == "advisor":
            asked.append(rollout)
            if dead and len(asked) > 1:
                raise BackendFailure("the server is gone")
        return live.backend.lm(role, rollout)

    outcome = play(live, tmp_path, ["react", WRITERS[0]], lm=lm)
    (errored,) = outcome.errored
    assert (errored.arm, len(outcome.untrained)) == (WRITERS[0], 3 - get_stream_position(errored))
    assert len([record for record in Store(tmp_path).units() if record.arm == "react"]) == 3
    dead = False
    assert not play(live, tmp_path, ["react", WRITERS[0]], lm=lm).errored
    assert describe_logs(tmp_path).items() <= describe_logs(whole).items()


def test_a_stream_over_other_variants_is_refused(whole):
    check_streams(plan(WRITERS), Store(whole))
    for chosen in (TASKS[:2], ["boil"]):
        with pytest.raises(RunMismatch, match="over other variants"):
            check_streams(plan(WRITERS, chosen), Store(whole))


def test_a_stream_is_in_one_shard():
    whole = plan(["react", *WRITERS], per_task=2)
    parts = [select_shard(whole, Shard(number, 4)) for number in range(1, 5)]
    assert sorted(unit.key for part in parts for unit in part.units) == sorted(unit.key for unit in whole.units)
    for part in parts:
        assert all(len(units) == 6 for units in part.streams.values())


def test_nothing_that_the_simulator_knows_and_the_agent_does_not_reaches_a_prompt(live, tmp_path, monkeypatch):
    call, asked, prompts = Jvm.call, [], []

    def marked(jvm, name, *arguments, **options):
        asked.append(name)
        answer = call(jvm, name, *arguments, **options)
        return f"{answer} {MARKER}" if "Goal" in name or "Gold" in name else answer

    def lm(role, rollout):
        usual = live.backend.lm(role, rollout)
        return dspy.LM(usual.model, engine=Recorder(rollout, prompts), cache=False, **usual.kwargs)

    def refuse(*_):
        raise AssertionError("a gold path was computed")

    monkeypatch.setattr(Jvm, "call", marked)
    monkeypatch.setattr(tasks, "compute_gold_paths", refuse)
    play(live, tmp_path, [WRITERS[0], "rsso+symbolic"], tasks=TASKS[:2], lm=lm)
    assert len(prompts) > 20
    assert not [name for name in asked if "Goal" in name or "Gold" in name]
    assert not any(MARKER in prompt for prompt in prompts)
