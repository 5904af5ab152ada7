"""A scripted model, the faults drawn, and who inflicts them on a run, which is started again until it is complete.

    setup = Setup(folder, tasks="find-plant")
    calm, disturbed = play_calm(setup), play_disturbed(setup, faults=200, seed=0)

What happens is drawn from the seed; when it happens depends on the machine, as in life.
"""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from math import ceil
from pathlib import Path
from threading import Event
from typing import Any

from dspy.lm15 import Config, Message, Request

from rsso_dspy.backends.embedded import Explorer
from tests.chaos.clock import Clock
from tests.chaos.process import FULL, Disk, Process, Simulator, kill, python, small_disk, until
from tests.provider_formats import CHAT, Said, text_of
from tests.provider_server import Provider, provider

KEY = "sk-planted-secret"
VARIABLE = "CHAOS_KEY"
RETRIES = 2
TIMEOUT = 3.0

BY_HAND = {
    "run killed (-9)": 28,
    "run interrupted (Ctrl-C)": 8,
    "simulator killed (-9)": 20,
    "simulators killed as they come": 4,
    "disk full": 12,
    "clock jumps": 14,
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
}
"""Faults that a request meets, by their names in `provider_faults`."""

OUTAGE = "nothing but 503, eight times in a row"
OUTAGE_LENGTH = 8
SHARES = {**BY_HAND, **BY_SERVER, OUTAGE: 6}
"""Everything, and how much of it is among 200 faults."""

PATIENCE = 60.0
"""Seconds in which a run must end when it has to, and in which it must ask for something when it has not ended."""
THINKING = 0.1
"""Seconds that an answer takes while the run is further than the faults are, so that those which come by the clock are
spread on a fast machine too."""
MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
from tests.chaos.clock import wind
wind(Path(sys.argv.pop(1)))
from rsso_dspy.cli import main
main()
"""
"""The command, under a clock that jumps. Ctrl-C reaches it even where it is ignored, as it is behind a shell's `&`."""


@dataclass(frozen=True)
class Setup:
    """What is played. Two methods, so that reflections and skills are at stake."""

    folder: Path
    tasks: str
    per_task: int = 2
    trials: int = 3
    jobs: int = 2
    timeout: float = TIMEOUT
    """Seconds after which a request is given up."""

    @property
    def units(self) -> int:
        return 2 * len(self.tasks.split(",")) * self.per_task

    def start(self, out: Path, served: Provider) -> Process:
        """The command: always the same, whatever happened before."""
        about = {
            "model": "openai/gpt-4.1-mini",
            "base_url": served.url,
            "key_variable": VARIABLE,
            "temperature": 0.5,
            "timeout": self.timeout,
            "retries": RETRIES,
        }
        settings = [f"backends.scripted.{name}={value}" for name, value in about.items()]
        settings += ["embedder.model=hash", "protocol.preset=sso-adapt/1-cap60", "protocol.stop_on_success=false"]
        arguments = ["run", "--methods", "reflexion,rsso", "--tasks", self.tasks, "--per-task", str(self.per_task)]
        arguments += ["--trials", str(self.trials), "--jobs", str(self.jobs), "--backend", "scripted"]
        arguments += ["--out", str(out), *(word for setting in settings for word in ("--set", setting))]
        return Process(python(MAIN, str(self.clock), *arguments), {VARIABLE: KEY})

    @property
    def clock(self) -> Path:
        return self.folder / "clock"


def scripted(body: dict[str, Any]) -> Said:
    """What the embedded model says to the prompt: the same to the same, always."""
    system, _ = CHAT.split(body)
    turns = [each for each in body["messages"] if each["role"] != "system"]
    said = [getattr(Message, each["role"])(text_of(each["content"])) for each in turns]
    asked = Request(model="m", messages=said, system=system, config=Config(temperature=body["temperature"]))
    answer = Explorer(seed=0).complete(asked)
    return Said(answer.message.text or "", answer.usage.input_tokens or 0, answer.usage.output_tokens or 0)


@dataclass
class Played:
    """A run that is complete, or was given up."""

    out: Path
    served: Provider
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    """On stderr, by each start."""
    ends: Counter[str] = field(default_factory=Counter)
    """How its starts ended."""
    inflicted: Counter[str] = field(default_factory=Counter)
    drawn: int = 0
    simulators: set[Simulator] = field(default_factory=set)
    """All that were seen."""
    disk: str = ""

    @property
    def answers(self) -> int:
        return self.served.given


def play_calm(setup: Setup) -> Played:
    """The run with nothing in its way, then the same command again."""
    setup.folder.mkdir(parents=True, exist_ok=True)
    Clock(setup.clock).jump(0.0)
    begun = time.perf_counter()
    with provider(scripted) as served:
        played = Played(setup.folder / "calm", served)
        with _running(setup, played) as process:
            assert process.wait(1200) == 0, process.said
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
    """The run under at least so many faults, of all kinds but those `without`. `answers` is how many the calm one
    took."""
    dice, begun = random.Random(seed), time.perf_counter()
    shares = {kind: ceil(share * faults / 200) for kind, share in SHARES.items() if kind not in without}
    requests, names = _drawn_for_server(dice, shares, answers)
    stock = [kind for kind in BY_HAND for _ in range(shares.get(kind, 0))]
    dice.shuffle(stock)
    there = len(stock)

    def behind(body: dict[str, Any]) -> Said:
        if served.given / answers > 1 - len(stock) / there:
            time.sleep(THINKING)
        tormentor.called()
        return scripted(body)

    with small_disk(setup.folder / "disk") as disk, provider(behind, requests) as served:
        played = Played(disk.folder / "run", served, disk=disk.how, drawn=len(stock) + len(names))
        tormentor = Tormentor(setup, played, dice, stock, disk, answers, say)
        tormentor.until_complete()
        shutil.copytree(played.out, setup.folder / "disturbed")
    played.out = setup.folder / "disturbed"
    played.inflicted.update(names[number] for number in served.inflicted if number in names)
    played.seconds = time.perf_counter() - begun
    return played


def _drawn_for_server(
    dice: random.Random, shares: Mapping[str, int], answers: int
) -> tuple[dict[int, str], dict[int, str]]:
    """Number of a request to the fault that it meets, and to what the fault is called where it counts as one. All are
    among the requests of a calm run, so that the disturbed one, which is longer, meets every one of them."""
    numbers = list(range(2, int(0.9 * answers)))
    requests: dict[int, str] = {}
    names: dict[int, str] = {}
    for _ in range(shares.get(OUTAGE, 0)):
        first = dice.choice([number for number in numbers if not requests.keys() & range(number, number + 10)])
        requests |= dict.fromkeys(range(first, first + OUTAGE_LENGTH), "overloaded")
        names[first] = OUTAGE
    drawn = [name for name in BY_SERVER for _ in range(shares.get(name, 0))]
    single = dict(zip(dice.sample([n for n in numbers if n not in requests], len(drawn)), drawn, strict=True))
    return requests | single, names | single


@contextmanager
def _running(setup: Setup, played: Played) -> Iterator[Process]:
    process = setup.start(played.out, played.served)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


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
            with _running(self.setup, self.played) as self.process:
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
