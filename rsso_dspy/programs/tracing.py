"""Selects the calls of a trial for DSPy's trace. Optimizers sample about one call per predictor and rollout from it, so
it keeps only the informative ones of the actor's hundreds of calls, and every call of the other roles.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.dsp.utils.settings import main_thread_config

from rsso_dspy.programs.actor import first_line
from rsso_dspy.records import Step, Trajectory

TraceEntry = tuple[dspy.Predict, dict[str, Any], dspy.Prediction]
"""An entry of DSPy's trace: predictor, inputs, outputs."""


@dataclass(frozen=True, slots=True)
class TrialTrace:
    """The calls of one trial, kept separately until it is known which are informative."""

    calls: list[TraceEntry]
    outer: list[TraceEntry] | None
    """The trace of the program's caller; None if there is none."""

    def publish_calls(self, trajectory: Trajectory, actor: dspy.Module) -> None:
        """Add the informative calls of a finished trial to the caller's trace."""
        if self.outer is not None:
            self.outer.extend(prune_calls(self.calls, trajectory, actor))


def find_callers_trace() -> list[TraceEntry] | None:
    """Return the trace that the caller opened with `dspy.context(trace=...)`, as DSPy's optimizers do. None for the
    process-wide one, which DSPy always has and never empties: it would keep the prompts of thousands of steps."""
    trace: list[TraceEntry] | None = dspy.settings.trace
    return None if trace is main_thread_config.get("trace") else trace


@contextmanager
def collect_trial_trace() -> Iterator[TrialTrace]:
    """Collect the calls of the block separately from the outer trace, so that a failing block adds nothing to it."""
    outer = dspy.settings.trace
    calls: list[TraceEntry] = []
    with dspy.context(trace=None if outer is None else calls):
        yield TrialTrace(calls, outer)


def prune_calls(calls: Sequence[TraceEntry], trajectory: Trajectory, actor: dspy.Module) -> list[TraceEntry]:
    """Return the calls in order without the actor's uninformative ones, with the inputs that were in the prompt. An
    unparsable answer leaves no call; an answer without an action is a malformed step and is kept."""
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
    """Return for each step whether it is informative: it changed the score, was not understood, repeated an action with
    the same result, or was the last."""
    seen: set[tuple[str, str]] = set()
    worth = []
    for step in steps:
        did = (step.action, step.state.observation)
        worth.append(bool(step.reward) or not step.understood or did in seen or step is steps[-1])
        seen.add(did)
    return worth


def _read_action(answer: dspy.Prediction) -> str:
    return first_line(answer.get("next_action") or answer.get("action"))
