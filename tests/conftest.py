"""Fixtures that many tests share. Simulators are dear to start, so those that a test does not break live as long as the
session; a test must not rely on what was played in them before, which is one of the things the tests assert."""

import os
import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from rsso_dspy.environments.scienceworld import ScienceWorld, tasks
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.records import State, Variant
from tests.kept_simulators import KeptJvm, close_kept, keep_simulators

LONGEST_FIRST = (
    "guards/test_replay_guard.py",
    "docs/test_examples.py",
    "docs/test_notebooks.py",
    "optimize/test_optimizers.py",
    "runs/test_replay.py",
    "runs/test_ray.py",
    "optimize/test_compile.py",
    "optimize/test_hygiene.py",
    "runs/test_chaos.py",
    "programs/test_agent.py",
    "environments/test_scienceworld.py",
    "environments/test_alfworld.py",
    "environments/test_tau2.py",
    "runs/test_recorded.py",
    "cli/test_report.py",
    "environments/test_babyai.py",
    "runs/test_faults.py",
    "runs/test_stream.py",
    "programs/test_callbacks.py",
    "report/test_figures.py",
    "cli/test_compile_interrupted.py",
    "programs/test_among_modules.py",
    "test_embed.py",
    "environments/test_tasks.py",
    "tests/test_answers.py",
    "programs/test_models.py",
    "hostile/test_local_servers.py",
    "environments/test_jvm.py",
    "programs/test_layouts.py",
    "runs/test_transfer.py",
    "cli/test_constitution.py",
    "report/test_page_viewer.py",
    "cli/test_run_file.py",
    "cli/test_compile.py",
    "cli/test_evaluate.py",
    "hostile/test_bills.py",
    "optimize/test_verdict.py",
)
"""Files that take longest. They begin first, so that several processes end at about the same time."""


def pytest_configure() -> None:
    """Hear Ctrl-C: a shell begins what runs in its background deaf to it, and children would be so too."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        file = str(item.path)
        return next((place for place, name in enumerate(LONGEST_FIRST) if file.endswith(name)), len(LONGEST_FIRST))

    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests compute is kept apart from the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RSSO_DSPY_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _kept_simulators() -> Iterator[None]:
    with keep_simulators():
        yield
    close_kept()


@pytest.fixture
def fresh_simulators() -> Iterator[None]:
    """Simulators that start when they are wanted and end when they are closed."""
    with keep_simulators(Jvm, Jvm):
        yield


class SharedWorld(ScienceWorld):
    """One that no test's pool can close, at its end or in a thread that outlives it.

    A simulator that died, of memory that ran out or of a test that was interrupted inside of a call, would be an error
    of every test that follows. So a variant that begins in a dead one begins in a new one, and the log says why."""

    def close(self) -> None:
        pass

    def reset(self, variant: Variant) -> State:
        if self._jvm is not None and not self._jvm.alive:
            reason = self._jvm._why_dead or "its process ended"
            test = os.environ.get("PYTEST_CURRENT_TEST")
            print(f"the shared simulator is replaced before {test}: {reason}", file=sys.__stderr__)
            self._jvm.close()
            self._jvm = None
        return super().reset(variant)


@pytest.fixture(scope="session")
def env() -> Iterator[ScienceWorld]:
    """A ScienceWorld environment that all tests play in."""
    shared = SharedWorld()
    yield shared
    ScienceWorld.close(shared)


@pytest.fixture(autouse=True)
def _usual_interface(request: pytest.FixtureRequest) -> None:
    """Where a test plays in `env`, it begins with the interface of a fresh one."""
    if "env" in request.fixturenames:
        request.getfixturevalue("env").choose_interface("sso")


@pytest.fixture(scope="session")
def simulator() -> Iterator[Jvm]:
    """A bare simulator, to compare the environment with."""
    with KeptJvm() as shared:
        yield shared


@pytest.fixture(scope="session")
def gold_paths() -> dict[str, tuple[str, ...]]:
    """Solutions of four variants, by key."""
    keys = ("find-plant::229", "find-living-thing::228", "use-thermometer::412", "lifespan-longest-lived::98")
    return dict(zip(keys, tasks.compute_gold_paths(map(tasks.parse, keys)), strict=True))
