"""The one stream of events: who hears what, and what becomes of a run when a subscriber fails."""

import pickle
import warnings
from contextlib import nullcontext
from pathlib import Path

import pytest

from rsso_dspy import executor as module
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.pool import StartProgress
from rsso_dspy.errors import BackendFailure, LimitReached
from rsso_dspy.executor import (
    Event,
    EventStream,
    RunEnded,
    RunOutcome,
    RunStarted,
    SimulatorsStarting,
    StopRequested,
    TrialFinished,
    UnitFinished,
    UsageSpent,
    announced,
)
from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import Failure, UnitRecord, Usage, Variant
from rsso_dspy.runs import plan_run
from rsso_dspy.sessions import session
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Arm, Store, Unit
from tests.provider_server import provider
from tests.records import record
from tests.toy_package import installed

ARM = Arm(get_method("rsso"))
UNIT = Unit(ARM, Variant("boil", 22), 0, 9)
PLAYED = record("rsso", "boil", 22, [[10, 40], None])
STARTED = RunStarted((UNIT.key,), 2, "threads")
EVERY = (
    STARTED,
    SimulatorsStarting(StartProgress(1, 2)),
    UsageSpent(UNIT, "actor", Usage(1, 2, 3)),
    TrialFinished(UNIT, PLAYED.trials[0]),
    UnitFinished(UNIT, PLAYED),
    StopRequested(),
    RunEnded("ended", 1),
)


def test_a_subscriber_hears_of_its_kind_in_order_and_of_everything_when_it_asks():
    events, heard = EventStream(), []
    events.subscribe(TrialFinished, lambda event: heard.append(("trials", event)))
    events.subscribe(Event, lambda event: heard.append(("all", event)))
    for event in EVERY:
        events.emit(event)
    assert [event for who, event in heard if who == "all"] == list(EVERY)
    assert [each for each in heard if each[0] == "trials"] == [("trials", EVERY[3])]
    assert heard.index(("trials", EVERY[3])) == heard.index(("all", EVERY[3])) - 1


def test_every_kind_of_event_travels_between_processes():
    kinds = {each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Event)}
    assert kinds - {Event} == {type(event) for event in EVERY}
    assert pickle.loads(pickle.dumps(EVERY)) == EVERY


def fail(_event: Event) -> None:
    raise ValueError("the window is gone")


def test_one_that_fails_hears_no_more_and_the_others_do():
    events, heard = EventStream(), []
    events.subscribe(Event, fail)
    events.subscribe(Event, heard.append)
    with pytest.warns(RuntimeWarning, match=r"fail receives no more Event events \(ValueError: the window is gone\)"):
        events.emit(STARTED)
    events.emit(StopRequested())
    assert heard == [STARTED, StopRequested()]


def test_the_errors_of_one_that_is_required_go_on_once_all_have_heard():
    events, heard = EventStream(), []
    events.subscribe(Event, fail, required=True)
    events.subscribe(Event, heard.append)
    for _ in range(2):
        with pytest.raises(ValueError, match="window"):
            events.emit(STARTED)
    assert heard == [STARTED, STARTED]


def interrupt(_event: Event) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_in_a_subscriber_is_ctrl_c():
    events = EventStream()
    events.subscribe(Event, interrupt)
    with pytest.raises(KeyboardInterrupt):
        events.emit(STARTED)


@pytest.mark.parametrize(
    ("error", "end"),
    [
        (None, RunEnded("ended", 4, 1, 2)),
        (LimitReached("spent"), RunEnded("limit", why="spent")),
        (KeyboardInterrupt(), RunEnded("interrupted")),
        (BackendFailure("gone"), RunEnded("failed", failure=Failure("BackendFailure", "gone"))),
        (ZeroDivisionError("a defect"), RunEnded("failed")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_how_a_run_ended_is_told_once_whatever_ended_it(error, end):
    events, heard = EventStream(), []
    events.subscribe(Event, heard.append)

    def run() -> None:
        with announced(events, STARTED) as ended:
            if error:
                raise error
            ended(RunOutcome(4, [PLAYED], [UNIT, UNIT]))

    with pytest.raises(type(error)) if error else nullcontext():
        run()
    assert heard == [STARTED, end]


def play(out: Path, events: EventStream, config, limit: int | None = None) -> list[UnitRecord]:
    """The toy benchmark, which needs no simulator; gives the records."""
    planned = plan_run(config, RunSpec(methods=("react", "reflexion"), tasks=("up",), per_task=1, out=out))
    with session(config) as live:
        planned.execute(live, 1, planned.make_spend_limit(max_tokens=limit), events)
    return list(Store(out).units())


@pytest.fixture
def toy(monkeypatch, tmp_path_factory):
    """Its configuration, with a model of its own."""
    from rsso_dspy.config import load_config
    from tests.cli.test_benchmark import counting

    monkeypatch.syspath_prepend(installed(tmp_path_factory.mktemp("site")))
    get_benchmark.cache_clear()
    with provider(counting) as served:
        yield load_config(
            overrides=[
                "benchmark=toy", "backend=mine", "backends.mine.model=hosted_vllm/counter",
                f"backends.mine.base_url={served.url}", "embedder.model=hash", "protocol.preset=sso-adapt/1-cap60",
                "protocol.trials=2",
            ]
        )  # fmt: skip
    get_benchmark.cache_clear()


def test_a_run_leaves_the_same_records_whoever_fails_to_hear_of_it(toy, tmp_path):
    events, heard = EventStream(), []
    events.subscribe(Event, fail)
    events.subscribe(Event, heard.append)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        disturbed = play(tmp_path / "disturbed", events, toy)
    assert any("the window is gone" in str(each.message) for each in caught)
    assert disturbed == play(tmp_path / "calm", EventStream(), toy)
    assert len(disturbed) == 2
    kinds = [type(event) for event in heard]
    assert (kinds[0], kinds[-1], kinds.count(UnitFinished)) == (RunStarted, RunEnded, 2)
    asked = sum(trial.usage["actor"].calls for each in disturbed for trial in each.trials)
    told = sum(event.usage.calls for event in heard if isinstance(event, UsageSpent) and event.role == "actor")
    assert told == asked > 0


def test_a_limit_is_told_before_the_run_ends_by_it(toy, tmp_path):
    events, heard = EventStream(), []
    events.subscribe(Event, heard.append)
    with pytest.raises(LimitReached):
        play(tmp_path / "run", events, toy, limit=1)
    assert [type(event) for event in heard] == [RunStarted, UsageSpent, RunEnded]
    assert heard[-1].how == "limit"
    assert "of 1 tokens are spent" in heard[-1].why
