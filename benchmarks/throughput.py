"""How much of a model's waiting time is filled when several units are played at once.

    python benchmarks/throughput.py --jobs 8 --latency 1.0

Every answer takes `latency` seconds longer than the embedded model needs. One job gives the time of a step without
that wait (simulator, memories, prompt, parsing). With `jobs` jobs the best possible rate is jobs / (latency + that
time); the ratio is the measured rate to it. Every job plays unit after unit, over again when it has played all, until
the end. Rates and CPU times are those of a window that begins when every job has had its first `warm` answers. Java
compiles a simulator's code while it runs, so that the first hundreds of steps of every simulator cost more than all
that come later: a window after `--warm 10` and one after `--warm 200` tell two things. The embedding model is loaded
before, and vectors come from its cache on disk as far as they are there. The last line is one JSON object.
"""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Request, Response

from benchmarks.script import make_parser, parse_options
from rsso_dspy.config import EMBEDDED, Config, load_config
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.errors import Stopped
from rsso_dspy.offline import Explorer
from rsso_dspy.programs.agent import Agent
from rsso_dspy.sessions import Session, session

METHOD = "rsso"
SETTINGS = ["protocol.preset=sso-adapt/3-cap60", "protocol.trials=3", "protocol.stop_on_success=false"]

ALONE = 100
"""Answers of the one job before its window."""

TICKS = os.sysconf("SC_CLK_TCK")


class SlowExplorer(Explorer):
    """The embedded model behind a network."""

    def __init__(self, seed: int, latency: float, answered: "AnswerClock"):
        super().__init__(seed=seed)
        self.latency = latency
        self.answered = answered

    def complete(self, request: Request) -> Response:
        self.answered.note_request()
        time.sleep(self.latency)
        response = super().complete(request)
        self.answered.count_answer()
        return response


class AnswerClock:
    """When each job asked first, and how many answers it had."""

    def __init__(self) -> None:
        self.first: dict[int, float] = {}
        self.answers = Counter[int]()
        self._begin = time.perf_counter()
        self._lock = threading.Lock()

    def note_request(self) -> None:
        with self._lock:
            self.first.setdefault(threading.get_ident(), time.perf_counter() - self._begin)

    def count_least_answers(self, jobs: int) -> int:
        """Answers that every one of so many jobs has had."""
        with self._lock:
            return min(self.answers.values()) if len(self.answers) == jobs else 0

    def count_answer(self) -> None:
        with self._lock:
            self.answers[threading.get_ident()] += 1


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """A window of so many seconds, and what came before it."""

    seconds: float
    answers: int
    python: float
    """CPU seconds of this process."""
    java: float
    """CPU seconds of the simulators."""
    first: list[float]
    """Seconds until each job asked its model for the first time."""
    memory: float
    """Resident MB of a simulator."""
    warm: int
    """Answers that every job had had."""

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    def cpu_per_answer(self, spent: float) -> float:
        """CPU time of one answer."""
        return round(1000 * spent / max(1, self.answers), 1)


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--jobs", type=int, default=8)
    options.add_argument("--latency", type=float, default=1.0)
    options.add_argument("--seconds", type=float, default=40.0)
    options.add_argument("--warm", type=int, default=30, help="answers of every job before the window")
    options.add_argument("--patience", type=float, default=420.0, help="seconds after which the window begins anyway")
    options.add_argument("--step-ms", type=float, help="the step of one job, where another run has measured it")
    given = parse_options(options, jobs=2, latency=0.05, seconds=3.0, warm=1, patience=20.0)
    config = load_config(overrides=SETTINGS)
    step = given.step_ms / 1000 if given.step_ms else measure_alone(config, given.seconds / 3, given.patience)
    with session(config, jobs=given.jobs) as live:
        live.embedder([make_new_text()])
        found = measure_window(live, given.jobs, given.latency, given.seconds, given.warm, given.patience)
    best = given.jobs / (given.latency + step)
    result = {
        "ratio": round(found.rate / best, 3),
        "jobs": given.jobs,
        "latency": given.latency,
        "warm": found.warm,
        "rate": round(found.rate, 2),
        "best": round(best, 2),
        "step_ms": round(1000 * step, 1),
        "first_step_s": round(min(found.first), 1),
        "last_first_step_s": round(max(found.first), 1),
        "python_cpu_ms": found.cpu_per_answer(found.python),
        "java_cpu_ms": found.cpu_per_answer(found.java),
        "load": os.getloadavg()[0],
    }
    print(f"one job, no latency: {1000 * step:.1f} ms a step ({METHOD}, {config.embedder.model})")
    print(f"{given.jobs} jobs, {given.latency:g} s latency, {os.cpu_count()} cores: {found.rate:.2f} steps a second")
    print(f"best possible: {given.jobs} / ({given.latency:g} + {step:.3f}) = {best:.2f} a second")
    print(f"first request after {min(found.first):.1f} s, that of the last job after {max(found.first):.1f} s")
    print(f"CPU a step: {result['python_cpu_ms']} ms Python, {result['java_cpu_ms']} ms Java")
    print(f"memory: {read_resident_memory(os.getpid()):.0f} MB for the program, {found.memory:.0f} MB per simulator")
    print(json.dumps(result))


