"""Rollouts, the unit of an optimizer's budget: the trials of a candidate on one calibration variant.

DSPy's optimizers call a program as often as they like, run slow items a second time and take an exception for a score
of 0. So they are given a `Student`, whose rollouts are played here: each (candidate, variant, seed) once, counted
against the budget. A failure of infrastructure ends the compile and is never scored.

Every rollout and every question to the proposer is logged as it comes, in FILE.rollouts/: a rollout is a unit of the
method with its program's fingerprint. A compile that is killed and run again plays and asks nothing twice.
"""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import dspy
from pydantic import TypeAdapter, ValidationError

from rsso_dspy.calls import find_log_folder
from rsso_dspy.environments import Environments, Goal
from rsso_dspy.errors import BackendFailure, Stopped, UnreadableAnswers
from rsso_dspy.executor import (
    Event,
    EventStream,
    FormatCheck,
    SpendLimit,
    advise_on_format,
    describe_unreadable,
    find_first_answer,
)
from rsso_dspy.optimize.teacher import Lead, open_lead
from rsso_dspy.optimize.verdict import CandidateProgram, CompileEnding, Rollout, subtract_scores
from rsso_dspy.plan import TEACHING
from rsso_dspy.playing import playing
from rsso_dspy.pricing import make_price_lookup
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import get_method
from rsso_dspy.programs.prediction import score_trials
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.records import Usage, Variant, add_usage, sum_usage
from rsso_dspy.regions import HISTORY
from rsso_dspy.sessions import Session
from rsso_dspy.store.run_folder import Arm, Store, Unit, name_log
from rsso_dspy.store.unit_log import UnitLog

_ROLLOUT = TypeAdapter(Rollout)

Job = tuple[str, Variant, int]
"""Fingerprint of a program, a variant, and which of its seeds."""

CUT_SHORT = "the compile ended first"
"""Why a candidate was not played on all of `val`, where nothing else is to say."""

PROPOSALS = Unit(Arm(get_method("react"), "proposer"), Variant("proposals", 0), 0, 0)
"""Stands for the proposer's questions in the log; the trial of a call is the number of the question."""


class RolloutLogs:
    """The logs of the compile that writes to `out`; nothing is kept without. `source` is another compile, whose logs
    answer instead of models."""

    def __init__(self, out: Path | None = None, source: Path | None = None):
        self.store = Store(out.with_name(f"{out.name}.rollouts"), option="-o") if out else None
        self.source = Store(find_log_folder(source), read_only=True) if source else None

    def check_request(self, request: Mapping[str, Any]) -> int:
        """Return how many rollouts are kept. Raises `RunMismatch` when they were played for another request, and
        `UsageError` for a folder of something else."""
        assert self.store is not None
        self.store.check_identity(_make_identity(request))
        logs = self._load_logs()
        return sum(log.rollout is not None for log in logs)

    @contextmanager
    def open_for_request(self, request: Mapping[str, Any]) -> Iterator[None]:
        """Keep the rollouts of this request inside the block. Raises what `check_request` and `Store.lock` raise."""
        with self.store.lock() if self.store else nullcontext():
            if self.store:
                self.store.open(_make_identity(request))
            yield

    def find_rollout(self, unit: Unit) -> Rollout | None:
        """The rollout of a program on a variant; None when it was not played to its end, or its log is damaged."""
        log = self.store.load_log(self.store.path_of(unit)) if self.store else None
        if log is None or not log.rollout:
            return None

        try:
            rollout = _ROLLOUT.validate_python(log.rollout)
        except ValidationError:
            return None

        calls = []
        for name, inputs, outputs in rollout.calls:
            calls.append((name, _restore(inputs), outputs))
        return replace(rollout, calls=tuple(calls))

    def open_log(self, unit: Unit) -> UnitLog:
        """The log of a unit, to play on; what it holds is not asked again."""
        log = self.store.open_log(unit) if self.store else UnitLog(whole=True)
        log.answer_from_own(0)
        if self.source:
            log.source = self.source.read_log(unit).make_answers(name_log(unit))
        return log

    @cached_property
    def proposals(self) -> UnitLog:
        return self.open_log(PROPOSALS)

    def sum_usage(self) -> dict[str, Usage]:
        total: dict[str, Usage] = {}
        for log in self._load_logs():
            is_teacher = bool(log.head.get("teacher"))
            total = add_usage(total, _name_roles(log.sum_usage(), is_teacher))

        if self.store:
            for damaged in self.store.read_set_aside():
                total = add_usage(total, _name_roles(damaged.usage, damaged.is_teacher))
        return total

    def _load_logs(self) -> list[UnitLog]:
        if not self.store or not self.store.exists:
            return []
        return [log for _, log in self.store.load_logs()]


