import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rsso_dspy.environments.pool import EnvironmentPool
from rsso_dspy.environments.scienceworld import ScienceWorld, tasks
from rsso_dspy.errors import SimulatorDied


def test_a_killed_simulator_is_reported_and_replaced():
    variant = tasks.parse("find-plant::229")
    with EnvironmentPool(ScienceWorld) as pool:
        with pool.lease() as env:
            start = env.reset(variant)
        with pool.lease() as again:
            assert again is env
            os.kill(env._require_jvm().pid, signal.SIGKILL)
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
    made = []

    def factory() -> Fake:
        made.append(Fake())
        return made[-1]

    with EnvironmentPool(factory, size=2) as pool:  # type: ignore[type-var]
        assert not made
        for _ in range(3):
            with pool.lease():
                pass
        assert len(made) == 1
        lent: set[Fake] = set()
        both = threading.Barrier(2)

        def play(_: int) -> None:
            with pool.lease() as env:
                assert env not in lent
                lent.add(env)
                both.wait(30)  # only passes while two environments are lent at once
                lent.remove(env)
                both.wait(30)

        with ThreadPoolExecutor(6) as threads:
            list(threads.map(play, range(6)))
        assert len(made) == 2
    assert not any(env.alive for env in made)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_environment_comes_back_however_the_block_ends(error: type[BaseException]):
    pool = EnvironmentPool(Fake)  # type: ignore[type-var]
    with pytest.raises(error), pool.lease() as env:
        raise error
    with pool.lease() as again:
        assert again is env


def test_closing_ends_lent_ones_too_and_lends_no_more():
    pool = EnvironmentPool(Fake)  # type: ignore[type-var]
    with pool.lease() as env:
        pool.close()
        assert not env.alive
    pool.close()
    with pytest.raises(RuntimeError, match="closed"), pool.lease():
        pass
