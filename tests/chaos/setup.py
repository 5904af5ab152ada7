"""What is played: the command, the model that answers it, and what became of it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspy.lm15 import Config, Message, Request

from rsso_dspy.offline import Explorer
from tests.chaos.process import Process, Simulator, python
from tests.provider_formats import CHAT, Said, text_of
from tests.provider_server import Provider

KEY = "sk-planted-secret"
VARIABLE = "CHAOS_KEY"
RETRIES = 2
TIMEOUT = 3.0
PATIENCE = 60.0
"""Seconds in which a run must end when it has to, and in which it must ask for something when it has not ended."""

MAIN = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from rsso_dspy.cli import main
main()
"""
"""The command. Ctrl-C reaches it even where it is ignored, as it is behind a shell's `&`."""


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
        about = {"model": "openai/gpt-4.1-mini", "base_url": served.url, "key_variable": VARIABLE, "temperature": 0.5}
        about |= {"timeout": self.timeout, "retries": RETRIES}
        settings = [f"backends.scripted.{name}={value}" for name, value in about.items()]
        settings += ["embedder.model=hash", "protocol.preset=sso-adapt/2-cap60", "protocol.stop_on_success=false"]
        arguments = ["run", "--methods", "reflexion,rsso", "--tasks", self.tasks, "--per-task", str(self.per_task)]
        arguments += ["--trials", str(self.trials), "--jobs", str(self.jobs), "--backend", "scripted"]
        arguments += ["--out", str(out), *(word for setting in settings for word in ("--set", setting))]
        return Process(python(MAIN, *arguments), {VARIABLE: KEY})


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
    made_anew: int = 0
    """How often a folder that was taken away was made anew."""

    @property
    def answers(self) -> int:
        return self.served.given


@contextmanager
def running(setup: Setup, played: Played) -> Iterator[Process]:
    process = setup.start(played.out, played.served)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)