def _name_roles(usage_by_role: Mapping[str, Usage], is_teacher: bool) -> dict[str, Usage]:
    """The usage under the names that the compile counts it by: a teacher's roles have names of their own."""
    prefix = TEACHING if is_teacher else ""
    return {f"{prefix}{role}": usage for role, usage in usage_by_role.items()}


def _make_identity(request: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: value for name, value in request.items() if name != "identity"}
    return {"request": fields, **request["identity"]}


def _restore(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs of a call with the conversation as the object that it was: DSPy's optimizers show it as one."""
    if HISTORY not in inputs:
        return inputs
    return inputs | {HISTORY: dspy.History(**inputs[HISTORY])}


class CompileStopped(BaseException):
    """Ends the search, or the compile, with what was played. No `Exception`, because optimizers swallow those."""


@dataclass(frozen=True)
class GoalRecordingEnvironments:
    """Environments that record the goals at the end of each trial, if they know them. No program sees them, and an
    environment refuses to give those of a held-out variant. `hidden` variants are no demonstrations."""

    environments: Environments
    hidden: frozenset[str] = frozenset()
    progress: list[tuple[Goal, ...]] = field(default_factory=list)

    @contextmanager
    def lease(self) -> Iterator[Any]:
        with self.environments.lease() as environment, getattr(environment, "hide", nullcontext)(self.hidden):
            yield environment
            # No isinstance here: from Python 3.12 on, a protocol does not see what a wrapper forwards.
            self.progress.append(getattr(environment, "goal_progress", tuple)())

    def close(self) -> None:
        self.environments.close()


@dataclass(frozen=True, slots=True)
class RolloutFinished(Event):
    rollouts: "Rollouts"
    candidate: CandidateProgram
    rollout: Rollout


class Rollouts:
    """The rollouts of one compile, their tokens and money; `wanted` is its `CompileRequest`. Thread-safe."""

    def __init__(
        self,
        live: Session,
        wanted: Any,
        jobs: int = 1,
        events: EventStream | None = None,
        logs: RolloutLogs | None = None,
    ):
        self.live = live
        self.wanted = wanted
        self.jobs = jobs
        self.val: tuple[Variant, ...] = wanted.calibration.val
        self.seeds: int = wanted.calibration.seeds
        self.logs = logs or RolloutLogs(source=live.backend.replay)
        self.events = events or EventStream()
        self.reserved: int = wanted.reserved  # kept back for confirming: the search may not begin them
        self.spent = 0  # rollouts begun
        self.usage: dict[str, Usage] = {}  # of all answers by role, the proposer's included
        self.candidates: dict[str, CandidateProgram] = {}  # by fingerprint; the first is the program to improve
        self.taught: dict[Variant, Rollout] = {}  # played by the teacher: their scores are no candidate's

        self.search_end: str | None = None
        self.unconfirmed = ""  # why the confirm variants were not played, if so
        self.ended_by: CompileEnding | None = None
        self.error: BaseException | None = None

        self._lead = open_lead(wanted.teacher, wanted.calibration, live) if wanted.teacher else None
        self._played: dict[Job, Future[Rollout]] = {}
        self._format = FormatCheck()
        self._lock = threading.RLock()

        models: dict[str, str] = {}
        models.update(live.backend.models.items())
        if wanted.teacher:
            models.update(wanted.teacher.models)
        self.purse = SpendLimit(wanted.max_cost, None, models, make_price_lookup(live.config.prices))
        for role, usage in self.logs.sum_usage().items():
            self._pay(role, usage)

    # The account.

    @property
    def rollouts_left(self) -> int:
        return int(self.wanted.max_rollouts) - self.spent - self.reserved

    @property
    def is_halted(self) -> bool:
        """Whether no further rollout will begin, and running ones stop before their next step."""
        return self.ended_by not in (None, "rollouts")

    @property
    def lm_calls(self) -> int:
        return sum(usage.calls for usage in self.usage.values())

    @property
    def has_spent_search_share(self) -> bool:
        """Whether the search has used its share of the money; the rest is for the rollouts that are kept back."""
        limit = self.purse.max_cost
        share = 1 - self.reserved / int(self.wanted.max_rollouts)
        return bool(self.reserved) and limit is not None and self.purse.cost >= share * limit

    def end_search(self, why: str) -> None:
        self.search_end = self.search_end or why  # the first reason stays

    def stop_compile(self, why: CompileEnding, error: BaseException | None = None) -> None:
        """End the compile; the first reason stays, but for spent rollouts, which stop nothing that runs."""
        with self._lock:
            if not self.is_halted:
                self.ended_by = why
                self.error = error

    def record_usage(self, role: str, usage: Usage) -> None:
        self.recall_usage(role, usage)
        self._pay(role, usage)

    def _pay(self, role: str, usage: Usage) -> None:
        self.purse.add_usage(role, usage)
        if self.purse.exceeded_limit:
            self.stop_compile("cost")

    def recall_usage(self, role: str, usage: Usage) -> None:
        """Count an answer that an earlier attempt has paid for."""
        with self._lock:
            self.usage = add_usage(self.usage, {role: usage})

    def find_abandoned_usage(self) -> dict[str, Usage]:
        """What attempts that were cut short cost and this one had no use for, by role."""
        abandoned = {}
        for role, usage in sorted(self.logs.sum_usage().items()):
            unused = usage.subtract(self.usage.get(role, Usage()))
            if unused != Usage():
                abandoned[role] = unused
        return abandoned

    # Candidates.

    @property
    def best_candidate(self) -> CandidateProgram | None:
        """The candidate with the highest mean metric over the val variants, in thousandths (below that only invalid
        actions differ), the earliest of equals; None until one was played on all of them. Placebos and dropped
        candidates do not count."""
        best: CandidateProgram | None = None
        best_score = 0.0
        for candidate in list(self.candidates.values()):
            if candidate.placebo or candidate.dropped:
                continue
            mean = candidate.mean_over(self.val, self.seeds)
            if mean is None:
                continue

            score = round(mean, 3)
            if best is None or score > best_score:
                best = candidate
                best_score = score
        return best

    def find_variant(self, key: str) -> Variant:
        variants: tuple[Variant, ...] = self.wanted.calibration.variants
        return next(variant for variant in variants if variant.key == key)

    def register_candidate(self, program: Agent, placebo: bool = False) -> CandidateProgram:
        """The candidate of a program; a new one gets the next number. The first is the program to improve."""
        with self._lock:
            name = fingerprint_program(program)
            if name in self.candidates:
                return self.candidates[name]

            number = len(self.candidates)
            if placebo:
                origin = "placebo"
            elif number == 0:
                origin = "start"
            else:
                origin = self.wanted.optimizer.origin
            candidate = CandidateProgram(name, program.dump_state(), number=number, placebo=placebo, origin=origin)
            self.candidates[name] = candidate
            return candidate

    def count_missing(self, program: Agent, variants: Sequence[Variant], seeds: int = 1) -> int:
        name = fingerprint_program(program)
        jobs = [(name, variant, seed) for variant in variants for seed in range(seeds)]
        return sum(job not in self._played for job in jobs)

    # Playing.

    def play(self, program: Agent, variant: Variant, repeat: int = 0) -> Rollout:
        """The rollout of a candidate on a calibration variant with one of its seeds. It is played once; a second caller
        waits for it. Raises `CompileStopped` when the budget does not allow it or the compile has ended."""
        with self._lock:
            candidate = self.register_candidate(program)
            job = (candidate.program, variant, repeat)
            earlier_future = self._played.get(job)
            future = earlier_future or self._begin_rollout(candidate, job)
        if earlier_future:
            return earlier_future.result()

        try:
            rollout = self._recall_rollout(job) or self._play_variant(program, job)
        except BaseException as error:
            self._stop_after(error)
            candidate.left = candidate.left or CUT_SHORT
            future.set_exception(CompileStopped())
            raise CompileStopped from error

        self._keep_rollout(candidate, job, rollout)
        future.set_result(rollout)
        self.events.emit(RolloutFinished(self, candidate, rollout))
        return rollout

    def _begin_rollout(self, candidate: CandidateProgram, job: Job) -> Future[Rollout]:
        """Take a rollout from the budget. Raises `CompileStopped` when that does not allow it or the compile has
        ended."""
        _, variant, _ = job
        cost = 0 if self.is_free(variant) else 1
        if self.is_halted or self.rollouts_left < cost:
            self.stop_compile("rollouts")
            candidate.left = candidate.left or CUT_SHORT
            raise CompileStopped

        self.spent += cost
        future: Future[Rollout] = Future()
        self._played[job] = future
        if not self._find_lead(variant):
            self._format.expect(self._make_unit(job))
        return future

    def _recall_rollout(self, job: Job) -> Rollout | None:
        """The rollout that an earlier attempt has played and paid for; None if there is none."""
        rollout = self.logs.find_rollout(self._make_unit(job))
        if rollout is None:
            return None

        for role, usage in sum_usage(rollout.trials).items():
            self.recall_usage(role, usage)
        self._check_kept_answers(job, rollout)
        return rollout

    def _check_kept_answers(self, job: Job, rollout: Rollout) -> None:
        """Take in what an earlier attempt heard of the actor."""
        if self._find_lead(rollout.variant):
            return

        unit = self._make_unit(job)
        for trial in rollout.trials:
            steps = trial.trajectory.steps if trial.trajectory else ()
            answers = trial.usage.get("actor", Usage()).calls
            is_read = any(not step.malformed for step in steps)
            self._format.hear(unit, answers, is_read)

    def _stop_after(self, error: BaseException) -> None:
        """End the compile after an error of a rollout, unless that comes of the end."""
        cause = error.__cause__ if isinstance(error, Stopped) else error
        if isinstance(cause, KeyboardInterrupt):
            self.stop_compile("interrupted")
        elif cause is not None and not isinstance(cause, CompileStopped):
            self.stop_compile("error", cause)

    def _keep_rollout(self, candidate: CandidateProgram, job: Job, rollout: Rollout) -> None:
        _, variant, repeat = job
        if self._find_lead(variant):
            self.taught[variant] = rollout
            return

        candidate.rollouts.setdefault(variant, {})[repeat] = rollout
        self._format.finish(self._make_unit(job))
        self._stop_if_unreadable()

    def _stop_if_unreadable(self) -> None:
        if self._format.find_unreadable():
            self.stop_compile("error", UnreadableAnswers(describe_unreadable(self.live)))

    def drop_unreadable(self) -> None:
        """Where none of the first answers could be read, leave out the rollouts that hold them: they are no scores, and
        the same command plays them again."""
        units = [job for job in self._format.find_unreadable() if isinstance(job, Unit)]
        if not units:
            return

        example = ""
        for unit in units:
            log = self.logs.open_log(unit)
            if not example:
                example = find_first_answer(log)
            log.void(0, describe_unreadable(self.live))

        for candidate in self.candidates.values():
            candidate.rollouts.clear()
        why = f"{describe_unreadable(self.live)}, so the compile ends. {advise_on_format(self.live, example)}"
        self.error = UnreadableAnswers(why)

    def play_all(self, program: Agent, variants: Sequence[Variant], seeds: int = 1) -> list[Rollout]:
        requests = [(program, variant, seed) for variant in variants for seed in range(seeds)]
        return self.play_each(requests)

    def play_each(self, wanted: Sequence[tuple[Agent, Variant, int]]) -> list[Rollout]:
        """Play these, `jobs` at a time. If the budget does not cover all, play the first ones and raise
        `CompileStopped`."""
        programs = {id(program): program for program, _, _ in wanted}
        names = {key: fingerprint_program(program) for key, program in programs.items()}

        covered = []
        remaining = self.rollouts_left
        for program, variant, repeat in wanted:
            job = (names[id(program)], variant, repeat)
            if not self.is_free(variant) and job not in self._played:
                remaining -= 1
            if remaining >= 0:
                covered.append((program, variant, repeat))

        with ThreadPoolExecutor(max_workers=self.jobs, thread_name_prefix="rollout") as threads:
            futures = [threads.submit(self.play, *request) for request in covered]
            rollouts = [future.result() for future in futures]

        if remaining < 0:
            self.stop_compile("rollouts")
            raise CompileStopped
        return rollouts

    def wait_until_idle(self) -> None:
        wait(list(self._played.values()))

    def is_free(self, variant: Variant) -> bool:
        """Whether playing this variant asks no model, because `gold` plays its path."""
        lead = self._find_lead(variant)
        return lead is not None and not lead.asks_models

    def _hear_answers(self, unit: Unit, answers: int, is_read: bool) -> None:
        self._format.hear(unit, answers, is_read)
        self._stop_if_unreadable()

    def _find_lead(self, variant: Variant) -> Lead | None:
        """The teacher, if this variant is the teacher's to play."""
        return self._lead if variant in self.wanted.calibration.train else None

    def _make_unit(self, job: Job) -> Unit:
        program, variant, repeat = job
        return Unit(Arm(self.wanted.method, program), variant, repeat, 0)

    def _play_variant(self, program: Agent, job: Job) -> Rollout:
        _, variant, repeat = job
        names = {id(predictor): name for name, predictor in program.predictors_by_name.items()}
        lead = self._find_lead(variant)

        hidden = (*self.val, *self.wanted.calibration.confirm)
        hidden_keys = frozenset(hidden_variant.key for hidden_variant in hidden)
        environments = GoalRecordingEnvironments(self.live.runtime.environments, hidden_keys)

        log = self.logs.open_log(self._make_unit(job))
        runtime = self._make_runtime(job, environments)
        with (
            log_calls(log),
            self.live.activate_for_run(),
            dspy.context(adapter=lead.adapter) if lead else nullcontext(),
            (lead.take_over(runtime, variant) if lead else runtime).activate(),
            dspy.context(trace=[]),
        ):
            if lead:
                log.write_entry({"unit": {"teacher": True}}, unless=log.head)

            trials = Agent.forward(program, variant, seed=self.wanted.seed + repeat).trials
            calls = []
            for predictor, inputs, outputs in dspy.settings.trace:
                calls.append((names[id(predictor)], inputs, outputs.toDict()))

            failure = trials[-1].failure
            if failure:
                log.void(0, f"it could not be played: {failure}")
                raise BackendFailure(
                    f"{variant.key} could not be played: {failure}. That is no score, so the compile ends; mend the "
                    "cause (`rsso-dspy doctor`) and repeat the command"
                )

            if lead:
                trials = lead.bill(trials)
            rollout = Rollout(variant, score_trials(trials), trials, tuple(environments.progress), tuple(calls))
            log.write_entry({"rollout": _ROLLOUT.dump_python(rollout, mode="json")})
            return rollout

    def _make_runtime(self, job: Job, environments: GoalRecordingEnvironments) -> Runtime:
        """The runtime of a rollout: the session's, on the compile's account and within its limits."""
        _, variant, _ = job
        usual = self.live.runtime
        hear_answers = usual.hear_answers
        if not self._find_lead(variant):
            hear_answers = partial(self._hear_answers, self._make_unit(job))
        return replace(
            usual,
            environments=environments,
            budget=lambda any_variant: min(usual.budget(any_variant), self.wanted.options.steps),
            spend=self.record_usage,
            recall=self.recall_usage,
            hear_answers=hear_answers,
            # No later trial would show what the skills of a success are worth.
            rules=replace(usual.rules, trials=self.wanted.options.trials, learn_after_success=False),
            stopped=lambda: self.is_halted,
        )


@contextmanager
def log_calls(log: UnitLog) -> Iterator[None]:
    """Write the calls of models inside the block into a log, or answer them from it."""
    with log.stop_on_error(threading.Event()), playing(calls=log):
        yield


def choose_candidate(rollouts: Rollouts) -> CandidateProgram | None:
    """The candidate that did best on `val`; None when none beat the program to improve by a tenth of a point."""
    start = next(iter(rollouts.candidates.values()), None)
    best = rollouts.best_candidate
    return None if best is start else best


def select_kept_candidate(rollouts: Rollouts) -> CandidateProgram | None:
    """The candidate that the file keeps, whatever its verdict: the highest mean on `val`, in thousandths, of those that
    were played on all of it; else the one that got furthest, on `val` and then on train, and of these the one that
    gained most there over the program to improve. The earliest of equals; None where no candidate was played."""
    start, *candidates = rollouts.candidates.values()
    tried = [candidate for candidate in candidates if candidate.rollouts and not candidate.placebo]
    means = {candidate.number: candidate.mean_over(rollouts.val, rollouts.seeds) for candidate in tried}
    finished = [candidate for candidate in tried if means[candidate.number] is not None]
    if finished:
        return max(finished, key=lambda candidate: round(means[candidate.number] or 0, 3))

    def rank_progress(candidate: CandidateProgram) -> tuple[int, int, float]:
        val = candidate.list_met(rollouts.val, rollouts.seeds)
        train = candidate.list_met(rollouts.wanted.calibration.train)
        gain = sum(subtract_scores(candidate, start, variant, rollouts.seeds) for variant in val)
        gain += sum(subtract_scores(candidate, start, variant) for variant in train)
        return len(val), len(train), round(gain, 3)

    return max(tried, key=rank_progress, default=None)
