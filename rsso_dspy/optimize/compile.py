"""Compiling: an optimizer proposes better prompts, the candidate that does best on `val` is chosen, and `confirm` gives
the verdict in the file.

    with session() as live:
        compiled = compile(Agent("rsso"), live, "1-per-task", tasks=["boil"])
    compiled.save("compiled.json")
"""

import logging
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Any

import tqdm

from rsso_dspy.bounds import USUAL_DEMO_TOKENS
from rsso_dspy.config import Config
from rsso_dspy.errors import FolderGone, RunMismatch, UsageError
from rsso_dspy.executor import EventStream, StopRequested
from rsso_dspy.files import check_output_path
from rsso_dspy.optimize.acceptance import CandidateProgram, explain_no_choice, judge_candidate, measure_noise
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.optimizers import try_lessons
from rsso_dspy.optimize.program_file import (
    Compiled,
    KeptCandidate,
    ProgramScores,
    TriedProgram,
    check_stock_modules,
    derive_program_name,
    hash_schema,
    load,
)
from rsso_dspy.optimize.request import STEPS, TRIALS, CompileRequest, build_request, choose_optimizer
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.optimize.rollouts import CompileStopped, Rollouts, choose_candidate, confirm_candidate, race_on_val
from rsso_dspy.optimize.student import (
    BUDGET_SPENT,
    NOTHING_LEFT,
    has_perfect_candidate,
    make_placebo,
    race_in_evaluations,
)
from rsso_dspy.optimize.teacher import choose_teacher, open_lead
from rsso_dspy.plan import check_writers
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from rsso_dspy.protocol import NamedProtocol, make_run_identity, resolve_protocol
from rsso_dspy.records import Variant
from rsso_dspy.sessions import Session
from rsso_dspy.store.guards import CompileEnvironment
from rsso_dspy.store.run_folder import describe_difference

CUT_SHORT = ("interrupted", "error")
"""Values of `ended_by` after which the same command continues the compile."""


def compile(
    agent: Agent,
    live: Session,
    calib: str = "1-per-task",
    tasks: Sequence[str] | None = None,
    optimizer: str | None = None,
    trials: int = TRIALS,
    steps: int = STEPS,
    max_rollouts: int | None = None,
    max_lm_calls: int | None = None,
    max_cost: float | None = None,
    roles: Sequence[str] | None = None,
    seeds: int = 1,
    teacher: str | None = None,
    demo_tokens: int = USUAL_DEMO_TOKENS,
) -> "CompiledAgent":
    """Compile a program on calibration variants (see `draw_calibration`) of the named tasks, with the seed and protocol
    of the session's configuration and as many simulators as it has. `roles` names the predictors, or roles, that may be
    changed. `teacher` is "gold" or the name of a backend: see `teacher.py`. Without `optimizer`, gepa runs, or
    bootstrap under a teacher. Prints the verdict and returns the program; unless it is confirmed, it plays as the one
    that was given. Raises what `draw_calibration`, `build_request` and `compile_agent` raise.
    """
    config = live.config
    calibration = draw_calibration(calib, tasks, config.seed, config.simplification, config.benchmark_in_data)
    wanted = build_request(
        agent.method,
        live.protocol,
        calibration,
        optimizer or choose_optimizer(teacher),
        trials,
        steps,
        max_rollouts,
        max_lm_calls,
        config.seed,
        max_cost=max_cost,
        roles=roles,
        seeds=seeds,
        teacher=choose_teacher(teacher, config, demo_tokens) if teacher else None,
    )
    compiled = compile_agent(agent, live, wanted, live.jobs)
    found = CompiledAgent(compiled)
    kept = "" if compiled.improved else ". It plays the program that it started from"
    print(f"{found.verdict}{kept}{'; .compiled.select_candidate() plays the candidate' if compiled.candidate else ''}")
    return found


