"""Who inflicts faults on a run, and starts it again until it is complete."""

import random
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from itertools import count
from threading import Event

from tests.chaos.clock import Clock
from tests.chaos.process import FULL, Disk, Process, kill, until
from tests.chaos.setup import PATIENCE, Played, Setup, running

BY_HAND = {
    "run killed (-9)": 28,
    "run interrupted (Ctrl-C)": 8,
    "simulator killed (-9)": 20,
    "simulators killed as they come": 4,
    "disk full": 12,
    "clock jumps": 14,
}
"""Faults inflicted on the run's process, and how many of them are among 200."""


class Tormentor:
    """Inflicts what is in stock on a run, in turn, and starts it again whenever it ended before its end."""

    def __init__(
        self,
        setup: Setup,
        played: Played,
        dice: random.Random,
        stock: list[str],
        disk: Disk,
        answers: int,
        say: Callable[[str], None],
    ):
        self.setup, self.played, self.dice, self.stock, self.disk, self.say = setup, played, dice, stock, disk, say
        self.gap = answers / len(stock)
        """Answers between two faults, if they were spread over a calm run."""
        self.all = len(stock)
        self.clock = Clock(setup.clock)
        self.waits, self.nearly_over = Event(), Event()
        """Whether the moment of a fault is waited for, and whether a request waits for that moment."""
        self.process: Process

    def called(self) -> None:
        """What comes before an answer: those to the last trials wait until everything in stock was inflicted, on
        however fast a machine. As such a request makes the moment come at once, it waits for no time worth naming."""
        while self.stock and self.waits.is_set() and self._left <= self.setup.jobs:
            self.nearly_over.set()
            time.sleep(0.005)

    def until_complete(self) -> None:
        for start in count(1):
            with running(self.setup, self.played) as self.process:
                end = self._torment()
            self.played.ends[end] += 1
            self.played.said.append(self.process.said)
            requests = len(self.played.served.inflicted)
            done = self.played.inflicted.total()
            last = self.process.said.strip().rpartition("\n")[2] if end not in ("complete", "killed") else ""
            self.say(f"start {start}: {end}; {done} of {self.all} by hand, {requests} by the server. {last[:300]}")
            if end in ("complete", "hung", "unexplained"):
                return

    def _torment(self) -> str:
        """How this start ended."""
        while self.process.alive:
            if not self._passes_on():
                return "hung"
            if self.stock and self.process.alive:
                kind = self.stock.pop(0)
                self.played.simulators.update(self.process.simulators())
                if self._how[kind]():
                    self.played.inflicted[kind] += 1
                else:
                    self.stock.append(kind)
        return self._ending()

    def _ending(self) -> str:
        code, said = self.process.wait(PATIENCE), self.process.said
        endings = {
            "complete": code == 0,
            "killed": code == -9,
            "disk full": any(words in said for words in FULL),
            "interrupted": code in (130, -2) or "KeyboardInterrupt" in said,
            "stopped after errors in a row": "stopped: " in said or "could be started" in said,
            "ended with errored units": "ended in errors" in said,
        }
        return next((name for name, holds in endings.items() if holds), "unexplained")

    def _passes_on(self) -> bool:
        """Wait for the moment of the next fault, or the end of the run; whether the run goes on meanwhile. Half of the
        moments are drawn by the clock, so that runs that only just start are hit too."""
        self.nearly_over.clear()
        self.waits.set()
        try:
            return self._comes()
        finally:
            self.waits.clear()

    def _comes(self) -> bool:
        dice, served = self.dice, self.played.served
        timed, wait = dice.random() < 0.4, dice.uniform(0.0, 6.0)
        due, end = served.given + dice.expovariate(1 / self._mean()), time.monotonic() + wait
        asked, since = len(served.requests), time.monotonic()
        while self.process.alive:
            moment = time.monotonic() > end if timed else served.given >= due
            if self.stock and (moment or self.nearly_over.is_set()):
                return True
            if len(served.requests) != asked:
                asked, since = len(served.requests), time.monotonic()
            if time.monotonic() - since > PATIENCE:
                return False
            time.sleep(0.005)
        return True

    def _mean(self) -> float:
        """Answers until the next fault, on average: few when the run is further than the faults are."""
        used = 1 - len(self.stock) / self.all
        near_end = self._left <= max(2 * self.setup.jobs, 0.15 * self._trials)
        return self.gap * (0.05 if near_end else 0.7 if 1 - self._left / self._trials > used else 2.0)

    @property
    def _trials(self) -> int:
        """In the whole run."""
        return self.setup.units * self.setup.trials

    @property
    def _left(self) -> int:
        """Trials that are not finished."""
        file = self.played.out / "timings.jsonl"
        return self._trials - (file.read_text().count("\n") if file.exists() else 0)

    @cached_property
    def _how(self) -> dict[str, Callable[[], bool]]:
        """How each kind is inflicted; says whether it really was."""
        ways = (self._kill, self._interrupt, self._kill_simulator, self._kill_simulators, self._fill, self._jump)
        return dict(zip(BY_HAND, ways, strict=True))

    def _kill(self) -> bool:
        self.process.kill()
        return self.process.wait(PATIENCE) == -9

    def _interrupt(self) -> bool:
        self.process.interrupt()
        return self.process.wait(PATIENCE) not in (None, 0)

    def _kill_simulator(self) -> bool:
        simulators = self.process.simulators()
        return bool(simulators) and kill(self.dice.choice(simulators))

    def _kill_simulators(self) -> bool:
        """For a while, each a moment after it is there: the trial that was played again is hit again."""
        killed, end = 0, time.monotonic() + 4.0
        while self.process.alive and time.monotonic() < end:
            killed += sum(kill(simulator) for simulator in self.process.simulators())
            time.sleep(self.dice.uniform(0.2, 0.8))
        return killed > 1

    def _fill(self) -> bool:
        """Until the run has noticed, which it does when it next writes."""
        self.disk.fill(self.process)
        ended = until(lambda: not self.process.alive, PATIENCE)
        with suppress(OSError):
            self.disk.free(self.process)
        self.process.wait(PATIENCE)
        return ended and any(words in self.process.said for words in FULL)

    def _jump(self) -> bool:
        self.clock.jump(self.dice.uniform(-48.0, 48.0) * 3600)
        return until(lambda: self.clock.readings > 0 or not self.process.alive, PATIENCE) and self.clock.readings > 0
