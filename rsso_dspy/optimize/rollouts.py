"""Rollouts: what an optimizer pays for. One is a trial-sequence of a candidate program on a calibration variant.

DSPy's optimizers call a program as often as they like, run slow items a second time and take an exception for a score
of 0. So the program they are given is a `Student`, whose rollouts are played here: each (candidate, variant) once,
counted against the budget; and what infrastructure spoils ends the compile instead of being scored.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import dspy
from dspy.utils.callback import BaseCallback

from rsso_dspy.config import make_price_lookup
from rsso_dspy.errors import BackendFailure, FolderGone, Stopped
from rsso_dspy.experiment.events import Event, EventStream
from rsso_dspy.experiment.executor import LISTENING
from rsso_dspy.experiment.session import Session
from rsso_dspy.experiment.spend_limit import SpendLimit
from rsso_dspy.lm.error_policy import lookup_recorded_policy
from rsso_dspy.optimize.candidates import CandidateProgram, CompileEnding, CompileLimits, Rollout, TracedCall
from rsso_dspy.optimize.goal_recording import GoalRecordingEnvironments
from rsso_dspy.optimize.metric import score_trials
from rsso_dspy.optimize.recorded import RecordedCompile
from rsso_dspy.optimize.rollout_cache import RolloutCache
from rsso_dspy.optimize.teacher import Lead
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.programs.roles import ROLE_OF
from rsso_dspy.records import Failure, Usage, Variant

__all__ = [
    "CandidateProgram",
    "CompileEnding",
    "CompileLimits",
    "CompileStopped",
    "Rollout",
    "RolloutFinished",
    "Rollouts",
    "TracedCall",
]


NO_MODELS: Mapping[str, str] = {}

Job = tuple[str, Variant, int]
"""Fingerprint of a program, a variant, and which of its seeds."""


class CompileStopped(BaseException):
    """The compile ends here. Not an `Exception`, because optimizers swallow those."""


@dataclass(frozen=True, slots=True)
class RolloutFinished(Event):
    """A rollout of a compile is finished, or was found."""

    rollouts: "Rollouts"
    candidate: CandidateProgram
    rollout: Rollout


class Rollouts:
    """Plays, remembers and counts the rollouts of one compile. Thread-safe."""

    def __init__(
        self,
        live: Session,
        val: Sequence[Variant],
        budgets: Mapping[Variant, int],
        trials: int,
        seed: int,
        limits: CompileLimits,
        events: EventStream | None = None,
        tuned: Sequence[str] = tuple(ROLE_OF),
        shelf: RolloutCache | None = None,
        max_idle: int | None = None,
        tapes: RecordedCompile | None = None,
        seeds: int = 1,
        reserved: int = 0,
        lead: Lead | None = None,
        teacher_models: Mapping[str, str] = NO_MODELS,
    ):
        self.live = live
        self.val = tuple(val)
        self.seeds = seeds
        """Seeds that each val variant is played with."""
        self.reserved = reserved
        """Rollouts that are kept back, to confirm with: the search may not begin them."""
        self.search_end: str | None = None
        """Why the search ended, where it did not come to its own end; the first reason stays."""
        self.limits = limits
        self.tuned = tuple(tuned)
        """Predictors that may be changed."""
        self.unconfirmed = ""
        """Why the confirm variants were not played, where the budget did not reach for them."""
        self.fresh: list[Variant] = []
        """Spare variants that were drawn for feedback, in order."""
        self.recalled = 0
        """Rollouts of `spent` that were not played but found on the shelf."""
        self.lead = lead
        """The teacher, who plays its variants in place of the program's own models."""
        self.taught: dict[Variant, Rollout] = {}
        """What the teacher played. No candidate's: these scores are not the student's."""
        models: dict[str, str] = {**dict(live.backend.models.items()), **teacher_models}
        self.purse = SpendLimit(limits.cost, None, models, make_price_lookup(live.config.prices))
        self._shelf = shelf
        self.tapes = tapes or RecordedCompile(source=live.backend.recordings)
        self.abandoned: dict[str, Usage] = shelf.sum_abandoned_usage() if shelf else {}
        """What earlier attempts at this compile cost besides their rollouts, by role: rollouts that were cut short, and
        proposals."""
        self._max_idle = max_idle
        self.candidates: dict[str, CandidateProgram] = {}
        """By fingerprint, in the order in which they were first tried; the first is the program to improve."""
        self.spent = 0
        """Rollouts begun."""
        self.lm_calls = 0
        """Requests sent, answered or not."""
        self.usage: dict[str, Usage] = {}
        """Answers, by role; the proposer's are in it."""
        self.ended_by: CompileEnding | None = None
        self.error: BaseException | None = None
        """What went wrong, when `ended_by` is "error"."""
        self._budgets = budgets
        self._trials = trials
        self._seed = seed
        self.events = events or EventStream()
        self._played: dict[Job, Future[Rollout]] = {}
        self._halted = threading.Event()
        self._lock = threading.Condition(threading.RLock())
        self._running = 0
        self.purse.add_earlier_usage(self.abandoned.items())
        self._halt_at_limit()
        self._promised: set[Job] | None = None
        """What may still be begun of a batch that the budget does not reach for; None when it does."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Rollouts":
        """Copies of a program share its rollouts."""
        return self

    @property
    def rollouts_left(self) -> int:
        """Rollouts that may still be begun."""
        return self.limits.rollouts - self.spent - self.reserved

    @property
    def is_halted(self) -> bool:
        """Whether nothing more will be begun."""
        return self._halted.is_set()

    @property
    def has_spent_search_share(self) -> bool:
        """Whether so many calls or so much money are spent that the rollouts kept back would want for them."""
        share = 1 - self.reserved / self.limits.rollouts
        calls, cost = self.limits.lm_calls, self.limits.cost
        if not self.reserved:
            return False
        return (calls is not None and self.lm_calls >= share * calls) or (
            cost is not None and self.purse.cost >= share * cost
        )

    @property
    def best_candidate(self) -> CandidateProgram | None:
        """The candidate with the highest mean metric over the val variants, in thousandths, the earliest of
        equals; None before one was played on all of them. (Below a tenth of a point only invalid actions differ.)
        Placebos do not count."""
        scored = [(c.mean_over(self.val, seeds=self.seeds), c) for c in list(self.candidates.values()) if not c.placebo]
        return max(((round(m, 3), c) for m, c in scored if m is not None), key=itemgetter(0), default=(0, None))[1]

    def find_variant(self, key: str) -> Variant:
        """The calibration variant called `key`."""
        return next(variant for variant in self._budgets if variant.key == key)

    def end_search(self, why: str) -> None:
        """Note why the search ends; the first reason stays."""
        self.search_end = self.search_end or why

    def release_reserve(self) -> None:
        """The search is over: what was kept back may be begun."""
        with self._lock:
            self.reserved, self._promised = 0, None

    def register_candidate(self, program: Agent, placebo: bool = False) -> CandidateProgram:
        """The candidate that a program is; a new one gets the next number."""
        with self._lock:
            name = fingerprint_program(program)
            if name not in self.candidates:
                number = len(self.candidates)
                self.candidates[name] = CandidateProgram(name, program.dump_state(), {}, number, placebo)
            return self.candidates[name]

    def play(self, program: Agent, variant: Variant, repeat: int = 0) -> Rollout:
        """The rollout of a candidate on a calibration variant with one of its seeds. It is played once; whoever asks
        again waits for it. Raises `CompileStopped` when the budget does not allow it or the compile has ended."""
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

    def is_dropped_on(self, program: Agent, variant: Variant) -> bool:
        """Whether a program was dropped before it came to this val variant."""
        candidate = self.candidates.get(fingerprint_program(program))
        return bool(candidate and candidate.dropped and variant in self.val and variant not in candidate.rollouts)

    def count_missing(self, program: Agent, variants: Sequence[Variant], seeds: int = 1) -> int:
        """Rollouts of a program on these that are not begun."""
        name = fingerprint_program(program)
        return sum((name, each, n) not in self._played for each in dict.fromkeys(variants) for n in range(seeds))

    def reserve_budget(self, program: Agent, variants: Sequence[Variant]) -> None:
        """A candidate is about to be played on these: what is left of the budget goes to the first of them, so that it
        does not depend on threads which are played when it runs out."""
        self._promise([(program, variant, 0) for variant in dict.fromkeys(variants)])

    def _promise(self, wanted: Sequence[tuple[Agent, Variant, int]]) -> None:
        with self._lock:
            names = {id(program): fingerprint_program(program) for program, _, _ in wanted}
            jobs = [(names[id(program)], variant, repeat) for program, variant, repeat in wanted]
            missing = [job for job in jobs if job not in self._played]
            self._promised = set(missing[: self.rollouts_left]) if len(missing) > self.rollouts_left else None

    def play_all(self, program: Agent, variants: Sequence[Variant], jobs: int, seeds: int = 1) -> None:
        """Play one candidate on several variants, each with so many seeds, `jobs` at a time."""
        self.play_each([(program, variant, n) for variant in variants for n in range(seeds)], jobs)

    def play_each(self, wanted: Sequence[tuple[Agent, Variant, int]], jobs: int) -> None:
        """Play these, `jobs` at a time; the first of them where the budget does not reach for all."""
        self._promise(wanted)
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="rollout") as threads:
            futures = [threads.submit(self.play, *each) for each in wanted]
            try:
                for future in futures:
                    while not future.done():
                        wait([future], LISTENING)
                        self.check_folder()
                    future.result()
            except KeyboardInterrupt:
                self.stop_compile("interrupted")
                raise CompileStopped from None

    def stop_compile(self, why: CompileEnding, error: BaseException | None = None) -> None:
        """End the compile; the first reason stays. Rollouts under way stop before their next step."""
        with self._lock:
            if self.ended_by is None:
                self.ended_by, self.error = why, error
            self._halted.set()
            self._lock.notify_all()

    def wait_until_idle(self) -> None:
        """Wait until no rollout is under way."""
        with self._lock:
            self._lock.wait_for(lambda: self._running == 0)

    def check_folder(self) -> None:
        """End the compile when the folder of its rollouts is gone."""
        if self._shelf:
            try:
                self._shelf.place.check_exists()
            except FolderGone as error:
                self.stop_compile("error", error)

    def record_usage(self, role: str, usage: Usage) -> None:
        """Add what an answer cost to the compile's account. Raises `CompileStopped` when it cannot be noted."""
        self._add_usage(role, usage)
        if self._shelf:
            try:
                self._shelf.append_usage(role, usage)
            except (OSError, FolderGone) as error:
                self.stop_compile("error", error)
                raise CompileStopped from error

    def _add_usage(self, role: str, usage: Usage) -> None:
        with self._lock:
            self.usage[role] = self.usage.get(role, Usage()) + usage
        self.purse.add_usage(role, usage)
        self._halt_at_limit()

    def _halt_at_limit(self) -> None:
        if self.purse.exceeded_limit:
            self.stop_compile("cost")

    @contextmanager
    def count_requests(self, also: list[int] | None = None) -> Iterator[None]:
        """Count every request to a model inside the block, in ``also[0]`` too, also those that repeat one whose answer
        could not be read; `CompileStopped` is raised instead of one too many."""

        def count_each() -> None:
            self._count_request()
            if also is not None:
                also[0] += 1

        with dspy.context(callbacks=[*dspy.settings.callbacks, _RequestCounter(count_each)]):
            yield

    def _count_request(self) -> None:
        with self._lock:
            if self.limits.lm_calls is not None and self.lm_calls >= self.limits.lm_calls:
                self.stop_compile("lm-calls")
            if self._halted.is_set():
                raise CompileStopped
            self.lm_calls += 1

    def _begin_rollout(self, job: Job) -> None:
        if self.rollouts_left < 1 or (self._promised is not None and job not in self._promised):
            self._lock.wait_for(self._is_budget_played)  # what is promised or under way may end
            self.ended_by = self.ended_by or "rollouts"
            raise CompileStopped
        if self._halted.is_set():
            raise CompileStopped
        if self._promised is not None:
            self._promised.remove(job)
        self.spent += 1
        self._running += 1

    def _is_budget_played(self) -> bool:
        """Whether all that the budget reaches for was played, or nothing more will be begun."""
        return self._running == 0 and (not self._promised or self._halted.is_set())

    def _stop_on_error(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt):
            self.stop_compile("interrupted")
        elif isinstance(error, Stopped) and error.__cause__:
            self.stop_compile("error", error.__cause__)
        elif not isinstance(error, CompileStopped | Stopped):
            self.stop_compile("error", error)

    def _find_lead(self, variant: Variant) -> Lead | None:
        """The teacher, if it is his to play."""
        return self.lead if self.lead and variant in self.lead.variants else None

    def _recall_rollout(self, job: Job) -> Rollout | None:
        """The rollout, when an earlier attempt at this compile has paid for it; it is on the account all the same."""
        rollout = self._shelf.find_rollout(*job) if self._shelf else None
        if rollout is None:
            return None
        with self._lock:
            self.recalled += 1
            self.lm_calls += rollout.requests
        for trial in rollout.trials:
            for role, usage in trial.usage.items():
                self._add_usage(role, usage)
        return rollout

    def _play_variant(self, program: Agent, job: Job) -> Rollout:
        """Play, and once more when infrastructure failed. Raises `BackendFailure` for what fails again."""
        name, variant, repeat = job
        names = {id(predictor): each for each, predictor in program.predictors_by_name.items()}
        asked = [0]
        failure: Failure | None = None
        for _ in range(2):
            watched = GoalRecordingEnvironments(self.live.runtime.environments)
            lead = self._find_lead(variant)
            runtime = replace(
                self.live.runtime,
                environments=watched,
                budget=self._budgets.__getitem__,
                spend=self.record_usage,
                rules=replace(
                    self.live.runtime.rules,
                    trials=self._trials,
                    max_idle=self._max_idle,
                    learn_after_success=False,  # no trial would tell what its skills are worth
                ),
                stopped=self._halted.is_set,
            )
            if lead:
                runtime = lead.take_over(runtime, variant)
            tape = self.tapes.rollout(name, variant, repeat)
            with (
                self.live.activate_for_run(),
                dspy.context(adapter=lead.adapter) if lead else nullcontext(),
                runtime.activate(),
                self.count_requests(asked) if lead is None or lead.asks_models else nullcontext(),
                tape as told,
                dspy.context(trace=[]),
            ):
                played = Agent.forward(program, variant, seed=self._seed + repeat, on_trial=told)
                calls = tuple((names[id(predictor)], given, said) for predictor, given, said in dspy.settings.trace)
            failure = played.trials[-1].failure
            if failure is None:
                trials = lead.bill(played.trials) if lead else played.trials
                goals = tuple(watched.progress)
                rollout = Rollout(variant, score_trials(trials), trials, goals, calls, asked[0], repeat)
                if self._shelf:
                    self._shelf.save_rollout(name, rollout)
                return rollout
            if lookup_recorded_policy(failure) == "stop":
                break
        raise BackendFailure(
            f"{variant.key} could not be played: {failure}. That is no score, so the compile ends; mend the cause "
            "(`rsso-dspy doctor`) and run the same command again"
        )


class _RequestCounter(BaseCallback):
    """DSPy tells it of every request before it is sent."""

    def __init__(self, ask: Callable[[], None]):
        self.ask = ask

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:  # noqa: ARG002
        self.ask()
