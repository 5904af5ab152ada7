"""The program as optimizers see it."""

from collections.abc import Callable

import dspy

from rsso_dspy.optimize.rollouts import Call, Rollout, Rollouts
from rsso_dspy.programs.agent import Agent


class Student(Agent):
    """An `Agent` whose rollouts come from `Rollouts`. Its copies share them, and its trace, which optimizers sample
    from, holds the calls that `shown` lets through."""

    def __init__(self, agent: Agent, rollouts: Rollouts, shown: Callable[[Rollout, Call], bool] = lambda *_: True):
        super().__init__(agent.method.name)
        self.load_state(agent.dump_state())
        self.rollouts = rollouts
        self.shown = shown

    def forward(self, variant: str) -> dspy.Prediction:  # type: ignore[override]
        """The rollout on a calibration variant: ``trials`` and, per trial, ``progress``."""
        rollout = self.rollouts.play(self, self.rollouts.variant(variant))
        if dspy.settings.trace is not None:
            predictors = dict(self.named_predictors())
            calls = [call for call in rollout.calls if self.shown(rollout, call)]
            dspy.settings.trace.extend((predictors[name], dict(given), said) for name, given, said in calls)
        return dspy.Prediction(trials=rollout.trials, progress=rollout.progress)
