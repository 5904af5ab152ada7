"""The one stream of events: who hears what, and what becomes of a run when a subscriber fails."""

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.errors import LimitReached
from rsso_dspy.executor import ActorAnswered, Event, EventStream, TrialFinished, UsageSpent
from rsso_dspy.runs import plan_run
from rsso_dspy.sessions import session
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Store
from tests.cli.test_benchmark import counting
from tests.provider_server import provider
from tests.toy_package import installed


@pytest.fixture
def play(monkeypatch, tmp_path):
    """Plays the toy benchmark, which needs no simulator, and gives the records in the folder."""
    monkeypatch.syspath_prepend(installed(tmp_path))
    get_benchmark.cache_clear()
    with provider(counting) as served:
        config = load_config(
            overrides=[
                "benchmark=toy", "backend=mine", "backends.mine.model=hosted_vllm/counter",
                f"backends.mine.base_url={served.url}", "embedder.model=hash", "protocol.preset=sso-adapt/3-cap60",
                "protocol.trials=2",
            ]
        )  # fmt: skip
        out = tmp_path / "run"

        def play(events: EventStream, limit: int | None = None):
            planned = plan_run(config, RunSpec(methods=("react", "reflexion"), tasks=("up",), per_task=1, out=out))
            with session(config) as live:
                planned.execute(live, 1, planned.make_spend_limit(max_tokens=limit), events)
            return list(Store(out).units())

        yield play
    get_benchmark.cache_clear()


def test_what_a_run_tells_is_what_its_records_hold_also_after_a_subscriber_that_failed(play):
    def fail(_event: Event) -> None:
        raise ValueError("the window is gone")

    events, heard = EventStream(), []
    events.subscribe(UsageSpent, heard.append)
    events.subscribe(TrialFinished, fail)
    with pytest.raises(ValueError, match="the window is gone"):
        play(events)
    events = EventStream()
    events.subscribe(Event, heard.append)
    records = play(events)
    assert len(records) == 2
    asked = sum(trial.usage["actor"].calls for each in records for trial in each.trials)
    told = sum(event.usage.calls for event in heard if isinstance(event, UsageSpent) and event.role == "actor")
    assert told == asked > 0


def test_a_limit_ends_a_run_after_the_answer_that_passed_it(play):
    events, heard = EventStream(), []
    events.subscribe(Event, heard.append)
    with pytest.raises(LimitReached, match="of 1 tokens are spent"):
        play(events, limit=1)
    assert [type(event) for event in heard] == [UsageSpent, ActorAnswered]
