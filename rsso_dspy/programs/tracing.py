"""Which calls of a trial DSPy's trace keeps. Optimizers sample from the trace, about one call a predictor and rollout:
of the hundreds of actor calls they get those that teach something, and every call of the other roles.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import dspy

from rsso_dspy.programs.actor import first_line
from rsso_dspy.records import Step, Trajectory

TraceEntry = tuple[dspy.Predict, dict[str, Any], dspy.Prediction]
"""An entry of DSPy's trace: predictor, inputs, outputs."""


@dataclass(frozen=True, slots=True)
class TrialTrace:
    """The calls of one trial, kept apart until it is known which of them matter."""

    calls: list[TraceEntry]
    outer: list[TraceEntry] | None
    """The trace that the caller of the program reads; None when nobody does."""

    def publish_calls(self, trajectory: Trajectory, actor: dspy.Module) -> None:
        """Hand over the informative calls of a finished trial."""
        if self.outer is not None:
            self.outer.extend(prune_calls(self.calls, trajectory, actor))


@contextmanager
def collect_trial_trace() -> Iterator[TrialTrace]:
    """Collect the calls of the block apart from the trace around it. A block that raises leaves nothing there."""
    outer = dspy.settings.trace
    calls: list[TraceEntry] = []
    with dspy.context(trace=None if outer is None else calls):
        yield TrialTrace(calls, outer)


def prune_calls(calls: Sequence[TraceEntry], trajectory: Trajectory, actor: dspy.Module) -> list[TraceEntry]:
    """The calls in order, less the actor's uninformative ones, with the inputs that were in the prompt. An answer that
    could not be parsed leaves no call; one that holds no action is a malformed step and is kept."""
    acting = {id(predictor) for predictor in actor.predictors()}
    acted = [step for step in trajectory.steps if not step.malformed]
    worth = iter(mark_informative_steps(acted))
    kept = []
    for call in calls:
        predictor, inputs, outputs = call
        if id(predictor) in acting and _read_action(outputs) and not next(worth, True):
            continue
        kept.append((predictor, {name: value for name, value in inputs.items() if value != ""}, outputs))
    return kept


def mark_informative_steps(steps: Sequence[Step]) -> list[bool]:
    """For each step whether it teaches something: it changed the score, was not understood, gave again what the same
    action had given before, or was the last."""
    seen: set[tuple[str, str]] = set()
    worth = []
    for step in steps:
        did = (step.action, step.state.observation)
        worth.append(bool(step.reward) or not step.understood or did in seen or step is steps[-1])
        seen.add(did)
    return worth


def _read_action(answer: dspy.Prediction) -> str:
    return first_line(answer.get("next_action") or answer.get("action"))


def open_span(name: str, **attributes: str) -> AbstractContextManager[object]:
    """A span called `name` around the block where `mlflow.dspy.autolog` listens; nothing elsewhere."""
    mlflow = sys.modules.get("mlflow")
    if mlflow is None or not any(type(each).__module__.startswith("mlflow.") for each in dspy.settings.callbacks or ()):
        return nullcontext()
    span: AbstractContextManager[object] = mlflow.start_span(name=name, attributes=attributes)
    return span
