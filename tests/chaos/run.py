"""A calm run, and one that meets every fault and is started again until it is complete.

setup = Setup(folder)
calm, disturbed = play_calm(setup), play_disturbed(setup, calm.answers)
"""

import shutil
from threading import Lock
from typing import Any

from tests.chaos.process import FULL, Process, kill, limit_files
from tests.chaos.setup import Played, Setup, running, scripted
from tests.provider_formats import Said
from tests.provider_server import provider

FAULTS = ("run killed (-9)", "simulator killed (-9)", "disk full", "folder taken away")
GONE = "is gone: it was"
"""What the run says of a folder that was taken away."""
LONGEST = 1200.0
"""Seconds that a start may take."""


def play_calm(setup: Setup) -> Played:
    """The run with nothing in its way."""
    setup.folder.mkdir(parents=True, exist_ok=True)
    with provider(scripted) as served:
        played = Played(setup.folder / "calm", served)
        with running(setup, played) as process:
            assert process.wait(LONGEST) == 0, process.said
        played.ends["complete"] += 1
        played.said.append(process.said)
    return played


def play_disturbed(setup: Setup, answers: int) -> Played:
    """The run under every fault. `answers` is how many the calm one took: all faults are among its requests, so that
    the disturbed run, which is longer, meets every one of them."""
    with provider(lambda body: tormentor.answer(body)) as served:
        tormentor = Tormentor(setup, Played(setup.folder / "disturbed", served), answers)
        tormentor.until_complete()
    return tormentor.played


class Tormentor:
    """Inflicts faults on a run while it waits for an answer, and starts it again whenever it ended before its end."""

    process: Process

    def __init__(self, setup: Setup, played: Played, answers: int):
        self.setup, self.played = setup, played
        self.stock = [(answers * number // (len(FAULTS) + 1), kind) for number, kind in enumerate(FAULTS, start=1)]
        """Numbers of requests, at or after which what is in stock is inflicted, in turn."""
        self.aside = played.out.with_name("aside")
        self._lock = Lock()

    def answer(self, body: dict[str, Any]) -> Said:
        with self._lock:
            if self.stock and len(self.played.served.requests) >= self.stock[0][0] and self.process.alive:
                self.played.simulators.update(self.process.simulators())
                if self._inflict(self.stock[0][1]):
                    self.played.inflicted.append(self.stock.pop(0)[1])
        return scripted(body)

    def _inflict(self, kind: str) -> bool:
        """Inflict a fault; whether there was something to inflict it on."""
        if kind == "run killed (-9)":
            self.process.kill()
        elif kind == "simulator killed (-9)":
            simulators = self.process.simulators()
            return bool(simulators) and kill(simulators[0])
        elif kind == "disk full":
            limit_files(self.process, 0)
        else:
            self.played.out.rename(self.aside)
        return True

    def until_complete(self) -> None:
        while not {"complete", "hung", "unexplained"} & self.played.ends.keys():
            with running(self.setup, self.played) as self.process:
                code = self.process.wait(LONGEST)
            self.played.ends[self._classify(code)] += 1
            self.played.said.append(self.process.said)

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
        }
        return next((name for name, holds in endings.items() if holds), "unexplained")
