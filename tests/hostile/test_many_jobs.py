"""Many jobs at once: simulators start as cores allow, whoever has one plays, and somebody says how far it has come."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from rsso_dspy.environments.pool import CLOSED, EnvironmentPool, StartQueue
from rsso_dspy.errors import Stopped

LONG = 60.0
"""Seconds after which something that should have happened never will."""


class Fake:
    """As much of an environment as a pool sees."""

    alive = True

    def close(self) -> None:
        self.alive = False


class Factory:
    """Makes environments, `together` at a time: a call returns only while so many are under way."""

    def __init__(self, together: int):
        self.most = self.under_way = self.made = 0
        self._together = threading.Barrier(together)
        self._lock = threading.Lock()

    def __call__(self) -> Fake:
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self._together.wait(LONG)
        with self._lock:
            self.under_way -= 1
            self.made += 1
        return Fake()


def pooled(factory: Callable[[], Fake], size: int, starts: StartQueue) -> EnvironmentPool[Fake]:  # type: ignore[type-var]
    return EnvironmentPool(factory, size, starts)  # type: ignore[type-var]


def lease_at_once(pool: EnvironmentPool[Fake], threads: int) -> None:  # type: ignore[type-var]
    """Have so many threads hold an environment at the same time."""
    all_there = threading.Barrier(threads)

    def play(_: int) -> None:
        with pool.lease():
            all_there.wait(LONG)

    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(play, range(threads)))


@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_so_many_start_at_once_and_no_more(at_once: int):
    factory, starts = Factory(at_once), StartQueue(at_once)
    with pooled(factory, 8, starts) as pool:
        lease_at_once(pool, 8)
    assert (factory.made, factory.most) == (8, at_once)


def test_a_job_plays_while_the_next_simulator_starts():
    played, made = threading.Event(), threading.Event()

    def factory() -> Fake:
        assert not made.is_set() or played.wait(LONG)
        made.set()
        return Fake()

    with pooled(factory, 2, StartQueue(1)) as pool, ThreadPoolExecutor(2) as executor:
        both = threading.Barrier(2)

        def play(_: int) -> None:
            with pool.lease():
                played.set()
                both.wait(LONG)

        list(executor.map(play, range(2)))


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(int(LONG / 0.01)):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never happened")


def test_who_comes_first_starts_first():
    starts, order = StartQueue(1), list[int]()

    def start(number: int) -> None:
        with starts.take_turn():
            order.append(number)

    with ThreadPoolExecutor(6) as executor, starts.take_turn():
        for number in range(6):
            executor.submit(start, number)
            wait_until(lambda: len(starts._waiting) == number + 1)  # noqa: B023
    assert order == [*range(6)]


def test_who_waits_for_a_turn_is_stopped_without_having_started_anything():
    stopping = threading.Event()
    starts = StartQueue(1, stopping.is_set)
    with ThreadPoolExecutor(5) as executor, starts.take_turn():
        waiting = [executor.submit(lambda: starts.take_turn().__enter__()) for _ in range(5)]
        wait_until(lambda: len(starts._waiting) == 5)
        stopping.set()
        for each in waiting:
            with pytest.raises(Stopped):
                each.result(LONG)
    with starts.take_turn():
        pass


def test_a_start_that_fails_passes_its_turn_on():
    starts, answers = StartQueue(1), iter([OSError("no memory"), Fake(), Fake()])

    def factory() -> Fake:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def play(_: int) -> str:
        try:
            with pool.lease():
                return "played"
        except OSError as error:
            return str(error)

    with pooled(factory, 3, starts) as pool, ThreadPoolExecutor(3) as executor:
        assert sorted(executor.map(play, range(3))) == ["no memory", "played", "played"]


def test_a_pool_that_closes_starts_nothing_for_those_that_wait():
    starts, made = StartQueue(1), list[Fake]()

    def factory() -> Fake:
        made.append(Fake())
        return made[-1]

    pool = pooled(factory, 3, starts)

    def play() -> None:
        with pool.lease():
            pass

    with ThreadPoolExecutor(3) as executor:
        with starts.take_turn():
            waiting = [executor.submit(play) for _ in range(3)]
            wait_until(lambda: len(starts._waiting) == 3)
            pool.close()
        for each in waiting:
            with pytest.raises(RuntimeError, match=CLOSED):
                each.result(LONG)
    assert not made
