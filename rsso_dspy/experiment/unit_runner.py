"""Plays one unit or training from its last finished trial on, and saves every further trial at once.

    player = UnitRunner(live, store, programs, provenance)
    player.run_job(plan, unit)         # writes its log and returns a UnitRecord

A unit starts from empty memories, from those of its training, from what the previous unit in its stream hands on, or
from loaded files. A started unit resumes from the memories after its last finished trial, so its record does not
depend on the interruption.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import dspy

from rsso_dspy.calls import find_log_folder
from rsso_dspy.experiment.events import EventStream, TrialFinished, UsageSpent
from rsso_dspy.experiment.initial_memories import NOTHING_CARRIED, InitialMemories
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.experiment.session import Session
from rsso_dspy.memory.improvements import pass_on_reflections
from rsso_dspy.playing import playing
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import ResumeState, TrialRules
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.records import (
    Source,
    TrainingRecord,
    TrialResult,
    UnitRecord,
    Variant,
)
from rsso_dspy.store.memory_sources import count_entries, describe, sources_of
from rsso_dspy.store.run_folder import Store, name_log
from rsso_dspy.store.unit_log import JobRecord, UnitLog
from rsso_dspy.store.units import Arm, Job, Training, Unit


def open_source(live: Session) -> Store | None:
    """Return the run whose logs answer instead of the session's models; None if the models answer."""
    folder = live.backend.replay
    return Store(find_log_folder(folder), read_only=True) if folder else None


