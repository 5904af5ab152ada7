"""What a step costs beside simulator and model, on the one thread that plays, and which part of the work takes it.

    python benchmarks/step_overhead.py

A run of two units (`rsso`, three trials of 60 steps at most, embedded model) is planned, played and written as
`rsso-dspy run` does it, log and all, after another that warms up. Functions at the seams of the parts are
timed; what one of them calls of another part counts for that other part. CPU time of the thread, so that a busy machine
changes little; seconds that passed stand beside it, as waits for the disk are no CPU time. The simulator is the call
that waits for Java, the model is the rule-based player; neither counts, nor does the embedding model, whose vectors are
known after the warm-up. Target: at most 5 ms a step. The last line is one JSON object.
"""

import functools
import json
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy

from benchmarks.script import make_parser, parse_options
from rsso_dspy.adapter import ChatAdapter
from rsso_dspy.config import load_config
from rsso_dspy.embed import Embedder
from rsso_dspy.environments.scienceworld.environment import ScienceWorld
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.executor import UnitRunner
from rsso_dspy.memory.reflections import ReflectionMemory
from rsso_dspy.memory.skills import SkillMemory
from rsso_dspy.offline import Explorer
from rsso_dspy.programs.trial import Conversation
from rsso_dspy.runs import plan_run
from rsso_dspy.sessions import session
from rsso_dspy.store.commands import RunSpec
from rsso_dspy.store.run_folder import Store
from rsso_dspy.store.unit_log import UnitLog

TARGET = 5.0
"""Milliseconds of CPU time a step."""

SETTINGS = ["protocol.preset=sso-adapt/3-cap60", "protocol.stop_on_success=false"]
TASKS = ("boil", "find-plant")

APART = ("simulator", "model", "embedding")
"""Parts that do not count."""

SEAMS: tuple[tuple[str, Any, tuple[str, ...]], ...] = (
    ("rest", UnitRunner, ("run_job",)),
    ("simulator", Jvm, ("__init__", "call")),
    ("driver", ScienceWorld, ("reset", "step")),
    ("history", Conversation, ("begin_turn", "end_turn")),
    ("recall", SkillMemory, ("preamble", "recall", "observe")),
    ("recall", ReflectionMemory, ("preamble", "recall", "observe")),
    ("learn", SkillMemory, ("learn", "snapshot")),
    ("learn", ReflectionMemory, ("learn", "snapshot")),
    ("embedding", Embedder, ("__call__",)),
    ("DSPy's call", dspy.Predict, ("__call__",)),
    ("prompt", ChatAdapter, ("format", "_call_preprocess")),
    ("parsing", ChatAdapter, ("_call_postprocess",)),
    ("request", dspy.LM, ("__call__",)),
    ("model", Explorer, ("complete",)),
    ("log", UnitLog, ("begin", "fail", "end", "note_read", "add_head", "add_trial")),
    ("records", Store, ("open_log", "load")),
)
"""Part, where its functions are, and their names."""


class PartTimer:
    """CPU and passed seconds by part, each part less what it calls of others. Counts the thread that plays alone."""

    def __init__(self) -> None:
        self.cpu: Counter[str] = Counter()
        self.passed: Counter[str] = Counter()
        self._parts: list[str] = []
        self._since = (0.0, 0.0)
        self._player = 0

    def time_function(self, part: str, owner: Any, name: str) -> None:
        """Have the function tell of its beginning and end."""
        inner: Callable[..., Any] = getattr(owner, name)

        @functools.wraps(inner)
        def timed_call(*args: Any, **kwargs: Any) -> Any:
            if not self._parts and part == "rest":
                self._player = threading.get_ident()
            if threading.get_ident() != self._player:
                return inner(*args, **kwargs)
            self._book_time()
            self._parts.append(part)
            try:
                return inner(*args, **kwargs)
            finally:
                self._book_time()
                self._parts.pop()

        setattr(owner, name, timed_call)

    def clear(self) -> None:
        self.cpu.clear()
        self.passed.clear()

    def _book_time(self) -> None:
        now = time.thread_time(), time.perf_counter()
        if self._parts:
            self.cpu[self._parts[-1]] += now[0] - self._since[0]
            self.passed[self._parts[-1]] += now[1] - self._since[1]
        self._since = now


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--tasks", default=",".join(TASKS), help="task types, comma-separated")
    parser.add_argument("--trials", type=int, default=3)
    options = parse_options(parser, tasks="lifespan-longest-lived", trials=2)
    watch = PartTimer()
    for part, owner, names in SEAMS:
        for name in names:
            watch.time_function(part, owner, name)
    config = load_config(overrides=[*SETTINGS, f"protocol.trials={options.trials}"])
    with session(config) as live, tempfile.TemporaryDirectory() as folder:
        for round_ in ("warm-up", "timed"):
            order = RunSpec(
                methods=("rsso",), tasks=tuple(options.tasks.split(",")), per_task=1, out=Path(folder) / round_
            )
            planned = plan_run(config, order)
            watch.clear()
            planned.execute(live, 1)
            units = list(planned.store.units())
    steps = sum(len(trajectory.steps) for unit in units for trajectory in unit.trajectories)
    print_parts(watch, steps)


def print_parts(watch: PartTimer, steps: int) -> None:
    cpu = {part: round(1000 * watch.cpu[part] / steps, 3) for part in dict.fromkeys(part for part, *_ in SEAMS)}
    passed = {part: 1000 * watch.passed[part] / steps for part in cpu}
    counted = [part for part in cpu if part not in APART]
    print(f"{'milliseconds a step':24}{'CPU':>8}{'passed':>9}")
    for part in [*sorted(counted, key=lambda each: -cpu[each]), *APART]:
        print(f"{part:24}{cpu[part]:8.3f}{passed[part]:9.3f}{'  (not counted)' if part in APART else ''}")
    total = round(sum(cpu[part] for part in counted), 3)
    print(f"{'all that counts':24}{total:8.3f}{sum(passed[part] for part in counted):9.3f}")
    result = {"cpu_ms_per_step": total, "target": TARGET, "parts": cpu, "steps": steps, "load": os.getloadavg()[0]}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
