"""Two compiles by the embedded model, played once for all tests that look at them."""

from dataclasses import dataclass, replace

import dspy
import pytest

from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.environments.scienceworld.jvm import Jvm
from rsso_dspy.environments.scienceworld.tasks import train_sample
from rsso_dspy.optimize.compile import CompileRequest, compile_agent
from rsso_dspy.optimize.program_file import Compiled
from rsso_dspy.programs.agent import Agent
from rsso_dspy.sessions import Session
from tests.live import Recorder
from tests.optimize.scripted import LONGEST, Keep, wanted

MARKER = "axolotl-7f3a"
"""Stands in every goal's description, and so must stand nowhere else."""

THERMOMETER = train_sample("use-thermometer", 1)[0]
"""In 14 steps there is time for a skill to be made of two trials."""

TRAIN = (THERMOMETER, LONGEST[0])
VAL = (train_sample("chemistry-mix", 2)[1],)
REQUESTS = {
    name: wanted(name, TRAIN, VAL, rollouts, method_name="rsso", trials=3, steps=14)
    for name, rollouts in (("gepa", 8), ("bootstrap", 4))
}


@dataclass(frozen=True)
class Recorded:
    """A compile in which every prompt was kept and every description of a goal held the marker."""

    request: CompileRequest
    compiled: Compiled
    observed: Keep
    prompts: dict[str, list[str]]
    """By role."""
    described: list[str]
    """What the simulator told of the goals."""


@pytest.fixture(scope="session")
def gepa_compile(live: Session) -> Recorded:
    return record(live, REQUESTS["gepa"])


@pytest.fixture(scope="session")
def bootstrap_compile(live: Session) -> Recorded:
    return record(live, REQUESTS["bootstrap"])


@pytest.fixture(params=REQUESTS)
def recorded(request: pytest.FixtureRequest) -> Recorded:
    """Each of the two."""
    return request.getfixturevalue(f"{request.param}_compile")


def record(live: Session, request: CompileRequest) -> Recorded:
    prompts: dict[str, list[str]] = {}
    described: list[str] = []
    call = Jvm.call

    def marked(jvm: Jvm, name: str, *arguments: object, **options: object) -> object:
        answer = call(jvm, name, *arguments, **options)
        if name == "getGoalProgressStr":
            answer = "\n".join(f"{line} {MARKER}" if "\t" in line else line for line in str(answer).split("\n"))
            described.append(answer)
        return answer

    def lm(role: str, rollout: int) -> dspy.LM:
        usual = live.runtime.lm(role, rollout)
        recorder = Recorder(rollout, prompts.setdefault(role, []))
        return dspy.LM(usual.model, engine=recorder, cache=False, **usual.kwargs)

    def refuse(*_: object) -> None:
        raise AssertionError("a gold path was asked for")

    observed = Keep()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Jvm, "call", marked)
        patch.setattr(tasks, "compute_gold_paths", refuse)
        within = replace(live, runtime=replace(live.runtime, lm=lm))
        compiled = compile_agent(Agent(request.method.name), within, request, events=observed)
    return Recorded(request, compiled, observed, prompts, described)
