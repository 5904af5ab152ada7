"""Rollouts, the unit of an optimizer's budget: the trials of a candidate on one calibration variant.

DSPy's optimizers call a program as often as they like, run slow items a second time and take an exception for a score
of 0. So they are given a `Student`, whose rollouts are played here: each (candidate, variant, seed) once, counted
against the budget. A failure of infrastructure ends the compile and is never scored.

    rollouts.play(program, variant)             # played once, whoever asks
    rollouts.stop_compile("interrupted")        # nothing more is begun, and what runs stops before its next step
    race_on_val(rollouts, program)              # in blocks of val, until it is hopeless
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import ceil
from operator import itemgetter
from typing import Any

import dspy

from rsso_dspy.environments import Environments, Goal
from rsso_dspy.errors import BackendFailure, Stopped
from rsso_dspy.executor import Event, EventStream
from rsso_dspy.forecast import SpendLimit
from rsso_dspy.optimize.acceptance import CandidateProgram, CompileEnding, Rollout, is_hopeless, order_by_contrast
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.optimize.teacher import Lead
from rsso_dspy.pricing import make_price_lookup
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.prediction import score_trials
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.records import Usage, Variant
from rsso_dspy.sessions import Session


class CompileStopped(BaseException):
    """The compile ends here. Not an `Exception`, because optimizers swallow those."""


class GoalRecordingEnvironments:
    """Environments that record the goals at the end of each trial, if they know them. The program does not see the
    goals, and an environment refuses to give those of a held-out variant."""

    def __init__(self, environments: Environments):
        self.environments = environments
        self.progress: list[tuple[Goal, ...]] = []

    @contextmanager
    def lease(self) -> Iterator[Any]:
        with self.environments.lease() as environment:
            yield environment
            # No isinstance here: from Python 3.12 on, a protocol does not see what a wrapper forwards.
            tell_progress = getattr(environment, "goal_progress", None)
            self.progress.append(tell_progress() if tell_progress else ())

    def close(self) -> None:
        self.environments.close()


Job = tuple[str, Variant, int]
"""Fingerprint of a program, a variant, and which of its seeds."""


@dataclass(frozen=True, slots=True)
class RolloutFinished(Event):
    """A rollout of a compile was played, or found in the log."""

    rollouts: "Rollouts"
    candidate: CandidateProgram
    rollout: Rollout


class Rollouts:
    """Plays, remembers and counts the rollouts of one compile, their tokens and money. `wanted` is its
    `CompileRequest`. Thread-safe."""

    def __init__(
        self,
        live: Session,
        wanted: Any,
        jobs: int = 1,
        events: EventStream | None = None,
        logs: RolloutLogs | None = None,
        lead: Lead | None = None,
    ):
        self.live, self.wanted, self.jobs = live, wanted, jobs
        calibration: Calibration = wanted.calibration
        self.val, self.seeds = calibration.val, calibration.seeds
        self.logs = logs or RolloutLogs(source=live.backend.replay)
        self.events = events or EventStream()
        self.reserved: int = wanted.reserved
        """Rollouts that are kept back for confirming: the search may not begin them."""
        self.spent = 0
        """Rollouts begun."""
        self.recalled = 0
        """Rollouts of `spent` that were found in the log instead of played."""
        self.usage: dict[str, Usage] = {}
        """Usage of all answers by role, the proposer's included."""
        self.candidates: dict[str, CandidateProgram] = {}
        """By fingerprint, in the order in which they were first tried; the first is the program to improve."""
        self.taught: dict[Variant, Rollout] = {}
        """Rollouts that the teacher played. They belong to no candidate, because their scores are not the student's."""
        self.search_end: str | None = None
        """Why the search ended early; None when it finished. The first reason stays."""
        self.unconfirmed = ""
        """Why the confirm variants were not played; empty if they were, or may still be."""
        self.ended_by: CompileEnding | None = None
        self.error: BaseException | None = None
        """What went wrong, when `ended_by` is "error"."""
        self._lead = lead
        self._played: dict[Job, Future[Rollout]] = {}
        self._running = 0
        self._promised: set[Job] | None = None
        """Jobs of a batch that may still begin when the budget does not cover the whole batch; None when it does."""
        self._halted = threading.Event()
        self._lock = threading.Condition(threading.RLock())
        models: dict[str, str] = {**dict(live.backend.models.items())}
        models |= wanted.teacher.models if wanted.teacher else {}
        self.purse = SpendLimit(wanted.max_cost, None, models, make_price_lookup(live.config.prices))
        self.purse.add_earlier_usage(self.logs.sum_usage().items())
        self._halt_at_limit()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Rollouts":
        """Copies of a program share its rollouts."""
        return self

    # The account.

    @property
    def rollouts_left(self) -> int:
        """Rollouts that may still be begun."""
        return int(self.wanted.max_rollouts) - self.spent - self.reserved

    @property
    def is_halted(self) -> bool:
        """Whether no further rollout will begin, and running ones stop before their next step."""
        return self._halted.is_set()

    @property
    def lm_calls(self) -> int:
        """Answers of models."""
        return sum(usage.calls for usage in self.usage.values())

    @property
    def has_spent_search_share(self) -> bool:
        """Whether the search has used its share of the money; the rest is for the rollouts that are kept back."""
        limit: float | None = self.wanted.max_cost
        share: float = 1 - self.reserved / self.wanted.max_rollouts
        return bool(self.reserved) and limit is not None and self.purse.cost >= share * limit

    def end_search(self, why: str) -> None:
        """Note why the search ends; the first reason stays."""
        self.search_end = self.search_end or why

    def release_reserve(self) -> None:
        """End the search: the rollouts that were kept back may begin."""
        with self._lock:
            self.reserved, self._promised = 0, None

    def stop_compile(self, why: CompileEnding, error: BaseException | None = None) -> None:
        """End the compile; the first reason stays. Running rollouts stop before their next step."""
        with self._lock:
            if self.ended_by is None:
                self.ended_by, self.error = why, error
            self._halted.set()
            self._lock.notify_all()

    def record_usage(self, role: str, usage: Usage) -> None:
        """Add what an answer cost."""
        self.recall_usage(role, usage)
        self.purse.add_usage(role, usage)
        self._halt_at_limit()

    def recall_usage(self, role: str, usage: Usage) -> None:
        """Add what an answer cost that an earlier attempt has paid for."""
        with self._lock:
            self.usage[role] = self.usage.get(role, Usage()) + usage

    def find_abandoned_usage(self) -> dict[str, Usage]:
        """What attempts that were cut short cost and this one had no use for, by role."""
        left = {
            role: spent.subtract(self.usage.get(role, Usage())) for role, spent in sorted(self.logs.sum_usage().items())
        }
        return {role: usage for role, usage in left.items() if usage != Usage()}

    def _halt_at_limit(self) -> None:
        if self.purse.exceeded_limit:
            self.stop_compile("cost")

    # Candidates.

    @property
    def best_candidate(self) -> CandidateProgram | None:
        """The candidate with the highest mean metric over the val variants, in thousandths, the earliest of equals;
        None until one was played on all of them. (Below a tenth of a point only invalid actions differ.) Placebos and
        dropped candidates do not count."""
        tried = [each for each in list(self.candidates.values()) if not each.placebo and not each.dropped]
        scored = [(each.mean_over(self.val, seeds=self.seeds), each) for each in tried]
        return max(((round(m, 3), c) for m, c in scored if m is not None), key=itemgetter(0), default=(0, None))[1]

    def find_variant(self, key: str) -> Variant:
        """The calibration variant called `key`."""
        variants: tuple[Variant, ...] = self.wanted.calibration.variants
        return next(variant for variant in variants if variant.key == key)

    def register_candidate(self, program: Agent, placebo: bool = False) -> CandidateProgram:
        """The candidate of a program; a new one gets the next number."""
        with self._lock:
            name = fingerprint_program(program)
            if name not in self.candidates:
                number = len(self.candidates)
                self.candidates[name] = CandidateProgram(name, program.dump_state(), {}, number, placebo)
            return self.candidates[name]

    def is_dropped_on(self, program: Agent, variant: Variant) -> bool:
        """Whether a program was dropped before this val variant was played."""
        candidate = self.candidates.get(fingerprint_program(program))
        return bool(candidate and candidate.dropped and variant in self.val and variant not in candidate.rollouts)

    def count_missing(self, program: Agent, variants: Sequence[Variant], seeds: int = 1) -> int:
        """How many rollouts of a program on these variants have not begun."""
        name = fingerprint_program(program)
        return sum((name, each, n) not in self._played for each in dict.fromkeys(variants) for n in range(seeds))

    # Playing.

    def play(self, program: Agent, variant: Variant, repeat: int = 0) -> Rollout:
        """The rollout of a candidate on a calibration variant with one of its seeds. It is played once; a second caller
        waits for it. Raises `CompileStopped` when the budget does not allow it or the compile has ended."""
        with self._lock:
            candidate = self.register_candidate(program)
            job = (candidate.program, variant, repeat)
            known = self._played.get(job)
            if known is None:
                self._begin_rollout(job)
                future = self._played[job] = Future()
        if known is not None:
            return known.result()
        try:
            rollout = self._recall_rollout(job) or self._play_variant(program, job)
        except BaseException as error:
            self._stop_on_error(error)
            future.set_exception(CompileStopped())
            raise CompileStopped from error
        finally:
            with self._lock:
                self._running -= 1
                self._lock.notify_all()
        if self._find_lead(variant):
            self.taught[variant] = rollout
        elif repeat:
            candidate.repeats[variant, repeat] = rollout
        else:
            candidate.rollouts[variant] = rollout
        future.set_result(rollout)
        self.events.emit(RolloutFinished(self, candidate, rollout))
        return rollout

    def play_all(self, program: Agent, variants: Sequence[Variant], seeds: int = 1) -> None:
        """Play one candidate on several variants, each with `seeds` seeds."""
        self.play_each([(program, variant, n) for variant in variants for n in range(seeds)])

    def play_each(self, wanted: Sequence[tuple[Agent, Variant, int]]) -> None:
        """Play these, `jobs` at a time; only the first ones if the budget does not cover all."""
        self._promise(wanted)
        with ThreadPoolExecutor(max_workers=self.jobs, thread_name_prefix="rollout") as threads:
            futures = [threads.submit(self.play, *each) for each in wanted]
            try:
                for future in futures:
                    future.result()
            except KeyboardInterrupt:
                self.stop_compile("interrupted")
                raise CompileStopped from None

    def reserve_budget(self, program: Agent, variants: Sequence[Variant]) -> None:
        """Reserve what is left of the budget for the first of these variants. When it runs out, threads then do not
        decide which of them are played."""
        self._promise([(program, variant, 0) for variant in dict.fromkeys(variants)])

    def wait_until_idle(self) -> None:
        """Wait until no rollout is running."""
        with self._lock:
            self._lock.wait_for(lambda: self._running == 0)

    def is_free(self, variant: Variant) -> bool:
        """Whether playing this variant asks no model, because `gold` plays its path."""
        lead = self._find_lead(variant)
        return lead is not None and not lead.asks_models

    def _find_lead(self, variant: Variant) -> Lead | None:
        """The teacher, if this variant is the teacher's to play."""
        return self._lead if self._lead and variant in self._lead.variants else None

    def _promise(self, wanted: Sequence[tuple[Agent, Variant, int]]) -> None:
        with self._lock:
            names = {id(program): fingerprint_program(program) for program, _, _ in wanted}
            jobs = [(names[id(program)], variant, repeat) for program, variant, repeat in wanted]
            missing = [job for job in jobs if job not in self._played and not self.is_free(job[1])]
            self._promised = set(missing[: self.rollouts_left]) if len(missing) > self.rollouts_left else None

    def _begin_rollout(self, job: Job) -> None:
        if self.is_halted:
            raise CompileStopped
        if not self.is_free(job[1]):
            if self.rollouts_left < 1 or (self._promised is not None and job not in self._promised):
                # Wait for the promised and the running ones.
                self._lock.wait_for(lambda: self._running == 0 and (not self._promised or self.is_halted))
                self.ended_by = self.ended_by or "rollouts"
                raise CompileStopped
            if self._promised is not None:
                self._promised.remove(job)
            self.spent += 1
        self._running += 1

    def _recall_rollout(self, job: Job) -> Rollout | None:
        """The rollout, if an earlier attempt at this compile has paid for it. None otherwise."""
        rollout = self.logs.find_rollout(*job)
        if rollout is not None:
            with self._lock:
                self.recalled += 1
            for trial in rollout.trials:
                for role, usage in trial.usage.items():
                    self.recall_usage(role, usage)
        return rollout

    def _play_variant(self, program: Agent, job: Job) -> Rollout:
        """Play one rollout. Raises `BackendFailure` when infrastructure failed."""
        name, variant, repeat = job
        names = {id(predictor): each for each, predictor in program.predictors_by_name.items()}
        lead = self._find_lead(variant)
        watched = GoalRecordingEnvironments(self.live.runtime.environments)
        runtime = self._make_runtime(watched)
        if lead:
            runtime = lead.take_over(runtime, variant)
        with (
            self.logs.log_rollout(name, variant, repeat, lead is not None) as log,
            self.live.activate_for_run(),
            dspy.context(adapter=lead.adapter) if lead else nullcontext(),
            runtime.activate(),
            dspy.context(trace=[]),
        ):
            played = Agent.forward(program, variant, seed=self.wanted.seed + repeat)
            calls = tuple((names[id(each)], given, said.toDict()) for each, given, said in dspy.settings.trace)
            failure = played.trials[-1].failure
            if failure is not None:
                log.void(0, f"it could not be played: {failure}")
        if failure is not None:
            raise BackendFailure(
                f"{variant.key} could not be played: {failure}. That is no score, so the compile ends; mend the cause "
                "(`rsso-dspy doctor`) and repeat the command"
            )
        trials = lead.bill(played.trials) if lead else played.trials
        rollout = Rollout(variant, score_trials(trials), trials, tuple(watched.progress), calls, repeat)
        self.logs.save_rollout(name, rollout)
        return rollout

    def _make_runtime(self, watched: GoalRecordingEnvironments) -> Runtime:
        # No later trial would show what the skills of a success are worth.
        rules = replace(self.live.runtime.rules, trials=self.wanted.trials, learn_after_success=False)
        return replace(
            self.live.runtime,
            environments=watched,
            budget=self.wanted.find_budget,
            spend=self.record_usage,
            recall=self.recall_usage,
            rules=rules,
            stopped=lambda: self.is_halted,
        )

    def _stop_on_error(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.stop_compile("interrupted")
        elif isinstance(error, Stopped) and error.__cause__:
            self.stop_compile("error", error.__cause__)
        elif not isinstance(error, CompileStopped | Stopped):
            self.stop_compile("error", error)


BLOCKS = 4
"""Number of blocks that `val` is played in."""


def race_on_val(rollouts: Rollouts, program: Agent) -> None:
    """Play a candidate on `val` in blocks, paired with the best so far, until it is hopeless. Nothing is played when
    the budget does not cover all of it."""
    candidate = rollouts.register_candidate(program)
    best = rollouts.best_candidate
    missing = rollouts.count_missing(program, rollouts.val, rollouts.seeds)
    if candidate.dropped or not 0 < missing <= rollouts.rollouts_left:
        return
    order = order_by_contrast(list(rollouts.candidates.values()), rollouts.val)
    size = ceil(len(order) / BLOCKS)
    for begin in range(0, len(order), size):
        rollouts.play_all(program, order[begin : begin + size], rollouts.seeds)
        met, left = order[: begin + size], order[begin + size :]
        if left and best and best is not candidate and is_hopeless(candidate, best, met, left, rollouts.seeds):
            candidate.dropped = True
            return


def choose_candidate(rollouts: Rollouts) -> CandidateProgram | None:
    """The candidate that did best on `val`; None when none beat the program to improve by a tenth of a
    point or more."""
    start, best = next(iter(rollouts.candidates.values()), None), rollouts.best_candidate
    return None if best is start else best
