"""Who inflicts faults on a run, and starts it again until it is complete."""

import random
import shutil
import time
from collections.abc import Callable
from functools import cached_property
from itertools import count
from threading import Event

from rsso_dspy.store.run_folder import find_logs
from tests.chaos.process import FULL, Process, fill_disk, free_disk, kill, until
from tests.chaos.setup import PATIENCE, Played, Setup, running

BY_HAND = {
    "run killed (-9)": 28,
    "run interrupted (Ctrl-C)": 8,
    "simulator killed (-9)": 20,
    "disk full": 12,
    "folder taken away": 4,
}
"""Faults inflicted on the run's process, and how many of them are among 200."""


GONE = "is gone: it was"
"""What the run says of a folder that was taken away."""


class Tormentor:
    """Inflicts what is in stock on a run, in turn, and starts it again whenever it ended before its end."""

    def __init__(
        self,
        setup: Setup,
        played: Played,
        dice: random.Random,
        stock: list[str],
        answers: int,
        say: Callable[[str], None],
    ):
        self.setup, self.played, self.dice, self.stock, self.say = setup, played, dice, stock, say
        self.gone = False
        """Whether the folder was taken away from the present start."""
        self.gap = 0.5 * answers / len(stock)
        """Answers between two faults, on average: half as many as if they were spread over a calm run."""
        self.all = len(stock)
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
            self.gone = False
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
            "folder taken away": self.gone,
            "disk full": FULL in said,
            "interrupted": code in (130, -2) or "KeyboardInterrupt" in said,
            "stopped after errors in a row": "stopped: " in said or "could be started" in said,
            "ended with errored units": "ended in errors" in said,
        }
        return next((name for name, holds in endings.items() if holds), "unexplained")

    def _passes_on(self) -> bool:
        """Wait for the moment of the next fault, or the end of the run; whether the run goes on meanwhile."""
        served = self.played.served
        due, asked, since = served.given + self.dice.expovariate(1 / self.gap), -1, time.monotonic()
        self.nearly_over.clear()
        self.waits.set()
        try:
            while self.process.alive:
                if self.stock and (served.given >= due or self.nearly_over.is_set()):
                    return True
                if len(served.requests) != asked:
                    asked, since = len(served.requests), time.monotonic()
                if time.monotonic() - since > PATIENCE:
                    return False
                time.sleep(0.005)
            return True
        finally:
            self.waits.clear()

    @property
    def _left(self) -> int:
        """Trials that are not finished."""
        logs = find_logs(self.played.out / "units")
        return self.setup.units * self.setup.trials - sum(path.read_bytes().count(b'\n{"trial"') for path in logs)

    @cached_property
    def _how(self) -> dict[str, Callable[[], bool]]:
        """How each kind is inflicted; says whether it really was."""
        ways = (self._kill, self._interrupt, self._kill_simulator, self._fill, self._take_away)
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

    def _fill(self) -> bool:
        """Until the run has noticed, which it does when it next writes."""
        fill_disk(self.process)
        ended = until(lambda: not self.process.alive, PATIENCE)
        free_disk(self.process)
        self.process.wait(PATIENCE)
        return ended and FULL in self.process.said

    def _take_away(self) -> bool:
        """Move the folder aside once this start has asked something, see the run end, and put it back."""
        out, aside, requests = self.played.out, self.played.out.with_name("aside"), self.played.served.requests
        asked = len(requests)
        until(lambda: len(requests) > asked or not self.process.alive, PATIENCE)
        if not self.process.alive:
            return False
        out.rename(aside)
        self.gone = until(lambda: not self.process.alive, PATIENCE)
        if out.exists():
            self.played.made_anew += 1
            shutil.rmtree(out)
        aside.rename(out)
        return self.gone and GONE in self.process.said
