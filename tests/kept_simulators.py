"""Simulators that outlive who closed them, so that the next test in this process need not start one.

A start costs more than most tests play, and a simulator that has just started plays slowly. The records of a used
simulator are those of a fresh one: tests/environments/test_scienceworld.py asserts it. What tests starts, ends and
deaths themselves asks for `fresh_simulators`.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from rsso_dspy.environments.scienceworld import environment, tasks
from rsso_dspy.environments.scienceworld.jvm import Jvm

MOST = 2
"""Simulators of a kind that are kept at a time: each holds up to half a gigabyte."""

_kept: list["KeptJvm"] = []
_lock = threading.Lock()


class KeptJvm(Jvm):
    """A simulator whose process is kept at `close` if it is alive, idle and sound."""

    def __init__(self, heap: str = "512m", stopped: Callable[[], bool] = lambda: False):
        self._heap, self._owner, self._sound, self._busy = heap, os.getpid(), True, threading.Lock()
        with _lock:
            wanted = (type(self), heap, os.getpid())
            known = next((each for each in _kept if (type(each), each._heap, each._owner) == wanted), None)
            if known:
                _kept.remove(known)
        if known and known.alive:
            self._take_over(known)
        else:
            super().__init__(heap, stopped)

    def call(self, method: str, *arguments: str | int | bool, limit: float | None = None) -> Any:
        answer = super().call(method, *arguments, limit=limit)
        if method == "step" and environment._ERROR_STATE.match(answer):
            self._sound = False
        if method == "load" and arguments[-1]:
            self._sound = type(self) is GoldJvm
        return answer

    def _send_command(self, command: str, limit: float | None = None) -> Any:
        with self._busy:
            return super()._send_command(command, limit)

    def close(self) -> None:
        if self._busy.acquire(blocking=False):
            try:
                self._keep()
            finally:
                self._busy.release()
        super().close()

    def _keep(self) -> None:
        """Pass the process on to a handle that waits for the next who asks for one."""
        with _lock:
            if self.alive and self._sound and sum(type(each) is type(self) for each in _kept) < MOST:
                heir = object.__new__(type(self))
                heir._busy = threading.Lock()
                heir._take_over(self)
                _kept.append(heir)

    def _take_over(self, other: "KeptJvm") -> None:
        """Take the process of another handle, which has none from then on."""
        self.__dict__ |= {name: value for name, value in other.__dict__.items() if name != "_busy"}
        _, end, arguments, _ = other._end.detach()
        self._end = weakref.finalize(self, end, *arguments)
        other._end = weakref.finalize(other, lambda: None)


class GoldJvm(KeptJvm):
    """One that computes solutions, which it does at every later load too: never one to play in."""


@contextmanager
def keep_simulators(play: type[Jvm] = KeptJvm, solve: type[Jvm] = GoldJvm) -> Iterator[None]:
    """Have everything in this process take its simulators from here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(environment, "Jvm", play)
        patch.setattr(tasks, "Jvm", solve)
        yield


def close_kept() -> None:
    while _kept:
        Jvm.close(_kept.pop())