@dataclass(eq=False)
class UnitRunner:
    """Plays the work of one run."""

    live: Session
    store: Store
    programs: Mapping[Arm, Agent]
    """Arm to its program, which threads share."""
    provenance: dict[str, str]
    carried: InitialMemories = NOTHING_CARRIED
    """Initial memories of every unit."""
    events: EventStream = field(default_factory=EventStream)
    """Receives the cost of every answer and every finished trial."""
    source: Store | None = None
    """Run whose logs answer instead of models."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to abandon all current trials before their next step."""

    def run_job(self, plan: Plan, work: Job) -> JobRecord:
        """Play the pending trials of a unit or training, and return its record."""
        log = self.store.open_log(work)
        if log.has_error:
            log.void(len(log.results), "it ended in an error and is played again")
        if self.source is not None:
            log.source = self.source.read_log(work).make_answers(name_log(work))
        log.answer_from_own(len(log.results) + 1)
        if isinstance(work, Training):
            self._run_training(plan, work, log)
        else:
            self._run_unit(plan, work, log)
        record = log.make_record()
        assert record is not None
        return record

    def is_trained(self, plan: Plan, unit: Unit) -> bool:
        """Return whether the unit needs no training or its training is finished."""
        training = plan.get_training(unit)
        if training is None:
            return True
        record = self.store.load(training)
        return record is not None and not record.has_errors

    def is_refused(self, unit: Unit) -> bool:
        """Return whether the environment refused the unit, which its stream passes over."""
        record = self.store.load(unit)
        return record is not None and record.is_refused

    def _run_unit(self, plan: Plan, unit: Unit, log: UnitLog) -> None:
        kept = self._load_initial_memories(plan, unit)
        rules = plan.get_rules(unit)
        record = UnitRecord(
            **self._describe_job(plan, unit, kept),
            variant=unit.variant,
            budget=unit.budget,
            trials_allowed=rules.trials,
            trials=(),
        )
        log.add_head(record, rules.stop_on_success)
        start = ResumeState({**kept.memories, **log.memories}, log.results)
        keeps = not (plan.get_training(unit) and rules.frozen)  # otherwise they are those of the training
        self._run_trials(rules, unit, unit.variant, unit.budget, rules.trials, start, log, keeps)

    def _load_initial_memories(self, plan: Plan, unit: Unit) -> InitialMemories:
        kept, training = self.carried.select_for(unit.arm.method), plan.get_training(unit)
        if training:
            learnt = self.store.load(training)
            assert learnt is not None
            met = dict.fromkeys([*learnt.learnt_on, *(variant.key for variant in training.episodes)])
            sources = (*learnt.sources, *sources_of(learnt.memories, "training", learnt.task))
            handed = {name: self._pass_on_reflections(name, left) for name, left in learnt.memories.items()}
            kept = InitialMemories(handed, sources, variants=tuple(met))
        if not unit.place:
            return kept
        method = unit.arm.method
        lasting = method.streamed
        if (before := plan.get_previous_unit(unit, self.is_refused)) is not None:
            left = self.store.load(before)
            assert left is not None
            met = dict.fromkeys([*left.learnt_on, before.variant.key])
            handed = {name: self._pass_on_reflections(name, left.memories[name]) for name in lasting}
            if "constitution" in handed:
                handed["constitution"] = {**handed["constitution"], "edits": []}  # each unit's record has its own
            kept = replace(kept, memories={**kept.memories, **handed}, variants=tuple(met))
        place = plan.streams[unit.arm].index(unit) + 1
        here = (
            Source(name, "stream", unit.place, place=place, size=count_entries(kept.memories, name)) for name in lasting
        )
        return replace(kept, sources=(*kept.sources, *here))

    def _pass_on_reflections(self, memory: str, snapshot: dict[str, Any]) -> dict[str, Any]:
        """Return a snapshot as another unit starts from it: reflections that go on are of others there."""
        settings = self.live.runtime.reflections
        passes = memory == "reflections" and settings is not None and settings.tells_variants_apart
        return pass_on_reflections(snapshot) if passes else snapshot

    def _run_training(self, plan: Plan, training: Training, log: UnitLog) -> None:
        kept = self.carried.select_for(training.arm.method)
        record = TrainingRecord(
            **self._describe_job(plan, training, kept), task=training.task, budgets=training.budgets, trials=()
        )
        log.add_head(record, False)
        start = ResumeState(log.memories or kept.memories, log.results)
        for number in range(len(start.played), len(training.episodes)):
            variant, budget = training.episodes[number], training.budgets[number]
            played = self._run_trials(plan.training_rules, training, variant, budget, number + 1, start, log)
            start = ResumeState(played.memories, played.trials)
            if played.score is None:
                break

    def _run_trials(
        self,
        rules: TrialRules,
        work: Job,
        variant: Variant,
        budget: int,
        until: int,
        start: ResumeState,
        log: UnitLog,
        keeps: bool = True,
    ) -> dspy.Prediction:
        """Play a variant from `start` to trial `until`. Calls and trials are written as they come; with `keeps`, the
        memories after each trial too."""
        begun = time.perf_counter()

        def save_trial(result: TrialResult, memories: Callable[[], dict[str, Any]]) -> None:
            nonlocal begun
            now = time.perf_counter()
            result = log.add_trial(result, memories() if keeps else {}, now - begun)
            begun = now
            self.events.emit(TrialFinished(work, result))

        runtime = replace(
            self.live.runtime,
            rules=rules,
            budget=lambda _: budget,
            stopped=self.stop.is_set,
            spend=lambda role, usage: self.events.emit(UsageSpent(work, role, usage)),
        )
        with self.live.activate_for_run(), runtime.activate(), log.stop_on_error(self.stop), playing(calls=log):
            program = self.programs[work.arm]
            return program(variant=variant, trials=until, seed=work.seed, start=start, on_trial=save_trial)

    def _describe_job(self, plan: Plan, work: Job, kept: InitialMemories) -> dict[str, Any]:
        return {
            "protocol": plan.protocol,
            "arm": work.arm.name,
            "method": work.arm.method.name,
            "program": work.arm.program,
            "backend": self.live.config.backend,
            "model": self.live.backend.models["actor"],
            "models": dict(self.live.backend.models),
            "rule_based": self.live.backend.rule_based,
            "seed": work.seed,
            "provenance": {**self.provenance, "program": fingerprint_program(self.programs[work.arm])},
            "start": describe(kept.sources),
            "sources": kept.sources,
            "learnt_on": kept.variants,
        }
