"""Compiling: an optimizer proposes better prompts, the candidate that does best on `val` is chosen, and `confirm` gives
the verdict in the file.

    with session() as live:
        compiled = compile(Agent("rsso"), live, "1-per-task", tasks=["boil"])
    compiled.save("compiled.json")
"""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from rsso_dspy.bounds import USUAL_DEMO_TOKENS
from rsso_dspy.config import Config
from rsso_dspy.errors import FolderGone, RunMismatch, UsageError
from rsso_dspy.executor import EventStream, SimulatorsStarting, StopRequested
from rsso_dspy.files import check_output_path
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.outcome import build_compiled, make_compile_identity
from rsso_dspy.optimize.phases import play_phases
from rsso_dspy.optimize.program_file import derive_program_name, load
from rsso_dspy.optimize.program_schema import check_stock_modules
from rsso_dspy.optimize.request import STEPS, TRIALS, CompileRequest, build_request, choose_optimizer
from rsso_dspy.optimize.rollout_logs import RolloutLogs
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.student import list_open_predictors
from rsso_dspy.optimize.teacher import choose_teacher, open_lead
from rsso_dspy.plan import check_writers
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import resolve_protocol
from rsso_dspy.sessions import Session
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
) -> Compiled:
    """Compile a program on calibration variants (see `draw_calibration`) of the named tasks, with the seed and protocol
    of the session's configuration and as many simulators as it has. `roles` names the predictors, or roles, that may be
    changed. `teacher` is "gold" or the name of a backend: see `teacher.py`. Without `optimizer`, gepa runs, or
    bootstrap-random under a teacher. Prints the verdict; unless it is confirmed, the result plays the program that was
    given. Raises what `draw_calibration`, `build_request` and `compile_agent` raise.
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
    kept = "" if compiled.improved else " plays the program that it started from"
    print(f"{compiled}{kept}{'; .select_candidate() plays the candidate' if compiled.candidate else ''}")
    return compiled


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
    live.starts.told = lambda starting: events.emit(SimulatorsStarting(starting))
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
        list_open_predictors(wanted.tuned, live.backend.deaf_roles),
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