def measure_alone(config: Config, seconds: float, patience: float) -> float:
    """Seconds that a step of one job takes without any wait."""
    with session(config, jobs=1) as live:
        live.embedder([make_new_text()])
        return 1 / measure_window(live, 1, 0.0, seconds, ALONE, patience).rate


def make_new_text() -> str:
    """A text that no cache knows, to have the embedding model loaded."""
    return f"nobody has met this before: {time.time_ns()}"


def measure_window(
    live: Session, jobs: int, latency: float, seconds: float, warm: int, patience: float
) -> MeasuredWindow:
    """A window that begins when every job has had so many answers, or patience ends."""
    clock, stop = AnswerClock(), threading.Event()
    runtime = replace(
        live.runtime,
        lm=lambda _role, n: dspy.LM(EMBEDDED, engine=SlowExplorer(n, latency, clock), cache=False, temperature=0.5),
        stopped=stop.is_set,
    )
    variants = [variant for task in tasks.tasks() for variant in tasks.held_out(task, n=4)]

    def play_job(job: int) -> None:
        with live.activate_for_run(), runtime.activate():
            for variant in islice(cycle(variants), job * len(variants) // jobs, None):
                Agent(METHOD)(variant=variant)

    with play_in_threads(jobs, stop, play_job):
        latest = time.perf_counter() + patience
        while clock.count_least_answers(jobs) < warm and time.perf_counter() < latest:
            time.sleep(0.1)
        had = clock.count_least_answers(jobs)
        begin, answers, python, java = (
            time.perf_counter(),
            clock.answers.total(),
            time.process_time(),
            read_simulator_cpu(),
        )
        time.sleep(seconds)
        after = read_simulator_cpu()
        return MeasuredWindow(
            time.perf_counter() - begin,
            clock.answers.total() - answers,
            time.process_time() - python,
            sum(spent - java.get(process, 0.0) for process, spent in after.items()),
            sorted(clock.first.values()),
            sum(map(read_resident_memory, after)) / max(1, len(after)),
            had,
        )


@contextmanager
def play_in_threads(jobs: int, stop: threading.Event, play: Any) -> Iterator[None]:
    """Have so many threads play for the time of the block. Raises what one of them raised."""
    with ThreadPoolExecutor(jobs) as threads:
        running: list[Any] = [threads.submit(play, job) for job in range(jobs)]
        try:
            yield
        finally:
            stop.set()
    for future in running:
        if future.exception() is not None and not isinstance(future.exception(), Stopped):
            raise future.exception()


def read_simulator_cpu() -> dict[int, float]:
    """CPU seconds that each Java process below this one has taken so far."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and (entry / "comm").read_text().strip() == "java":
                found[int(entry.name)] = (int(fields[11]) + int(fields[12])) / TICKS
        except OSError:
            continue
    return found


def read_resident_memory(process: int) -> float:
    """Resident MB of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
