"""Many jobs at once: simulators start as cores allow, whoever has one plays, and somebody says how far it has come."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from rsso_dspy.environments.pool import StartQueue
from rsso_dspy.errors import Stopped

LONG = 60.0
"""Seconds after which something that should have happened never will."""


def test_so_many_start_at_once_and_no_more():
    starts, together, under_way, most = StartQueue(2), threading.Barrier(2), list[int](), list[int]()

    def start(number: int) -> None:
        with starts.take_turn():
            under_way.append(number)
            most.append(len(under_way))
            together.wait(LONG)
            under_way.remove(number)

    with ThreadPoolExecutor(8) as executor:
        list(executor.map(start, range(8)))
    assert max(most) == 2


def wait_until(true: Callable[[], bool]) -> None:
    for _ in range(int(LONG / 0.01)):
        if true():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never happened")


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