class CompiledAgent(Agent):
    """The program that a compile ends with: the candidate where it is confirmed, else the program that was given."""

    def __init__(self, compiled: Compiled):
        super().__init__(compiled.method)
        self.load_state(compiled.agent().dump_state())
        self.compiled = compiled
        """How it was compiled, the content of its file."""

    @property
    def verdict(self) -> str:
        """One word (confirmed, unconfirmed or not better), then why."""
        return str(self.compiled.confirmation)

    def save(self, path: Path | str, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Write the compiled file, which `rsso_dspy.load`, `evaluate` and `run` read."""
        self.compiled.save(path)


def compile_agent(
    agent: Agent,
    live: Session,
    wanted: CompileRequest,
    jobs: int = 1,
    events: EventStream | None = None,
    out: Path | None = None,
) -> Compiled:
    """Compile a program and, if `out` is given, write it there.

    Candidates race on the val variants. The best one and the program to improve are played on the confirm variants, and
    `improved` says whether that confirmed it. A spent budget ends the search with the best so far. So do Ctrl-C and a
    failing backend: then `out` is written and the error is raised. With `out`, rollouts are logged beside it: cut short
    and called again, it plays none of them twice. Raises what `Session.check_models`,
    `check_writers` and `check_stock_modules` raise.
    """
    events = events or EventStream()
    live.check_models([agent])
    check_writers([agent.method], live.config)
    check_stock_modules(agent)
    if out is not None:
        check_writable(out)
    logs = RolloutLogs.for_output(out, live.backend.replay) if out else RolloutLogs(source=live.backend.replay)
    with logs.open_for_request(describe_request(live.config, wanted)):
        return _compile_logged(agent, live, wanted, jobs, events, out, logs)


def _compile_logged(
    agent: Agent,
    live: Session,
    wanted: CompileRequest,
    jobs: int,
    events: EventStream,
    out: Path | None,
    logs: RolloutLogs,
) -> Compiled:
    calibration, teacher = wanted.calibration, wanted.teacher
    rollouts = Rollouts(
        live,
        calibration.val,
        wanted.budgets,
        wanted.trials,
        wanted.seed,
        wanted.limits,
        events,
        wanted.tuned,
        logs,
        wanted.max_idle,
        calibration.seeds,
        wanted.reserved,
        open_lead(teacher, calibration, live, wanted.method.scaffold) if teacher else None,
        teacher.models if teacher else {},
    )
    try:
        with stop_on_interrupt(rollouts):
            play_phases(agent, wanted, rollouts, jobs)
    except KeyboardInterrupt:
        rollouts.stop_compile("interrupted")
    with suppress(KeyboardInterrupt):  # pressed again: running rollouts are given up
        rollouts.wait_until_idle()
    if isinstance(rollouts.error, FolderGone):
        raise rollouts.error
    compiled = build_compiled(agent, live, wanted, rollouts)
    if logs.store is not None:
        logs.store.check_exists()
    if out is not None and not (rollouts.ended_by in CUT_SHORT and _is_better_saved(out, compiled)):
        compiled.save(out)
    if rollouts.ended_by == "interrupted":
        raise KeyboardInterrupt
    if rollouts.error is not None:
        raise rollouts.error
    return compiled


def check_writable(out: Path) -> None:
    """Raise `UsageError` when a compiled program could not be written to `out`, before anything is played."""
    derive_program_name(out)
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'compiled.json'}")
    check_output_path(out)


def _is_better_saved(out: Path, compiled: Compiled) -> bool:
    """Whether `out` holds a better result of the same request, from an attempt that was cut short."""
    if not out.exists():
        return False
    before = load(out).after
    return before is not None and (compiled.after is None or before.metric > compiled.after.metric)


def load_finished_compile(out: Path, config: Config, wanted: CompileRequest) -> Compiled | None:
    """The result in `out`, if the same request made it and finished; None when there is none or it was cut short by
    Ctrl-C or an error. Raises `RunMismatch` for the result of another request."""
    check_writable(out)
    if not out.exists():
        return None
    try:
        there = load(out)
    except UsageError as error:
        raise UsageError(f"{error}. Nothing is written over it: use another -o, or move it away") from None
    now = {"teacher": None, "demo_tokens": None, **describe_request(config, wanted)}
    then = {key: list(value) if isinstance(value := getattr(there, key), tuple) else value for key in now}
    if then != now:
        raise RunMismatch(
            f"{out} holds the result of another compile:\n{describe_difference(then, now)}\nUse another -o, or move "
            "it away."
        )
    return None if there.ended_by in CUT_SHORT else there


def describe_request(config: Config, wanted: CompileRequest) -> dict[str, Any]:
    """What the result of a compile depends on, as JSON data."""
    teacher = wanted.teacher
    return {
        **({"teacher": teacher.model, "demo_tokens": teacher.demo_tokens} if teacher else {}),
        "method": wanted.method.name,
        "optimizer": wanted.optimizer.name,
        "trials": wanted.trials,
        "steps": wanted.steps,
        "max_idle": wanted.max_idle,
        "seed": wanted.seed,
        "max_rollouts": wanted.limits.rollouts,
        "max_lm_calls": wanted.limits.lm_calls,
        "max_cost": wanted.limits.cost,
        "roles": list(wanted.tuned),
        "start": wanted.start,
        "train": [variant.key for variant in wanted.calibration.train],
        "val": [variant.key for variant in wanted.calibration.val],
        "confirm": [variant.key for variant in wanted.calibration.confirm],
        "seeds": wanted.calibration.seeds,
        "placebos": wanted.placebos,
        "identity": make_compile_identity(config, resolve_protocol(config), wanted),
    }


@contextmanager
def stop_on_interrupt(rollouts: Rollouts) -> Iterator[None]:
    """Stop the rollouts at once on Ctrl-C, before its usual handler runs: optimizers might first wait for running
    rollouts. Only in the main thread, which alone receives signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def stop_rollouts(number: int, frame: FrameType | None) -> None:
        if rollouts.ended_by is None:
            rollouts.stop_compile("interrupted")
            rollouts.events.emit(StopRequested())
        (before if callable(before) else signal.default_int_handler)(number, frame)

    signal.signal(signal.SIGINT, stop_rollouts)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


NO_ROOM = "the budget left too few rollouts to confirm it"


def play_phases(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Play all phases of a compile, as far as its budget goes. `rollouts` holds the results."""
    with suppress(CompileStopped):
        search_candidates(agent, wanted, rollouts, jobs)
    confirm_choice(agent, wanted, rollouts, jobs)


def search_candidates(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Score the program to improve and the placebos, then let the optimizer try candidates."""
    calibration, optimizer = wanted.calibration, wanted.optimizer
    with silence_output(), race_in_evaluations(rollouts, jobs):
        rollouts.play_all(agent, calibration.val, jobs, calibration.seeds)
        play_placebos(agent, wanted, rollouts, jobs)
        if wanted.teacher:
            try_lessons(agent, rollouts, calibration.train, wanted.teacher.demo_tokens, wanted.seed, jobs)
            return
        found = optimizer.run(agent, calibration, rollouts, wanted.seed, jobs)
        race_on_val(rollouts, found, jobs)


def play_placebos(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Score placebos on all of `val`, as many as leave enough budget for one candidate."""
    calibration = wanted.calibration
    # This counts the program to improve, which was played already: as many rollouts as a placebo takes.
    needed = wanted.optimizer.least(calibration)
    for number in range(wanted.placebos):
        if has_perfect_candidate(rollouts) or rollouts.rollouts_left < needed:
            return
        placebo = make_placebo(agent, rollouts.tuned, wanted.seed + number, rollouts.live.runtime.rules.interface)
        rollouts.register_candidate(placebo, placebo=True)
        rollouts.play_all(placebo, calibration.val, jobs, calibration.seeds)


def confirm_choice(agent: Agent, wanted: CompileRequest, rollouts: Rollouts, jobs: int) -> None:
    """Play the best candidate and the program to improve on `confirm`, if the budget covers all of it."""
    rollouts.release_reserve()
    chosen, calibration = choose_candidate(rollouts), wanted.calibration
    if chosen is None or rollouts.is_halted:
        return
    if rollouts.rollouts_left < calibration.confirm_rollouts:
        rollouts.unconfirmed = NO_ROOM
        return
    with suppress(CompileStopped):
        confirm_candidate(rollouts, agent, chosen, calibration.confirm, jobs)


_LOGGERS = ("dspy", "gepa")
_lock = threading.RLock()


@contextmanager
def silence_output() -> Iterator[None]:
    """Inside the block, draw no tqdm bar and let only errors of the optimizers' logs through."""
    drawn = tqdm.tqdm.__init__
    levels = {name: logging.getLogger(name).level for name in _LOGGERS}

    def disable_bar(bar: Any, *args: Any, **options: Any) -> None:
        drawn(bar, *args, **{**options, "disable": True})

    with _lock:
        tqdm.tqdm.__init__ = disable_bar
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            tqdm.tqdm.__init__ = drawn
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)


ENDED = {
    "rollouts": "the rollouts of --max-rollouts were spent",
    "lm-calls": "the model calls of compile.max_lm_calls were spent",
    "cost": "the dollars of --max-cost were spent",
    "interrupted": "it was interrupted",
    "error": "an error cut it short",
}
"""How a compile was cut short, in words."""


def build_compiled(agent: Agent, live: Session, wanted: CompileRequest, rollouts: Rollouts) -> Compiled:
    """The content of the file of a compile, finished or cut short."""
    start = CandidateProgram(fingerprint_program(agent), agent.dump_state())  # in case nothing was begun
    start = rollouts.candidates.get(start.program, start)
    calibration, seeds = wanted.calibration, wanted.calibration.seeds
    chosen = choose_candidate(rollouts)
    cut_short = rollouts.unconfirmed or ENDED.get(rollouts.ended_by or "", "")
    candidates = sorted(rollouts.candidates.values(), key=lambda each: each.number)
    none_chosen = explain_no_choice(candidates, rollouts.val, seeds)
    confirmation = judge_candidate(start, chosen, calibration.confirm, seeds, cut_short, none_chosen)
    if chosen:
        parts = {"val": rollouts.val, "confirm": calibration.confirm}
        losses = {
            name: (start.count_losses(part, seeds), chosen.count_losses(part, seeds)) for name, part in parts.items()
        }
        confirmation = replace(confirmation, losses=losses)
    improved = confirmation.verdict == "confirmed"
    best = chosen or start
    kept = best if improved else start
    models, played = live.backend.models, live.config.active_benchmark
    return Compiled(
        method=wanted.method.name,
        improved=improved,
        ended_by=rollouts.ended_by,
        optimizer=wanted.optimizer.name,
        trials=wanted.trials,
        steps=wanted.steps,
        seed=wanted.seed,
        notes=(
            *calibration.notes,
            *(wanted.teacher.notes if wanted.teacher else ()),
        ),
        max_rollouts=wanted.limits.rollouts,
        max_lm_calls=wanted.limits.lm_calls,
        max_cost=wanted.limits.cost,
        roles=wanted.tuned,
        start=wanted.start,
        seen=wanted.seen,
        max_idle=wanted.max_idle,
        train=tuple(variant.key for variant in calibration.train),
        val=tuple(variant.key for variant in calibration.val),
        confirm=tuple(variant.key for variant in calibration.confirm),
        fresh=tuple(variant.key for variant in rollouts.fresh),
        seeds=seeds,
        placebos=wanted.placebos,
        before=_compute_scores(start, rollouts.val, seeds),
        after=_compute_scores(best, rollouts.val, seeds),
        tried=tuple(tried for each in candidates if (tried := _describe_candidate(each, rollouts.val, seeds))),
        confirmation=confirmation,
        noise=measure_noise(candidates, rollouts.val, seeds),
        candidate=None if improved or chosen is None else KeptCandidate(chosen.program, chosen.state),
        search_end=_explain_search_end(rollouts),
        rollouts=rollouts.spent,
        lm_calls=rollouts.lm_calls,
        usage=dict(sorted(rollouts.usage.items())),
        abandoned=rollouts.abandoned,
        model=models["actor"],
        proposer=models["proposer"],
        rule_based=live.backend.rule_based,
        environment=CompileEnvironment.of(live.config),
        signatures=hash_schema(agent),
        identity=make_compile_identity(live.config, live.protocol, wanted),
        versions={**{name: version(name) for name in ("dspy", "gepa")}, played.name: played.version},
        program=kept.program,
        state=kept.state,
        teacher=wanted.teacher.model if wanted.teacher else None,
        demo_tokens=wanted.teacher.demo_tokens if wanted.teacher else None,
    )


def make_compile_identity(config: Config, protocol: NamedProtocol, wanted: CompileRequest) -> dict[str, Any]:
    """What the result of a compile depends on besides its request: what a run depends on, and how a teacher answers."""
    taught = {"teacher": wanted.teacher.describe()} if wanted.teacher else {}
    return {**make_run_identity(config, protocol), **taught}


def _explain_search_end(rollouts: Rollouts) -> str:
    if rollouts.search_end:
        return rollouts.search_end
    if rollouts.ended_by == "rollouts":
        return BUDGET_SPENT
    return ENDED.get(rollouts.ended_by or "", NOTHING_LEFT)


def _describe_candidate(candidate: CandidateProgram, val: Sequence[Variant], seeds: int) -> TriedProgram | None:
    """The row of a candidate that was played on all of `val`, or dropped there; None for any other."""
    met = [variant for variant in val if variant in candidate.rollouts] if candidate.dropped else val
    scores = _compute_scores(candidate, met, seeds)
    if scores is None:
        return None
    per_variant = {
        variant.key: round(fmean(each.score for each in candidate.list_rollouts(variant, seeds)), 4)
        for variant in sorted(candidate.rollouts, key=str)
    }
    return TriedProgram(candidate.program, scores, per_variant, candidate.number, candidate.placebo, candidate.dropped)


def _compute_scores(candidate: CandidateProgram, val: Sequence[Variant], seeds: int) -> ProgramScores | None:
    metric = candidate.mean_over(val, seeds=seeds)
    mean = candidate.mean_over(val, "accumulator", seeds)
    return None if metric is None or mean is None else ProgramScores(metric, mean)
