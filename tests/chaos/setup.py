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
TRIALS = 2
PATIENCE = 60.0
"""Seconds after which a request is given up, and in which a run must end when it has to."""


@dataclass(frozen=True)
class Setup:
    """What is played: two methods on one variant, so that reflections and skills are at stake."""

    folder: Path

    def start(self, out: Path, served: Provider) -> Process:
        """The command: always the same, whatever happened before."""
        about = {"model": "openai/gpt-4.1-mini", "base_url": served.url, "key_variable": VARIABLE, "temperature": 0.5}
        about |= {"timeout": PATIENCE, "retries": 2}
        settings = [f"backends.scripted.{name}={value}" for name, value in about.items()]
        settings += ["embedder.model=hash", "protocol.preset=sso-adapt/3-cap60", "protocol.stop_on_success=false"]
        arguments = ["run", "--methods", "reflexion,rsso", "--tasks", "find-living-thing", "--per-task", "1"]
        arguments += ["--trials", str(TRIALS), "--backend", "scripted", "--out", str(out)]
        arguments += [word for setting in settings for word in ("--set", setting)]
        return Process(python("from rsso_dspy.cli import main; main()", *arguments), {VARIABLE: KEY})


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
    said: list[str] = field(default_factory=list)
    """On stderr, by each start."""
    ends: Counter[str] = field(default_factory=Counter)
    """How its starts ended."""
    inflicted: list[str] = field(default_factory=list)
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
