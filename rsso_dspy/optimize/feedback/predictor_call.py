"""One answer of one predictor with the trials it belongs to: everything that a rule of feedback reads."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsso_dspy.environments import Goal
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.optimize.feedback.wording import WordingComparer
from rsso_dspy.records import Step, Trajectory, TrialResult

_ENDINGS = {
    "solved": "solved the task",
    "failed": "was ended by the environment",
    "budget": "ended with the task undone",
    "stalled": "brought the simulator to a standstill",
    "repeated": "was ended because one action was repeated over and over",
    "exhausted": "was ended because it went in circles",
    "error": "was cut short",
}


@dataclass(frozen=True)
class PredictorCall:
    """One answer of one predictor, and the trials it was given in."""

    inputs: Mapping[str, Any]
    outputs: Any
    results: tuple[TrialResult, ...]
    goals: Sequence[Sequence[Goal]]
    """Goals per trial; empty when unknown."""
    benchmark: Benchmark

    @property
    def wording(self) -> WordingComparer:
        """Compares texts in the benchmark's grammar."""
        return WordingComparer(self.benchmark.grammar)

    @property
    def trials(self) -> tuple[Trajectory, ...]:
        return tuple(result.trajectory for result in self.results if result.trajectory is not None)

    @property
    def solved(self) -> bool:
        """Whether a trial solved the variant; then no advice is needed."""
        return any(trial.solved for trial in self.trials)

    def get_output(self, *names: str) -> str:
        """The first of these output fields that holds a text."""
        return next((str(text) for name in names if (text := self.outputs.get(name))), "")

    def get_input(self, name: str) -> str:
        """An input field as text; empty when the call had none."""
        return str(self.inputs.get(name) or "")


def report_results(trials: Sequence[Trajectory]) -> Iterator[str]:
    """Yield how each trial ended."""
    for each in trials:
        yield f"Trial {each.trial} {_ENDINGS[each.outcome]}, at {each.environment_score} of 100 points."


def list_mistakes(trial: Trajectory) -> list[Step]:
    """Steps that cost points or were not understood. A bare number answers a question and names no action."""
    actions = [step for step in trial.steps if step.action and not step.action.isdigit()]
    return [step for step in actions if step.reward < 0 or not step.understood]
