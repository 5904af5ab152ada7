"""Plays one unit or training from its last finished trial on, and saves every further trial at once.

    player = UnitRunner(live, store, programs, provenance)
    player.run_job(plan, unit)         # saves and returns a UnitRecord

A unit starts from empty memories, from those of its training, from what the previous unit in its stream hands on, or
from loaded files. A started unit resumes from the memories after its last finished trial, so its record does not
depend on the interruption.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import dspy

from rsso_dspy.errors import FolderGone, RssoError, Stopped
from rsso_dspy.experiment.events import EventStream, TrialFinished, UsageSpent
from rsso_dspy.experiment.initial_memories import NOTHING_CARRIED, InitialMemories
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.experiment.session import Session
from rsso_dspy.experiment.tapes import tape_of
from rsso_dspy.lm.recording import Tape
from rsso_dspy.memory.improvements import pass_on_reflections
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.programs.runtime import ResumeState, TrialRules
from rsso_dspy.recordings import Recordings
from rsso_dspy.records import (
    Source,
    TrainingRecord,
    TrialResult,
    UnitRecord,
    Usage,
    Variant,
)
from rsso_dspy.store.memory_sources import count_entries, describe, sources_of
from rsso_dspy.store.taping import name_of
from rsso_dspy.store.unit_store import Store
from rsso_dspy.store.units import Arm, Job, Training, Unit

RecordFactory = Callable[[Sequence[TrialResult], Mapping[str, Any]], UnitRecord | TrainingRecord]
"""Build the record of these trials and final memories."""


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
    records: bool = False
    """Whether every exchange with a model is recorded."""
    source: Recordings | None = None
    """Recordings that answer instead of models; by default those of the backend."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to abandon all current trials before their next step."""

    def __post_init__(self) -> None:
        self.source = self.source or self.live.backend.recordings

    def run_job(self, plan: Plan, work: Job) -> UnitRecord | TrainingRecord:
        """Play the pending trials of a unit or training and save it."""
        self.store.recover_under_way(work)
        self._abandon_errored_trial(work)
        record = self._run_training(plan, work) if isinstance(work, Training) else self._run_unit(plan, work)
        self.store.save(record)
        self.store.forget_under_way(work)
        return record

    def _abandon_errored_trial(self, work: Job) -> None:
        """Store the cost of errored trials, which are now replayed, as abandoned."""
        path = self.store.path_of(work)
        before = self.store.load_either(path)
        if before and before.has_errors:
            self.store.abandon_file(work.arm.name, work.key, path, before.trials[-1].usage)

    def is_trained(self, plan: Plan, unit: Unit) -> bool:
        """Return whether the unit needs no training or its training is finished."""
        training = plan.get_training(unit)
        if training is None:
            return True
        record = self.store.load_training(self.store.path_of(training))
        return record is not None and not record.has_errors

    def is_refused(self, unit: Unit) -> bool:
        """Return whether the environment refused the unit, which its stream passes over."""
        record = self.store.load(self.store.path_of(unit))
        return record is not None and record.is_refused

    def _run_unit(self, plan: Plan, unit: Unit) -> UnitRecord:
        kept = self._load_initial_memories(plan, unit)
        rules = plan.get_rules(unit)

        def make_record(trials: Sequence[TrialResult], memories: Mapping[str, Any]) -> UnitRecord:
            return UnitRecord(
                **self._describe_job(plan, unit, kept),
                variant=unit.variant,
                budget=unit.budget,
                trials_allowed=rules.trials,
                trials=tuple(trials),
                memories={} if plan.get_training(unit) and rules.frozen else dict(memories),
            )

        begun = self.store.load(self.store.started_path(self.store.path_of(unit)))
        start = ResumeState({**kept.memories, **(begun.memories if begun else {})}, begun.trials if begun else ())
        tape = self._tape(unit, len(start.played))
        played = self._run_trials(rules, unit, unit.variant, unit.budget, rules.trials, start, make_record, tape)
        return make_record(played.trials, played.memories)

    def _load_initial_memories(self, plan: Plan, unit: Unit) -> InitialMemories:
        kept, training = self.carried.select_for(unit.arm.method), plan.get_training(unit)
        if training:
            learnt = self.store.load_training(self.store.path_of(training))
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
            left = self.store.load(self.store.path_of(before))
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

    def _run_training(self, plan: Plan, training: Training) -> TrainingRecord:
        kept = self.carried.select_for(training.arm.method)

        def make_record(trials: Sequence[TrialResult], memories: Mapping[str, Any]) -> TrainingRecord:
            return TrainingRecord(
                **self._describe_job(plan, training, kept),
                task=training.task,
                budgets=training.budgets,
                trials=tuple(trials),
                memories=dict(memories),
            )

        begun = self.store.load_training(self.store.started_path(self.store.path_of(training)))
        start = ResumeState(begun.memories, begun.trials) if begun else ResumeState(kept.memories)
        tape = self._tape(training, len(start.played))
        for number in range(len(start.played), len(training.episodes)):
            variant, budget = training.episodes[number], training.budgets[number]
            played = self._run_trials(
                plan.training_rules, training, variant, budget, number + 1, start, make_record, tape
            )
            start = ResumeState(played.memories, played.trials)
            if played.score is None:
                break
        return make_record(start.played, start.memories)

    def _tape(self, work: Job, trials: int) -> Tape | None:
        if self.records:
            self.store.cut_recording(name_of(work), trials)
        return tape_of(name_of(work), self.source, self.records)

    def _run_trials(
        self,
        rules: TrialRules,
        work: Job,
        variant: Variant,
        budget: int,
        until: int,
        start: ResumeState,
        form: RecordFactory,
        tape: Tape | None,
    ) -> dspy.Prediction:
        """Play a variant from `start` to trial `until`, saving each finished trial in its `form`."""
        begun = time.perf_counter()
        trials = list(start.played)

        def count_usage(role: str, usage: Usage) -> None:
            self.events.emit(UsageSpent(work, role, usage))
            try:
                self.store.note_under_way(work, role, usage, len(trials) + 1)
            except (OSError, RssoError) as error:
                self.stop.set()
                raise Stopped from error  # the caller may take an error for the model's and retry

        def save_trial(result: TrialResult, memories: Callable[[], dict[str, Any]]) -> None:
            nonlocal begun
            if tape is not None and self.records:
                self.store.add_recording(name_of(work), result.trial, tape.take(result.trial))
            trials.append(result)
            if result.trajectory is not None:
                self.store.save_started(form(trials, memories()))
                self.store.forget_under_way(work)
            now = time.perf_counter()
            self.store.note_seconds(work.key, result.trial, now - begun)
            begun = now
            self.events.emit(TrialFinished(work, result))

        runtime = replace(
            self.live.runtime, rules=rules, budget=lambda _: budget, stopped=self.stop.is_set, spend=count_usage
        )
        try:
            with self.live.activate_for_run(), runtime.activate(), dspy.context(tape=tape):
                program = self.programs[work.arm]
                return program(variant=variant, trials=until, seed=work.seed, start=start, on_trial=save_trial)
        except BaseException as error:
            with suppress(FolderGone, OSError):  # then it stays stored as under way
                self.store.recover_under_way(work)
            if isinstance(error, Stopped) and error.__cause__:
                raise error.__cause__ from None
            raise

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
