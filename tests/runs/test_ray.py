"""Units as tasks of a real Ray cluster: what is left is what threads would have left, also when a node is killed."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.errors import LimitReached, MissingKey, UsageError
from rsso_dspy.executor import EventStream, TrialFinished
from rsso_dspy.lm import Backend
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.records import Usage
from rsso_dspy.runs import Run, plan_run
from rsso_dspy.sessions import Session, session
from rsso_dspy.store.commands import RunSpec
from tests.chaos.process import until
from tests.chaos.setup import scripted
from tests.live import FAST
from tests.provider_formats import Said
from tests.provider_server import provider
from tests.records import describe_logs

pytestmark = [
    # Ray's own: sockets and files of its processes, and changes that it announces.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
]

SETTINGS = (*FAST, "benchmark=pddl", "protocol.trials=3", "protocol.stop_on_success=false")
"""A benchmark that starts no simulator: what is tested is where units are played."""
VARIANTS = ("gripper::50", "tyreworld::50")
KEY = "RSSO_TEST_KEY"
THINKING = 0.05
"""Seconds of an answer while a node is to be killed: longer trials than the run needs to hear of one."""


@pytest.fixture(scope="module")
def cluster() -> Iterator["Cluster"]:  # noqa: F821, Ray is imported when a cluster is wanted
    """A cluster of one node with one CPU, which RAY_ADDRESS names. Its processes know one key."""
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # a socket's path must be short
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0", KEY: "not-a-secret"}.items():
            patch.setenv(name, value)
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "include_dashboard": False, "_system_config": {"health_check_period_ms": 500}}
        made = Cluster(initialize_head=True, head_node_args=head)
        patch.setenv("RAY_ADDRESS", made.address)
        try:
            yield made
        finally:
            made.shutdown()
            shutil.rmtree(folder, ignore_errors=True)


class Model:
    """What the embedded model says, over HTTP and as slowly as a test needs it: workers are processes, and the events
    that a test waits for must find them playing."""

    before: Callable[[], object] = staticmethod(lambda: None)
    """Done before each answer."""
    tokens = 0

    def __call__(self, body: dict[str, Any]) -> Said:
        self.before()
        said = scripted(body)
        self.tokens += said.input + said.output
        return said


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[dict[str, Model], tuple[str, ...]]]:
    """The model of a test, and the settings of runs that ask it."""
    models = {"now": Model()}
    with provider(lambda body: models["now"](body)) as served, pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY, "not-a-secret")
        yield models, host(served.url, KEY)


@pytest.fixture
def model(server) -> Model:
    server[0]["now"] = Model()
    return server[0]["now"]


@pytest.fixture(scope="module")
def settings(server) -> tuple[str, ...]:
    return server[1]


@pytest.fixture(scope="module")
def live() -> Iterator[Session]:
    with session(load_config(overrides=SETTINGS)) as shared:
        yield shared


@pytest.fixture(scope="module")
def whole(live, settings, tmp_path_factory) -> dict[str, Any]:
    """What threads leave."""
    out = tmp_path_factory.mktemp("threads")
    outcome = plan(out, settings).execute(lend(live, settings), 1)
    assert (outcome.played, outcome.errored) == (4, [])
    return describe_logs(out)


def host(url: str, key: str) -> tuple[str, ...]:
    mine = {"model": "openai/any", "base_url": url, "key_variable": key}
    return (*SETTINGS, "backend=mine", *(f"backends.mine.{name}={value}" for name, value in mine.items()))


def plan(out: Path, settings: tuple[str, ...], variants: tuple[str, ...] = VARIANTS) -> Run:
    order = RunSpec(methods=("react-sso", "rsso"), out=out, variants=variants)
    return plan_run(load_config(overrides=settings), order)


def lend(live, settings: tuple[str, ...]):
    config = load_config(overrides=settings)
    backend = Backend(config.active_backend)
    runtime = replace(live.runtime, lm=backend.lm)
    return replace(live, config=config, protocol=resolve_protocol(config), backend=backend, runtime=runtime)


def list_processes(parent: int) -> dict[int, str]:
    """Process id to command line of a process's children."""
    said = subprocess.run(["ps", "-ww", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True)
    return {int(pid): command for pid, command in (line.split(maxsplit=1) for line in said.stdout.splitlines())}


def total(costs: Iterable[Usage]) -> int:
    return sum(usage.input + usage.output for usage in costs)


@pytest.mark.usefixtures("cluster")
def test_ray_does_not_take_sigterm_from_who_has_it():
    from rsso_dspy.ray import _connect_ray

    def stop(*_: object) -> None: ...

    before = signal.signal(signal.SIGTERM, stop)
    with _connect_ray(1):
        assert signal.getsignal(signal.SIGTERM) is stop
    signal.signal(signal.SIGTERM, before)


def test_a_unit_whose_node_is_killed_goes_on_elsewhere_and_leaves_the_same_bytes(
    cluster, live, model, settings, whole, tmp_path
):
    node = cluster.add_node(num_cpus=1)
    (raylet,) = (process.process.pid for process in node.all_processes["raylet"])
    told, lost, events = [], [], EventStream()

    def hear(event):
        work = event.work
        told.append((work.key, event.result.trial))
        if not lost and any(work.key in command for command in list_processes(raylet).values()):
            for pid in (raylet, *list_processes(raylet)):  # a node that is there no more from one moment to the next
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            cluster.remove_node(node, allow_graceful=False)
            lost.append(work.key)
            assert planned.store.load(work) is None
            assert planned.store.load(work, begun=True) is not None

    model.before = lambda: lost or time.sleep(THINKING)
    planned = plan(tmp_path / "run", settings)
    events.subscribe(TrialFinished, hear)
    outcome = planned.execute(lend(live, settings), 2, events=events, engine="ray")
    assert (outcome.played, outcome.errored) == (4, [])
    assert lost, "no unit was played on the node that was to be killed"
    assert describe_logs(tmp_path / "run") == whole
    assert max(Counter(told).values()) == 1
    assert {trial for key, trial in told if key == lost[0]} == {1, 2, 3}
    assert all(arm == lost[0].partition("/")[0] for arm, _, _ in planned.store.read_abandoned())


@pytest.mark.usefixtures("cluster")
def test_a_limit_stops_workers_between_two_steps_and_what_was_cut_short_is_noted(
    live, model, settings, whole, tmp_path
):
    from rsso_dspy.ray import NEWS

    planned = plan(tmp_path, settings, VARIANTS[1:])
    first = planned.store.path_of(planned.plan.units[0]).relative_to(tmp_path)
    one_trial = total(Usage(**each) for each in whole[str(first)][0]["trials"][0]["usage"].values())
    purse, told, events = planned.make_spend_limit(max_tokens=one_trial), [], EventStream()
    events.subscribe(TrialFinished, lambda event: told.append(event.result.trial))

    def wait_until_heard() -> None:
        """The first answer of the second trial passes the limit: nothing more is said before the run has heard of it
        and told its workers."""
        if model.tokens > one_trial:
            until(lambda: bool(purse.exceeded_limit), 30)
            time.sleep(3 * NEWS)

    model.before = wait_until_heard
    with pytest.raises(LimitReached, match=rf"of {one_trial:,} tokens are spent \(max_tokens\)"):
        planned.execute(lend(live, settings), 1, purse, events, "ray")
    assert (told, list(planned.store.units())) == ([1], [])
    (begun,) = planned.store.load_begun()
    assert total(begun.trials[0].usage.values()) == one_trial
    assert total(usage for _, _, usage in planned.store.read_under_way()) == model.tokens - one_trial > 0
    assert total(usage for _, usage in planned.store.read_spending()) == purse.tokens == model.tokens
    model.before = lambda: None
    assert not planned.execute(lend(live, settings), 1, engine="ray").errored
    assert len(describe_logs(tmp_path)) == 2
    assert describe_logs(tmp_path).items() <= whole.items()


@pytest.mark.usefixtures("cluster", "model")
def test_arms_share_their_answers_as_in_threads(live, settings, tmp_path):
    shared = (*settings, "shared_answers=true")
    for engine in ("threads", "ray"):
        plan(tmp_path / engine, shared, VARIANTS[:1]).execute(lend(live, shared), 2, engine=engine)
    assert describe_logs(tmp_path / "ray") == describe_logs(tmp_path / "threads")


@pytest.mark.usefixtures("cluster")
def test_a_key_that_a_node_lacks_is_named_with_the_node(live, tmp_path, monkeypatch):
    monkeypatch.setenv("RSSO_LATE_KEY", "not-a-secret")  # here, and not where the cluster was started
    settings = host("http://127.0.0.1:9/v1", "RSSO_LATE_KEY")
    with pytest.raises(MissingKey, match=r"on node .*RSSO_LATE_KEY is not set"):
        plan(tmp_path, settings, VARIANTS[:1]).execute(lend(live, settings), 1, engine="ray")
    assert not list(tmp_path.rglob("*.jsonl"))


def test_without_ray_or_a_cluster_of_this_machine_the_message_says_what_to_do(live, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://elsewhere:10001")
    with pytest.raises(UsageError, match="ray start --address"):
        plan(tmp_path / "one", SETTINGS).execute(lend(live, SETTINGS), 1, engine="ray")
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "rsso_dspy.ray", raising=False)
    with pytest.raises(UsageError, match=r"pip install 'rsso-dspy\[ray\]'"):
        plan(tmp_path / "two", SETTINGS).execute(lend(live, SETTINGS), 1, engine="ray")
    assert not (tmp_path / "two").exists()
