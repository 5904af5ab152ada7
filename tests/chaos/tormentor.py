"""Who inflicts faults on a run, and starts it again until it is complete."""

import random
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from itertools import count
from threading import Event

from rsso_dspy.store.run_folder import find_logs
from tests.chaos.clock import Clock
from tests.chaos.process import FULL, Disk, Process, kill, until
from tests.chaos.setup import KEY, PATIENCE, Played, Setup, running

PLANTED = "record of another run"
BY_HAND = {
    "run killed (-9)": 28,
    "run interrupted (Ctrl-C)": 8,
    "simulator killed (-9)": 20,
    "simulators killed as they come": 4,
    "disk full": 12,
    "clock jumps": 14,
    "folder taken away": 4,
    PLANTED: 4,
}
"""Faults inflicted on the run's process, and how many of them are among 200."""


GONE = "is gone: it was"
"""What the run says of a folder that was taken away."""
SPOILT = "key with a line break"
"""A start of the command whose key ends as Windows ends a line."""


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
        spoilt: int = 0,
    ):
        self.setup, self.played, self.dice, self.stock, self.disk, self.say = setup, played, dice, stock, disk, say
        self.spoilt = spoilt
        """Starts to come whose key is spoilt."""
        self.gone = False
        """Whether the folder was taken away from the present start."""
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
        end = ""
        for start in count(1):
            spoil, asked = self.spoilt > 0 and start % 2 == 1, len(self.played.served.requests)
            self.gone = False
            key = f"{KEY}\r\n" if spoil else KEY
            with running(self.setup, self.played, key) as self.process:
                end = self._torment()
            if spoil and len(self.played.served.requests) > asked:
                self.spoilt -= 1
                self.played.inflicted[SPOILT] += 1
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
        timed, wait = dice.random() < 0.4, dice.uniform(0.0, self.setup.wait)
        due, end = served.given + dice.expovariate(1 / self._mean()), time.monotonic() + wait
        if self.stock[:1] == [PLANTED]:
            timed, due = False, served.given
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
        logs = find_logs(self.played.out / "units")
        return self._trials - sum(path.read_bytes().count(b'\n{"trial"') for path in logs)

    @cached_property
    def _how(self) -> dict[str, Callable[[], bool]]:
        """How each kind is inflicted; says whether it really was."""
        ways = (self._kill, self._interrupt, self._kill_simulator, self._kill_simulators, self._fill, self._jump)
        more = (self._take_away, self._plant)
        return dict(zip(BY_HAND, (*ways, *more), strict=True))

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

    def _plant(self) -> bool:
        """Kill the run, and put a log where one of its own belongs: as finished, by another configuration."""
        calm, run_file = self.setup.folder / "calm", self.played.out / "run.json"
        until(lambda: run_file.exists() or not self.process.alive, PATIENCE)
        names = sorted(str(path.relative_to(calm)) for path in find_logs(calm / "units"))
        missing = [name for name in names if not (self.played.out / name).exists()]
        if not (missing and run_file.exists() and self._kill()):
            return False
        name = self.dice.choice(missing)
        place, text = self.played.out / name, (calm / name).read_text()
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(re.sub(r'"config_hash": "\w+"', f'"config_hash": "{"0" * 12}"', text))
        self.played.planted.add(name)
        return True
