"""Compiling: a program is played on calibration variants, an optimizer proposes better prompts, and the candidate that
does best on variants it was not made from is written down.

    with session() as live:
        compiled = compile(Agent("rsso"), live, "1-per-task", tasks=["boil"])
    compiled.save("compiled.json")
"""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any

from rsso_dspy.atomic import check_output_path
from rsso_dspy.config import Config
from rsso_dspy.errors import FolderGone, RunMismatch, UsageError
from rsso_dspy.experiment.events import EventStream, SimulatorsStarting, StopRequested
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.experiment.provenance import make_run_identity
from rsso_dspy.experiment.run_programs import CompileEnvironment
from rsso_dspy.experiment.session import Session
from rsso_dspy.experiment.tapes import recordings_beside
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.compiled import (
    Compiled,
    ProgramScores,
    TriedProgram,
    check_stock_modules,
    derive_program_name,
    hash_schema,
    load,
)
from rsso_dspy.optimize.optimizers import PERFECT
from rsso_dspy.optimize.recorded import RecordedCompile
from rsso_dspy.optimize.request import STEPS, TRIALS, CompileRequest, build_request
from rsso_dspy.optimize.rollout_cache import RolloutCache
from rsso_dspy.optimize.rollouts import CandidateProgram, CompileStopped, Rollouts
from rsso_dspy.optimize.silence import silence_output
from rsso_dspy.optimize.student import list_open_predictors, reserve_in_order
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program
from rsso_dspy.programs.roles import ROLE_OF
from rsso_dspy.records import Variant
from rsso_dspy.store.run_file import describe_difference

CUT_SHORT = ("interrupted", "error")
"""Ends of a compile after which the same command plays again."""


def compile(
    agent: Agent,
    live: Session,
    calib: str = "1-per-task",
    tasks: Sequence[str] | None = None,
    optimizer: str = "gepa",
    trials: int = TRIALS,
    steps: int = STEPS,
    max_rollouts: int | None = None,
    max_lm_calls: int | None = None,
    max_cost: float | None = None,
    roles: Sequence[str] | None = None,
) -> Compiled:
    """Compile a program on calibration variants (see `draw`) of the named tasks, with seed and protocol of the
    session's configuration and as many simulators as it has; `roles` are the predictors, or roles, that may be changed.
    Raises what `draw`, `request` and `compile_agent` raise.
    """
    config = live.config
    calibration = draw_calibration(calib, tasks, config.seed, config.simplification, config.active_benchmark)
    wanted = build_request(
        agent.method,
        live.protocol,
        calibration,
        optimizer,
        trials,
        steps,
        max_rollouts,
        max_lm_calls,
        config.seed,
        max_cost=max_cost,
        roles=roles,
    )
    return compile_agent(agent, live, wanted, live.jobs)


def compile_agent(
    agent: Agent,
    live: Session,
    wanted: CompileRequest,
    jobs: int = 1,
    events: EventStream | None = None,
    out: Path | None = None,
    record: bool = False,
) -> Compiled:
    """Compile a program, and write it to `out` when that is given; with `record`, keep every exchange with a model
    beside it, in ``FILE.recordings``.

    The program as it is and every candidate are scored on the variants to choose by; the best one is returned, the
    program as it was when none is better. A spent budget ends the search with the best so far. So do Ctrl-C and a
    failing backend: then `out` is written and the error goes on. With `out`, rollouts are kept beside it until the
    compile has come to its end: cut short and called again, it plays none of them twice. Raises what
    `Session.check_models` and `check_stock` raise.
    """
    events = events or EventStream()
    live.starts.told = lambda starting: events.emit(SimulatorsStarting(starting))
    live.check_models([agent])
    check_stock_modules(agent)
    shelf, tapes = None, None
    if out is not None:
        check_writable(out)
        shelf = RolloutCache.for_output(out)
        recordings = recordings_beside(out, shelf.begun, live, record)
        shelf.open_for_request(describe_request(live.config, wanted))
        tapes = RecordedCompile(recordings, shelf.place, live.backend.recordings)
    calibration = wanted.calibration
    rollouts = Rollouts(
        live,
        calibration.choose,
        wanted.budgets,
        wanted.trials,
        wanted.seed,
        wanted.limits,
        events,
        list_open_predictors(wanted.tuned, live.backend.deaf_roles),
        shelf,
        wanted.max_idle,
        tapes,
    )
    try:
        with stop_on_interrupt(rollouts), silence_output(), reserve_in_order(rollouts):
            rollouts.play_all(agent, calibration.choose, jobs)
            found = wanted.optimizer.run(agent, calibration, rollouts, wanted.seed, jobs)
            rollouts.play_all(found, calibration.choose, jobs)
    except CompileStopped:
        pass
    except KeyboardInterrupt:
        rollouts.stop_compile("interrupted")
    with suppress(KeyboardInterrupt):  # pressed again: what is under way is given up
        rollouts.wait_until_idle()
    if isinstance(rollouts.error, FolderGone):
        raise rollouts.error
    compiled = _build_compiled(agent, live, wanted, rollouts)
    if shelf is not None:
        shelf.place.check_exists()
    if out is not None and not (rollouts.ended_by in CUT_SHORT and _is_better_saved(out, compiled)):
        compiled.save(out)
    if shelf is not None and rollouts.ended_by not in CUT_SHORT:
        shelf.remove_folder()
    if rollouts.ended_by == "interrupted":
        raise KeyboardInterrupt
    if rollouts.error is not None:
        raise rollouts.error
    return compiled


