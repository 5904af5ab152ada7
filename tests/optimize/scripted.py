"""Compiles whose outcome is known beforehand: real variants, models whose answers a script gives.

Going outside is worth 50 points on every variant here; whether an actor goes depends on what its prompt says.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import dspy

from rsso_dspy.config import CompileOptions
from rsso_dspy.environments.scienceworld.tasks import train_sample
from rsso_dspy.executor import EventStream
from rsso_dspy.lm import make_logged
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.compile import CompileRequest
from rsso_dspy.optimize.optimizers import PROPOSAL_CHARACTERS, Optimizer, get_optimizer
from rsso_dspy.optimize.rollouts import RolloutFinished, Rollouts
from rsso_dspy.optimize.verdict import Rollout
from rsso_dspy.programs.methods import get_method
from rsso_dspy.records import Variant
from rsso_dspy.sessions import Session
from tests.live import Engine, is_asked, region, says

LONGEST = train_sample("lifespan-longest-lived", 4)
SHORTEST = train_sample("lifespan-shortest-lived", 4)

ADVICE = "Visit another room first."
GO = "teleport to outside"
STAY = "look around"
STEPS = 2


class Models:
    """The models of a session, a script for each role: prompt in, answer out. A role without one fails the test."""

    def __init__(self, **scripts: Callable[[str], str]):
        self.engines = {role: Engine(script) for role, script in scripts.items()}

    def __call__(self, role: str, _rollout: int) -> dspy.BaseLM:
        engine, most = self.engines[role], PROPOSAL_CHARACTERS  # this engine counts a character as a token
        return make_logged(dspy.LM("embedded/explorer", engine=engine, cache=False, num_retries=0, max_tokens=most))

    @property
    def asked(self) -> dict[str, int]:
        """Requests by role."""
        return {role: len(engine.prompts) for role, engine in self.engines.items()}

    def within(self, live: Session) -> Session:
        """The session with these models."""
        return replace(live, runtime=replace(live.runtime, lm=self))


def actor(goes: Callable[[str], bool], then: str = STAY) -> Callable[[str], str]:
    """A flat actor that goes outside where `goes` says so of its prompt, and does `then` there; otherwise it looks
    around."""

    def answer(prompt: str) -> str:
        went = GO in prompt.partition("<user>")[2]
        action = then if went else GO if goes(prompt) else STAY
        return says(thought=f"I will {action}.", action=action)

    return answer


def advised(prompt: str) -> bool:
    """Whether the instruction, which is in the system message, holds the advice."""
    return ADVICE in prompt.partition("<user>")[0]


def shown(prompt: str) -> bool:
    """Whether a demonstration, which is in the system message, goes outside."""
    return GO in prompt.partition("<user>")[0].partition("Examples:")[2]


def asks_for(word: str) -> Callable[[str], bool]:
    """Whether the task, which is in the first message, holds a word."""
    return lambda prompt: word in prompt.partition("<user>")[2]


def adding(prompt: str, line: str) -> str:
    """An answer to a proposer of DSPy's that adds a line to the instruction, once."""
    asked = "new_instruction" if is_asked(prompt, "new_instruction") else "proposed_instruction"
    current = region(prompt, "current_instruction" if asked == "new_instruction" else "basic_instruction")
    return says(**{asked: current if line in current else f"{current}\n{line}"})


def proposer(lines: Iterable[str]) -> Callable[[str], str]:
    """A proposer that adds these lines to the instruction, one after the other, and then repeats the last."""
    left, line = iter(lines), ""

    def answer(prompt: str) -> str:
        nonlocal line
        line = next(left, line)
        return adding(prompt, line)

    return answer


def wanted(
    optimizer: str | Optimizer = "gepa",
    train: tuple[Variant, ...] = LONGEST[:2],
    val: tuple[Variant, ...] = SHORTEST[:1],
    rollouts: int = 12,
    method_name: str = "react",
    trials: int = 1,
    steps: int = STEPS,
    confirm: tuple[Variant, ...] = (),
    **more: Any,
) -> CompileRequest:
    """A small request; without `confirm`, nothing it finds is confirmed."""
    return CompileRequest(
        method=get_method(method_name),
        calibration=Calibration(train, val, confirm),
        optimizer=get_optimizer(optimizer) if isinstance(optimizer, str) else optimizer,
        options=CompileOptions(trials=trials, steps=steps),
        seed=0,
        max_rollouts=rollouts,
        **more,
    )


class Keep(EventStream):
    """Keeps what is told of rollouts."""

    def __init__(self) -> None:
        super().__init__()
        self.of: Rollouts | None = None
        self.told: list[tuple[str, Rollout]] = []
        self.subscribe(RolloutFinished, self.on_rollout)

    def on_rollout(self, event: RolloutFinished) -> None:
        self.of = event.rollouts
        self.told.append((event.candidate.program, event.rollout))


class CutShort(Keep):
    """Ends the compile after so many rollouts, as Ctrl-C would."""

    def __init__(self, after: int):
        super().__init__()
        self.after = after

    def on_rollout(self, event):
        super().on_rollout(event)
        if len(self.told) == self.after:
            event.rollouts.stop_compile("interrupted")


def rollouts_of(live: Session, limit: int = 10) -> Rollouts:
    """Rollouts outside a compile, on the first of `LONGEST`."""
    return Rollouts(live, wanted(train=LONGEST[1:], val=LONGEST[:1], rollouts=limit), events=Keep())
