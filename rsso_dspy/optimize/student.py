"""The program as optimizers see it."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import fmean
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from rsso_dspy.errors import UnknownName
from rsso_dspy.optimize.acceptance import Rollout, TracedCall, estimate_score
from rsso_dspy.optimize.proposing.instructions import keep_instructions, show_sent_instructions
from rsso_dspy.optimize.rollouts import Rollouts, race_on_val
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ROLE_OF
from rsso_dspy.records import Variant


class Student(Agent):
    """An `Agent` whose rollouts come from `Rollouts`. Its copies share them. Its trace, which optimizers sample from,
    holds only the calls that `shown` accepts. Its instructions are those that are sent under the current interface.
    Predictors that must not change are left out of its named ones, so that no optimizer can reach them; they play all
    the same."""

    def __init__(
        self, agent: Agent, rollouts: Rollouts, shown: Callable[[Rollout, TracedCall], bool] = lambda *_: True
    ):
        super().__init__(agent.method.name)
        self.load_state(agent.dump_state())
        show_sent_instructions(self, rollouts.live.runtime.rules.interface)
        self.rollouts = rollouts
        self.shown = shown

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        """The predictors that may be changed."""
        return [(name, predictor) for name, predictor in self.predictors_by_name.items() if name in self.rollouts.tuned]

    def get_program(self) -> Agent:
        """The program that is played. Instructions that are sent unchanged keep the program's own words."""
        program = Agent(self.method.name)
        program.load_state(self.dump_state())
        keep_instructions(program, self.rollouts.live.runtime.rules.interface)
        return program

    def may_play(self, program: Agent, variants: Collection[Variant]) -> bool:  # noqa: ARG002
        """Whether a program may be played on these variants."""
        return True

    def forward(self, variant: str) -> dspy.Prediction:  # type: ignore[override]
        """The rollout on a calibration variant: ``trials``, per trial ``progress``, and ``score``; ``benchmark`` where
        it is not the default one."""
        rollout = play_or_estimate(self.rollouts, self.get_program(), self.rollouts.find_variant(variant))
        if dspy.settings.trace is not None:
            predictors = dict(self.named_predictors())
            calls = [call for call in rollout.calls if call[0] in predictors and self.shown(rollout, call)]
            dspy.settings.trace.extend((predictors[name], dict(given), said) for name, given, said in calls)
        return self.make_prediction(rollout)

    def make_prediction(self, rollout: Rollout) -> dspy.Prediction:
        """The prediction that the metric reads, made of a rollout."""
        played = self.rollouts.live.runtime.benchmark
        other = {"benchmark": played} if played else {}
        return dspy.Prediction(trials=rollout.trials, progress=rollout.progress, score=rollout.score, **other)


def play_or_estimate(rollouts: Rollouts, program: Agent, variant: Variant) -> Rollout:
    """The rollout of a candidate, its score the mean over all seeds that were played. For a val variant that a dropped
    candidate did not play, an estimate without trials."""
    candidate = rollouts.register_candidate(program)
    if candidate.dropped and variant in rollouts.val and variant not in candidate.rollouts:
        best = rollouts.best_candidate or candidate
        return Rollout(variant, estimate_score(candidate, best, variant, rollouts.seeds), (), (), ())
    rollout = rollouts.play(program, variant)
    return replace(rollout, score=fmean(each.score for each in candidate.list_rollouts(variant, rollouts.seeds)))


@contextmanager
def race_in_evaluations(rollouts: Rollouts, jobs: int) -> Iterator[None]:
    """Inside the block, a program that `dspy.Evaluate` plays on `val` races there first; on other variants the budget
    goes to them in their order, whatever the threads do."""
    with dspy.context(callbacks=[*dspy.settings.callbacks, _EvaluationListener(rollouts, jobs)]):
        yield


class _EvaluationListener(BaseCallback):
    """DSPy calls it before every evaluation."""

    def __init__(self, rollouts: Rollouts, jobs: int):
        self.rollouts = rollouts
        self.jobs = jobs

    def on_evaluate_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        variants = [self.rollouts.find_variant(each.variant) for each in inputs.get("devset") or instance.devset]
        student = inputs["program"]
        program = student.get_program()
        if set(variants) == set(self.rollouts.val) and student.may_play(program, variants):
            race_on_val(self.rollouts, program, self.jobs)
        missing = [each for each in variants if not self.rollouts.is_dropped_on(program, each)]
        self.rollouts.reserve_budget(program, missing)


def list_open_predictors(tuned: Sequence[str], deaf: Collection[str]) -> tuple[str, ...]:
    """The predictors that a search may change: those asked for, or else all whose role reads its instruction."""
    if tuple(tuned) != tuple(ROLE_OF):
        return tuple(tuned)
    return tuple(name for name, role in ROLE_OF.items() if role not in deaf)


def resolve_predictors(names: Collection[str] | None) -> tuple[str, ...]:
    """The predictors that these names mean, all of them when None. A name is a predictor's own or a role's,
    which stands for all its predictors. Raises `UnknownName`."""
    if names is None:
        return tuple(ROLE_OF)
    for name in names:
        if name not in ROLE_OF and name not in ROLE_OF.values():
            raise UnknownName("role", name, {*ROLE_OF, *ROLE_OF.values()})
    return tuple(predictor for predictor, role in ROLE_OF.items() if predictor in names or role in names)
