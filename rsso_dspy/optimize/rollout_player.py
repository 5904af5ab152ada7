"""Plays one rollout: a candidate's trials on one calibration variant, by the student or by its teacher."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace

import dspy

from rsso_dspy.errors import BackendFailure
from rsso_dspy.logged_lm import lookup_recorded_policy
from rsso_dspy.optimize.candidates import Rollout
from rsso_dspy.optimize.compile_account import CompileAccount
from rsso_dspy.optimize.goal_recording import GoalRecordingEnvironments
from rsso_dspy.optimize.metric import score_trials
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.optimize.teacher import Lead
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.records import Failure, Variant
from rsso_dspy.sessions import Session

Job = tuple[str, Variant, int]
"""Fingerprint of a program, a variant, and which of its seeds."""


@dataclass(frozen=True)
class RolloutPlayer:
    """Who plays, and under which rules."""

    live: Session
    budgets: Mapping[Variant, int]
    """Steps per trial of every calibration variant."""
    trials: int
    seed: int
    """Seed of the first rollout on a variant; further rollouts count up from it."""
    max_idle: int | None
    lead: Lead | None
    """The teacher, who plays its variants in place of the program's own models."""
    logs: RolloutLogs

    def find_lead(self, variant: Variant) -> Lead | None:
        """The teacher, if this variant is the teacher's to play."""
        return self.lead if self.lead and variant in self.lead.variants else None

    def is_free(self, variant: Variant) -> bool:
        """Whether playing this variant asks no model, because `gold` plays its path."""
        lead = self.find_lead(variant)
        return lead is not None and not lead.asks_models

    def play(self, program: Agent, job: Job, account: CompileAccount) -> Rollout:
        """Play one rollout, and once more if infrastructure failed. Raises `BackendFailure` when that fails again."""
        name, variant, repeat = job
        names = {id(predictor): each for each, predictor in program.predictors_by_name.items()}
        lead = self.find_lead(variant)
        asked = [0]
        failure: Failure | None = None
        for _ in range(2):
            watched = GoalRecordingEnvironments(self.live.runtime.environments)
            runtime = self._make_runtime(watched, account)
            if lead:
                runtime = lead.take_over(runtime, variant)
            with (
                self.logs.log_rollout(name, variant, repeat, lead is not None) as log,
                self.live.activate_for_run(),
                dspy.context(adapter=lead.adapter) if lead else nullcontext(),
                runtime.activate(),
                account.count_requests(asked) if lead is None or lead.asks_models else nullcontext(),
                dspy.context(trace=[]),
            ):
                played = Agent.forward(program, variant, seed=self.seed + repeat)
                calls = tuple((names[id(predictor)], given, said) for predictor, given, said in dspy.settings.trace)
                failure = played.trials[-1].failure
                if failure is not None:
                    log.void(0, f"it could not be played: {failure}")
            if failure is None:
                trials = lead.bill(played.trials) if lead else played.trials
                goals = tuple(watched.progress)
                return Rollout(variant, score_trials(trials), trials, goals, calls, asked[0], repeat)
            if lookup_recorded_policy(failure) == "stop":
                break
        raise BackendFailure(
            f"{variant.key} could not be played: {failure}. That is no score, so the compile ends; mend the cause "
            "(`rsso-dspy doctor`) and repeat the command"
        )

    def _make_runtime(self, watched: GoalRecordingEnvironments, account: CompileAccount) -> Runtime:
        rules = replace(
            self.live.runtime.rules,
            trials=self.trials,
            max_idle=self.max_idle,
            learn_after_success=False,  # no later trial would show what its skills are worth
        )
        return replace(
            self.live.runtime,
            environments=watched,
            budget=self.budgets.__getitem__,
            spend=account.record_usage,
            recall=account.recall_usage,
            rules=rules,
            stopped=account.is_stopping,
        )
