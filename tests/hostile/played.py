"""The command in a process of its own, against a model that counts what it is paid for and decides when things happen.

with counting() as model:
    model.before = lambda: model.kill() if model.given == 20 else None
    model.start("run", "--methods", "react", ..., "--out", out).wait(60)
model.given             # answers that the process received before it was killed
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.process import Process, python
from tests.chaos.setup import scripted
from tests.provider_formats import Said
from tests.provider_server import Provider, provider

VARIABLE = "HOSTILE_KEY"
INPUT, OUTPUT = 100, 10
"""Tokens of every request and answer, so that a bill is a number of answers."""
TASK = "gripper"
VARIANT = f"{TASK}::50"
"""Of `Model.benchmark`, which starts no simulator."""
PATIENCE = 120.0


@dataclass
class Model:
    """The embedded model behind HTTP."""

    served: Provider = field(init=False)
    given: int = 0
    """Answers given to a process that was alive."""
    before: Callable[[], object] = lambda: None
    """Called when a request has come and is not answered yet."""
    process: Process | None = None
    benchmark: str = "pddl"

    def answer(self, body: dict[str, Any]) -> Said:
        process = self.process
        self.before()
        if process is not None and process.alive:
            self.given += 1
        return Said(scripted(body).text, INPUT, OUTPUT)

    @property
    def settings(self) -> list[str]:
        """Options that have a command ask it."""
        about = {"model": "openai/m", "base_url": self.served.url, "key_variable": VARIABLE, "temperature": 0.5}
        settings = [f"backends.scripted.{name}={value}" for name, value in about.items()]
        settings += ["embedder.model=hash", "protocol.preset=sso-adapt/1-cap60", "protocol.stop_on_success=false"]
        settings += ["memory.constitution.r_freq=5", f"benchmark={self.benchmark}"]
        settings += ['prices."openai/m".input=10000', 'prices."openai/m".output=0']  # a dollar an answer
        return ["--backend", "scripted", *(word for setting in settings for word in ("--set", setting))]

    def start(self, *words: str | Path) -> Process:
        """Start a command."""
        code = "from rsso_dspy.cli import main; main()"
        self.process = Process(python(code, *map(str, words), *self.settings), {VARIABLE: "k", "COLUMNS": "400"})
        return self.process

    def kill(self) -> None:
        """Kill what plays, at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)


@contextmanager
def counting() -> Iterator[Model]:
    """Serve the model for the time of the block; no process outlives it."""
    model = Model()
    os.environ.setdefault(VARIABLE, "k")
    with provider(model.answer) as model.served:
        try:
            yield model
        finally:
            if model.process is not None:
                model.kill()
