"""Rollouts, the unit of an optimizer's budget: the trials of a candidate on one calibration variant.

DSPy's optimizers call a program as often as they like, run slow items a second time and take an exception for a score
of 0. So they are given a `Student`, whose rollouts are played here: each (candidate, variant) once, counted against the
budget. A failure of infrastructure ends the compile and is never scored.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from rsso_dspy.executor import LISTENING, Event, EventStream
from rsso_dspy.optimize.candidates import CandidateProgram, CompileEnding, CompileLimits, Rollout, TracedCall
from rsso_dspy.optimize.compile_account import CompileAccount, CompileStopped
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.optimize.rollout_player import Job, RolloutPlayer
from rsso_dspy.optimize.teacher import Lead
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ROLE_OF
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.records import Variant
from rsso_dspy.sessions import Session

__all__ = [
    "CandidateProgram",
    "CompileEnding",
    "CompileLimits",
    "CompileStopped",
    "Job",
    "Rollout",
    "RolloutFinished",
    "Rollouts",
    "TracedCall",
]


NO_MODELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class RolloutFinished(Event):
    """A rollout of a compile was played, or found in the cache."""

    rollouts: "Rollouts"
    candidate: CandidateProgram
    rollout: Rollout


class Rollouts(CompileAccount):
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
        logs: RolloutLogs | None = None,
        max_idle: int | None = None,
        seeds: int = 1,
        reserved: int = 0,
        lead: Lead | None = None,
        teacher_models: Mapping[str, str] = NO_MODELS,
    ):
        super().__init__(live, limits, reserved, logs or RolloutLogs(source=live.backend.replay), teacher_models)
        self.live = live
        self.val = tuple(val)
        self.seeds = seeds
        """Number of seeds that each val variant is played with."""
        self.tuned = tuple(tuned)
        """Predictors that may be changed."""
        self.unconfirmed = ""
        """Why the confirm variants were not played; empty if they were, or may still be."""
        self.fresh: list[Variant] = []
        """Spare variants that were drawn for feedback, in order."""
        self.taught: dict[Variant, Rollout] = {}
        """Rollouts that the teacher played. They belong to no candidate, because their scores are not the student's."""
        self.candidates: dict[str, CandidateProgram] = {}
        """By fingerprint, in the order in which they were first tried; the first is the program to improve."""
        self.events = events or EventStream()
        self._budgets = budgets
        self._player = RolloutPlayer(live, budgets, trials, seed, max_idle, lead, self.logs)
        self._played: dict[Job, Future[Rollout]] = {}
        self._running = 0
        self._promised: set[Job] | None = None
        """Jobs of a batch that may still begin when the budget does not cover the whole batch; None when it does."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Rollouts":
        """Copies of a program share its rollouts."""
        return self

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
        return next(variant for variant in self._budgets if variant.key == key)

    def release_reserve(self) -> None:
        """End the search: the rollouts that were kept back may begin."""
        with self._lock:
            self.reserved, self._promised = 0, None

    def register_candidate(self, program: Agent, placebo: bool = False) -> CandidateProgram:
        """The candidate of a program; a new one gets the next number."""
        with self._lock:
            name = fingerprint_program(program)
            if name not in self.candidates:
                number = len(self.candidates)
                self.candidates[name] = CandidateProgram(name, program.dump_state(), {}, number, placebo)
            return self.candidates[name]

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
        if self._player.find_lead(variant):
            self.taught[variant] = rollout
        elif repeat:
            candidate.repeats[variant, repeat] = rollout
        else:
            candidate.rollouts[variant] = rollout
        future.set_result(rollout)
        self.events.emit(RolloutFinished(self, candidate, rollout))
        return rollout

    def is_free(self, variant: Variant) -> bool:
        """Whether playing this variant costs no rollout, because a `gold` teacher plays its path."""
        return self._player.is_free(variant)

    def is_dropped_on(self, program: Agent, variant: Variant) -> bool:
        """Whether a program was dropped before this val variant was played."""
        candidate = self.candidates.get(fingerprint_program(program))
        return bool(candidate and candidate.dropped and variant in self.val and variant not in candidate.rollouts)

    def count_missing(self, program: Agent, variants: Sequence[Variant], seeds: int = 1) -> int:
        """How many rollouts of a program on these variants have not begun."""
        name = fingerprint_program(program)
        return sum((name, each, n) not in self._played for each in dict.fromkeys(variants) for n in range(seeds))

    def reserve_budget(self, program: Agent, variants: Sequence[Variant]) -> None:
        """Reserve what is left of the budget for the first of these variants. When it runs out, threads then do not
        decide which of them are played."""
        self._promise([(program, variant, 0) for variant in dict.fromkeys(variants)])

    def _promise(self, wanted: Sequence[tuple[Agent, Variant, int]]) -> None:
        with self._lock:
            names = {id(program): fingerprint_program(program) for program, _, _ in wanted}
            jobs = [(names[id(program)], variant, repeat) for program, variant, repeat in wanted]
            missing = [job for job in jobs if job not in self._played and not self.is_free(job[1])]
            self._promised = set(missing[: self.rollouts_left]) if len(missing) > self.rollouts_left else None

    def play_all(self, program: Agent, variants: Sequence[Variant], jobs: int, seeds: int = 1) -> None:
        """Play one candidate on several variants, each with `seeds` seeds, `jobs` at a time."""
        self.play_each([(program, variant, n) for variant in variants for n in range(seeds)], jobs)

    def play_each(self, wanted: Sequence[tuple[Agent, Variant, int]], jobs: int) -> None:
        """Play these, `jobs` at a time; only the first ones if the budget does not cover all."""
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

    def wait_until_idle(self) -> None:
        """Wait until no rollout is running."""
        with self._lock:
            self._lock.wait_for(lambda: self._running == 0)

    def _begin_rollout(self, job: Job) -> None:
        if self._halted.is_set():
            raise CompileStopped
        if self.is_free(job[1]):
            self._running += 1
            return
        if self.rollouts_left < 1 or (self._promised is not None and job not in self._promised):
            self._lock.wait_for(self._is_budget_played)  # wait for the promised and the running ones
            self.ended_by = self.ended_by or "rollouts"
            raise CompileStopped
        if self._promised is not None:
            self._promised.remove(job)
        self.spent += 1
        self._running += 1

    def _is_budget_played(self) -> bool:
        """Whether everything that the budget covers was played, or nothing more will begin."""
        return self._running == 0 and (not self._promised or self._halted.is_set())

    def _recall_rollout(self, job: Job) -> Rollout | None:
        """The rollout, if an earlier attempt at this compile has paid for it; it is booked again. None otherwise."""
        rollout = self.logs.find_rollout(*job)
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
        rollout = self._player.play(program, job, self)
        self.logs.save_rollout(job[0], rollout)
        return rollout
