"""A calm run, and one under faults, which is started again until it is complete.

    setup = Setup(folder, tasks="find-plant")
    calm, disturbed = play_calm(setup), play_disturbed(setup, faults=200, seed=0, answers=calm.answers)

What happens is drawn from the seed; when it happens depends on the machine, as in life.
"""

import random
import shutil
import time
from collections.abc import Callable, Collection
from itertools import count
from math import ceil
from threading import Lock
from typing import Any

from tests.chaos.process import FULL, Process, kill, limit_files
from tests.chaos.setup import Played, Setup, running, scripted
from tests.provider_formats import Said
from tests.provider_server import provider

BY_HAND = {
    "run killed (-9)": 28,
    "run interrupted (Ctrl-C)": 8,
    "simulator killed (-9)": 20,
    "disk full": 12,
    "folder taken away": 4,
}
"""Faults inflicted on the run's process, and how many of them are among 200."""

BY_SERVER = {
    "rate limit": 14,
    "server error": 14,
    "overloaded": 14,
    "gateway page": 12,
    "hang": 10,
    "dropped before the headers": 12,
    "dropped after the headers": 12,
    "cut in the middle": 12,
    "invalid JSON": 7,
    "a page for an answer": 4,
    "dripping": 6,
}
"""Faults that a request meets, by their names in `provider_faults`."""

SHARES = {**BY_HAND, **BY_SERVER}
"""Everything, and how much of it is among 200 faults."""

GONE = "is gone: it was"
"""What the run says of a folder that was taken away."""

LONGEST = 1200.0
"""Seconds that a start may take."""


def play_calm(setup: Setup) -> Played:
    """The run with nothing in its way."""
    setup.folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    with provider(scripted) as served:
        played = Played(setup.folder / "calm", served)
        with running(setup, played) as process:
            assert process.wait(LONGEST) == 0, process.said
        played.ends["complete"] += 1
        played.said.append(process.said)
    played.seconds = time.perf_counter() - begun
    return played


def play_disturbed(
    setup: Setup,
    faults: int,
    seed: int,
    answers: int,
    without: Collection[str] = (),
    say: Callable[[str], None] = print,
) -> Played:
    """The run under at least so many faults, of all kinds but those `without`. `answers` is how many the calm one took:
    all faults are among its requests, so that the disturbed run, which is longer, meets every one of them."""
    dice, begun = random.Random(seed), time.perf_counter()
    shares = {kind: ceil(share * faults / 200) for kind, share in SHARES.items() if kind not in without}
    drawn = [kind for kind, count in shares.items() for _ in range(count)]
    due = dict(zip(dice.sample(range(2, int(0.9 * answers)), len(drawn)), drawn, strict=True))
    with provider(
        lambda body: tormentor.answer(body), {n: kind for n, kind in due.items() if kind in BY_SERVER}
    ) as served:
        played = Played(setup.folder / "disturbed", served, drawn=len(drawn))
        by_hand = [due[number] for number in sorted(due) if due[number] in BY_HAND]
        tormentor = Tormentor(setup, played, dice, sorted(n for n in due if due[n] in BY_HAND), by_hand)
        tormentor.until_complete(say)
    played.inflicted.update(due[number] for number in served.inflicted)
    played.seconds = time.perf_counter() - begun
    return played


class Tormentor:
    """Inflicts faults on a run while it waits for an answer, and starts it again whenever it ended before its end."""

    process: Process

    def __init__(self, setup: Setup, played: Played, dice: random.Random, due: list[int], stock: list[str]):
        """`due` are numbers of requests, at or after which what is in stock is inflicted, in turn."""
        self.setup, self.played, self.dice, self.due, self.stock = setup, played, dice, due, stock
        self.aside = played.out.with_name("aside")
        self._lock = Lock()

    def answer(self, body: dict[str, Any]) -> Said:
        with self._lock:
            if self.stock and len(self.played.served.requests) >= self.due[0] and self.process.alive:
                self.played.simulators.update(self.process.simulators())
                if self._inflict(self.stock[0]):
                    self.played.inflicted[self.stock.pop(0)] += 1
                    self.due.pop(0)
        return scripted(body)

    def _inflict(self, kind: str) -> bool:
        """Inflict a fault; whether there was something to inflict it on."""
        if kind == "run killed (-9)":
            self.process.kill()
        elif kind == "run interrupted (Ctrl-C)":
            self.process.interrupt()
        elif kind == "simulator killed (-9)":
            simulators = self.process.simulators()
            return bool(simulators) and kill(self.dice.choice(simulators))
        elif kind == "disk full":
            limit_files(self.process, 0)
        else:
            self.played.out.rename(self.aside)
        return True

    def until_complete(self, say: Callable[[str], None]) -> None:
        for start in count(1):
            with running(self.setup, self.played) as self.process:
                code = self.process.wait(LONGEST)
            end = self._classify(code)
            self.played.ends[end] += 1
            self.played.said.append(self.process.said)
            say(f"start {start}: {end}; {len(self.stock)} faults left. {self.process.said.strip()[-300:]}")
            if end in ("complete", "hung", "unexplained"):
                return

    def _classify(self, code: int | None) -> str:
        """How a start ended. A folder that was taken away is put back."""
        gone, said = self.aside.exists(), self.process.said
        if gone:
            self.played.made_anew += self.played.out.exists()
            shutil.rmtree(self.played.out, ignore_errors=True)
            self.aside.rename(self.played.out)
        endings = {
            "hung": code is None,
            "folder taken away": gone and GONE in said,
            "complete": code == 0,
            "killed": code == -9,
            "disk full": FULL in said,
            "interrupted": code in (130, -2) or "KeyboardInterrupt" in said,
            "stopped after errors in a row": "stopped: " in said or "could be started" in said,
            "ended with errored units": "ended in errors" in said,
        }
        return next((name for name, holds in endings.items() if holds), "unexplained")