def check_writable(out: Path) -> None:
    """Raise `UsageError` when a compiled program could not be written to `out`: known before anything is played."""
    derive_program_name(out)
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'compiled.json'}")
    check_output_path(out)


def _is_better_saved(out: Path, compiled: Compiled) -> bool:
    """A compile of the same request that was cut short before got further than this one."""
    if not out.exists():
        return False
    before = load(out).after
    return before is not None and (compiled.after is None or before.metric > compiled.after.metric)


def load_finished_compile(out: Path, config: Config, wanted: CompileRequest) -> Compiled | None:
    """What `out` holds, when the same request made it and came to its end; None when there is nothing or it was cut
    short by Ctrl-C or an error. Raises `RunMismatch` for the result of another request."""
    check_writable(out)
    if not out.exists():
        return None
    try:
        there = load(out)
    except UsageError as error:
        raise UsageError(f"{error}. Nothing is written over it: use another -o, or move it away") from None
    now = describe_request(config, wanted)
    then = {key: list(value) if isinstance(value := getattr(there, key), tuple) else value for key in now}
    if then != now:
        raise RunMismatch(
            f"{out} holds the result of another compile:\n{describe_difference(then, now)}\nUse another -o, or move "
            "it away."
        )
    return None if there.ended_by in CUT_SHORT else there


def describe_request(config: Config, wanted: CompileRequest) -> dict[str, Any]:
    """What the result of a compile depends on, as JSON data."""
    return {
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
        "learn": [variant.key for variant in wanted.calibration.learn],
        "choose": [variant.key for variant in wanted.calibration.choose],
        "identity": make_run_identity(config, resolve_protocol(config)),
    }


@contextmanager
def stop_on_interrupt(rollouts: Rollouts) -> Iterator[None]:
    """Ctrl-C inside the block stops the rollouts at once, before it goes its usual way: optimizers may first wait for
    what is under way. In the main thread only, as signals are."""
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


def _build_compiled(agent: Agent, live: Session, wanted: CompileRequest, rollouts: Rollouts) -> Compiled:
    original = CandidateProgram(fingerprint_program(agent), agent.dump_state())  # when nothing at all was begun
    original = rollouts.candidates.get(original.program, original)
    best = rollouts.best_candidate or original
    models, played = live.backend.models, live.config.active_benchmark
    tried = [(c, _compute_scores(c, rollouts.choose)) for c in rollouts.candidates.values()]
    return Compiled(
        method=wanted.method.name,
        improved=best is not original,
        ended_by=rollouts.ended_by,
        optimizer=wanted.optimizer.name,
        trials=wanted.trials,
        steps=wanted.steps,
        seed=wanted.seed,
        notes=(*_build_notes(wanted, original), *_note_deaf_roles(wanted, live, rollouts)),
        max_rollouts=wanted.limits.rollouts,
        max_lm_calls=wanted.limits.lm_calls,
        max_cost=wanted.limits.cost,
        roles=wanted.tuned,
        start=wanted.start,
        seen=wanted.seen,
        max_idle=wanted.max_idle,
        learn=tuple(variant.key for variant in wanted.calibration.learn),
        choose=tuple(variant.key for variant in wanted.calibration.choose),
        before=_compute_scores(original, rollouts.choose),
        after=_compute_scores(best, rollouts.choose),
        tried=tuple(TriedProgram(c.program, scores, _score_per_variant(c)) for c, scores in tried if scores),
        rollouts=rollouts.spent,
        lm_calls=rollouts.lm_calls,
        usage=dict(sorted(rollouts.usage.items())),
        abandoned=rollouts.abandoned,
        model=models["actor"],
        proposer=models["proposer"],
        rule_based=live.backend.rule_based,
        environment=CompileEnvironment.of(live.config),
        signatures=hash_schema(agent),
        identity=make_run_identity(live.config, live.protocol),
        versions={**{name: version(name) for name in ("dspy", "gepa")}, played.name: played.version},
        program=best.program,
        state=best.state,
    )


def _build_notes(wanted: CompileRequest, original: CandidateProgram) -> tuple[str, ...]:
    calibration = wanted.calibration
    solved = original.mean_over(calibration.learn) == PERFECT
    nothing = "every variant to learn from was solved already: calibrate on more of them, or on harder ones"
    return (*calibration.notes, *([nothing] if solved else []))


def _note_deaf_roles(wanted: CompileRequest, live: Session, rollouts: Rollouts) -> tuple[str, ...]:
    if rollouts.tuned == wanted.tuned:
        return ()
    roles = sorted(live.backend.deaf_roles & {ROLE_OF[name] for name in Agent(wanted.method.name).predictors_by_name})
    return (f"left as they are, since the rule-based model reads no instruction there: {', '.join(roles)}",) * bool(
        roles
    )


def _compute_scores(candidate: CandidateProgram, choose: Sequence[Variant]) -> ProgramScores | None:
    metric, mean = candidate.mean_over(choose), candidate.mean_over(choose, "accumulator")
    return None if metric is None or mean is None else ProgramScores(metric, mean)


def _score_per_variant(candidate: CandidateProgram) -> dict[str, float]:
    """Metric by variant, in an order that does not depend on when each was played."""
    return {variant.key: round(candidate.rollouts[variant].score, 4) for variant in sorted(candidate.rollouts, key=str)}
