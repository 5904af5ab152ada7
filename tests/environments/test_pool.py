import os
import signal
import threading
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

import pytest

from rsso_dspy.environments.pool import EnvironmentPool
from rsso_dspy.environments.scienceworld import ScienceWorld, tasks
from rsso_dspy.errors import SimulatorDied, Stopped


def test_a_killed_simulator_is_reported_and_replaced():
    variant = tasks.parse("find-plant::229")
    with EnvironmentPool(ScienceWorld) as pool:
        with pool.lease() as env:
            start = env.reset(variant)
        with pool.lease() as again:
            assert again is env
            os.kill(env._jvm.pid, signal.SIGKILL)
            for _ in range(2):
                with pytest.raises(SimulatorDied):
                    env.step("look around")
                with pytest.raises(SimulatorDied):
                    env.reset(variant)
        with pool.lease() as fresh:
            assert fresh is not env
            assert fresh.reset(variant) == start
        assert fresh.alive
    assert not fresh.alive


class Fake:
    """As much of an environment as a pool sees."""

    def __init__(self) -> None:
        self.alive = True

    def close(self) -> None:
        self.alive = False


def test_environments_are_made_when_needed_and_never_more_than_the_size():
    both, lent = threading.Barrier(2), []

    def play(_: int) -> None:
        with pool.lease() as env:
            both.wait(30)  # only passes while two environments are lent at once
            lent.append(env)
            both.wait(30)

    with EnvironmentPool(Fake, size=2) as pool, ThreadPoolExecutor(6) as threads:
        list(threads.map(play, range(6)))
    assert len(set(lent)) == 2
    assert not any(env.alive for env in lent)


def test_who_waits_for_a_start_is_stopped_without_having_started_anything(monkeypatch):
    stopping, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    pool = EnvironmentPool(lambda: go_on.wait(60) and Fake(), 2, stopping.is_set)
    with ThreadPoolExecutor(2) as threads:
        leases = [threads.submit(pool.lease().__enter__) for _ in range(2)]
        stopping.set()
        (first,), (other,) = wait(leases, 60, FIRST_COMPLETED)
        assert isinstance(first.exception(), Stopped)
        go_on.set()
        assert isinstance(other.result(60).environment, Fake)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_environment_comes_back_however_the_block_ends(error: type[BaseException]):
    pool = EnvironmentPool(Fake)
    with pytest.raises(error), pool.lease() as env:
        raise error
    with pool.lease() as again:
        assert again is env


def test_closing_ends_lent_ones_too_and_lends_no_more():
    pool = EnvironmentPool(Fake)
    with pool.lease() as env:
        pool.close()
        assert not env.alive
    pool.close()
    with pytest.raises(RuntimeError, match="closed"), pool.lease():
        pass
