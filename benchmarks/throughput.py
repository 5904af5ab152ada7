"""How much of a model's waiting time is filled when several units are played at once.

    python benchmarks/throughput.py --jobs 8 --latency 1.0

Every answer takes `latency` seconds longer than the embedded model needs. One job gives the time of a step without
that wait (simulator, memories, prompt, parsing). With `jobs` jobs the best possible rate is jobs / (latency + that
time); the ratio is the measured rate to it. Rates are counted while all jobs are at work, after the simulators have
started. The last line is one JSON object.
"""

import argparse
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Request, Response

from rsso_dspy.backends.embedded import Explorer
from rsso_dspy.config import EMBEDDED, load
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.errors import Stopped
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol.session import Session, session

METHOD = "rsso"
SETTINGS = ["protocol.preset=sso-adapt/1-cap60", "protocol.trials=3", "protocol.stop_on_success=false"]


class Slow(Explorer):
    """The embedded model behind a network."""

    def __init__(self, seed: int, latency: float, answered: "Clock"):
        super().__init__(seed=seed)
        self.latency = latency
        self.answered = answered

    def complete(self, request: Request) -> Response:
        time.sleep(self.latency)
        response = super().complete(request)
        self.answered.tick()
        return response


class Clock:
    """When answers came."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._lock = threading.Lock()

    def tick(self) -> None:
        with self._lock:
            self._times.append(time.perf_counter())

    def rate(self, begin: float, end: float) -> float:
        """Answers per second between two moments."""
        with self._lock:
            return sum(begin <= moment < end for moment in self._times) / (end - begin)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=8)
    options.add_argument("--latency", type=float, default=1.0)
    options.add_argument("--seconds", type=float, default=60.0)
    given = options.parse_args()
    config = load(overrides=SETTINGS)
    with session(config, jobs=given.jobs) as live:
        step = 1 / measured(live, 1, 0.0, given.seconds / 3, warm=15.0)[0]
        rate, workers = measured(live, given.jobs, given.latency, given.seconds, warm=25.0)
    best = given.jobs / (given.latency + step)
    print(f"one job, no latency: {1000 * step:.1f} ms a step ({METHOD}, {config.embedder.model})")
    print(f"{given.jobs} jobs, {given.latency:g} s latency, {os.cpu_count()} cores: {rate:.2f} steps a second")
    print(f"best possible: {given.jobs} / ({given.latency:g} + {step:.3f}) = {best:.2f} a second")
    print(f"memory: {resident(os.getpid()):.0f} MB for the program, {workers:.0f} MB per simulator")
    print(json.dumps({"ratio": round(rate / best, 3), "jobs": given.jobs, "step_ms": round(1000 * step, 1)}))


def measured(live: Session, jobs: int, latency: float, seconds: float, warm: float) -> tuple[float, float]:
    """Answers per second, and resident MB of a simulator."""
    clock, stop = Clock(), threading.Event()
    runtime = replace(
        live.runtime,
        lm=lambda _role, n: dspy.LM(EMBEDDED, engine=Slow(n, latency, clock), cache=False, temperature=0.5),
        stopped=stop.is_set,
    )
    variants = [variant for task in tasks.tasks() for variant in tasks.held_out(task, n=4)]

    def play(job: int) -> None:
        with live.here(), runtime.active():
            for variant in variants[job::jobs]:
                Agent(METHOD)(variant=variant)

    with ThreadPoolExecutor(jobs) as threads:
        running: list[Any] = [threads.submit(play, job) for job in range(jobs)]
        time.sleep(warm)
        begin = time.perf_counter()
        time.sleep(seconds)
        rate, memory = clock.rate(begin, time.perf_counter()), simulators()
        stop.set()
    for future in running:
        if future.exception() is not None and not isinstance(future.exception(), Stopped):
            raise future.exception()
    return rate, memory


def simulators() -> float:
    """Mean resident MB of the Java processes below this one."""
    sizes = [resident(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit() and ours(entry)]
    return sum(sizes) / len(sizes) if sizes else 0.0


def ours(entry: Path) -> bool:
    try:
        parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        return parent == os.getpid() and (entry / "comm").read_text().strip() == "java"
    except OSError:
        return False


def resident(process: int) -> float:
    """Resident MB of a process."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    main()
