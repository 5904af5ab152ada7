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

from rsso_dspy.config import Config
from rsso_dspy.errors import FolderGone, RunMismatch, UsageError
from rsso_dspy.optimize.calibration import draw
from rsso_dspy.optimize.compiled import (
    Compiled,
    Scores,
    Tried,
    check_stock,
    load,
    program_name,
    schema_hash,
)
from rsso_dspy.optimize.optimizers import PERFECT
from rsso_dspy.optimize.quiet import quiet
from rsso_dspy.optimize.recorded import RecordedCompile
from rsso_dspy.optimize.request import STEPS, TRIALS, Request, request
from rsso_dspy.optimize.rollouts import Candidate, Halt, Rollouts
from rsso_dspy.optimize.shelf import Shelf
from rsso_dspy.optimize.student import in_order
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint
from rsso_dspy.protocol.events import EventStream, SimulatorsStarting, StopRequested
from rsso_dspy.protocol.presets import configured
from rsso_dspy.protocol.programs import Environment
from rsso_dspy.protocol.provenance import identity
from rsso_dspy.protocol.run_file import difference
from rsso_dspy.protocol.session import Session
from rsso_dspy.protocol.tapes import recordings_beside
from rsso_dspy.trajectory import Variant
from rsso_dspy.whole import check_place

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
    calibration = draw(calib, tasks, config.seed, config.simplification, config.played)
    wanted = request(
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
    wanted: Request,
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
    check_stock(agent)
    shelf, tapes = None, None
    if out is not None:
        check_writable(out)
        shelf = Shelf.beside(out)
        recordings = recordings_beside(out, shelf.begun, live, record)
        shelf.open(asked_for(live.config, wanted))
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
        wanted.tuned,
        shelf,
        wanted.max_idle,
        tapes,
    )
    try:
        with interruptible(rollouts), quiet(), in_order(rollouts):
            rollouts.play_all(agent, calibration.choose, jobs)
            found = wanted.optimizer.run(agent, calibration, rollouts, wanted.seed, jobs)
            rollouts.play_all(found, calibration.choose, jobs)
    except Halt:
        pass
    except KeyboardInterrupt:
        rollouts.halt("interrupted")
    with suppress(KeyboardInterrupt):  # pressed again: what is under way is given up
        rollouts.wait()
    if isinstance(rollouts.error, FolderGone):
        raise rollouts.error
    compiled = _compiled(agent, live, wanted, rollouts)
    if shelf is not None:
        shelf.place.check()
    if out is not None and not (rollouts.ended_by in CUT_SHORT and _better_there(out, compiled)):
        compiled.save(out)
    if shelf is not None and rollouts.ended_by not in CUT_SHORT:
        shelf.remove()
    if rollouts.ended_by == "interrupted":
        raise KeyboardInterrupt
    if rollouts.error is not None:
        raise rollouts.error
    return compiled


def check_writable(out: Path) -> None:
    """Raise `UsageError` when a compiled program could not be written to `out`: known before anything is played."""
    program_name(out)
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'compiled.json'}")
    check_place(out)


def _better_there(out: Path, compiled: Compiled) -> bool:
    """A compile of the same request that was cut short before got further than this one."""
    if not out.exists():
        return False
    before = load(out).after
    return before is not None and (compiled.after is None or before.metric > compiled.after.metric)


def already_compiled(out: Path, config: Config, wanted: Request) -> Compiled | None:
    """What `out` holds, when the same request made it and came to its end; None when there is nothing or it was cut
    short by Ctrl-C or an error. Raises `RunMismatch` for the result of another request."""
    check_writable(out)
    if not out.exists():
        return None
    try:
        there = load(out)
    except UsageError as error:
        raise UsageError(f"{error}. Nothing is written over it: use another -o, or move it away") from None
    now = asked_for(config, wanted)
    then = {key: list(value) if isinstance(value := getattr(there, key), tuple) else value for key in now}
    if then != now:
        raise RunMismatch(
            f"{out} holds the result of another compile:\n{difference(then, now)}\nUse another -o, or move it away."
        )
    return None if there.ended_by in CUT_SHORT else there


def asked_for(config: Config, wanted: Request) -> dict[str, Any]:
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
        "identity": identity(config, configured(config)),
    }


@contextmanager
def interruptible(rollouts: Rollouts) -> Iterator[None]:
    """Ctrl-C inside the block stops the rollouts at once, before it goes its usual way: optimizers may first wait for
    what is under way. In the main thread only, as signals are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def stop(number: int, frame: FrameType | None) -> None:
        if rollouts.ended_by is None:
            rollouts.halt("interrupted")
            rollouts.events.emit(StopRequested())
        (before if callable(before) else signal.default_int_handler)(number, frame)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _compiled(agent: Agent, live: Session, wanted: Request, rollouts: Rollouts) -> Compiled:
    original = Candidate(fingerprint(agent), agent.dump_state())  # when nothing at all was begun
    original = rollouts.candidates.get(original.program, original)
    best = rollouts.best or original
    models, played = live.backend.models, live.config.played
    tried = [(c, _scores(c, rollouts.choose)) for c in rollouts.candidates.values()]
    return Compiled(
        method=wanted.method.name,
        improved=best is not original,
        ended_by=rollouts.ended_by,
        optimizer=wanted.optimizer.name,
        trials=wanted.trials,
        steps=wanted.steps,
        seed=wanted.seed,
        notes=_notes(wanted, original),
        max_rollouts=wanted.limits.rollouts,
        max_lm_calls=wanted.limits.lm_calls,
        max_cost=wanted.limits.cost,
        roles=wanted.tuned,
        start=wanted.start,
        seen=wanted.seen,
        max_idle=wanted.max_idle,
        learn=tuple(variant.key for variant in wanted.calibration.learn),
        choose=tuple(variant.key for variant in wanted.calibration.choose),
        before=_scores(original, rollouts.choose),
        after=_scores(best, rollouts.choose),
        tried=tuple(Tried(c.program, scores, _per_variant(c)) for c, scores in tried if scores),
        rollouts=rollouts.spent,
        lm_calls=rollouts.lm_calls,
        usage=dict(sorted(rollouts.usage.items())),
        abandoned=rollouts.abandoned,
        model=models["actor"],
        proposer=models["proposer"],
        rule_based=live.backend.rule_based,
        environment=Environment.of(live.config),
        signatures=schema_hash(agent),
        identity=identity(live.config, live.protocol),
        versions={**{name: version(name) for name in ("dspy", "gepa")}, played.name: played.version},
        program=best.program,
        state=best.state,
    )


def _notes(wanted: Request, original: Candidate) -> tuple[str, ...]:
    calibration = wanted.calibration
    solved = original.mean(calibration.learn) == PERFECT
    nothing = "every variant to learn from was solved already: calibrate on more of them, or on harder ones"
    return (*calibration.notes, *([nothing] if solved else []))


def _scores(candidate: Candidate, choose: Sequence[Variant]) -> Scores | None:
    metric, mean = candidate.mean(choose), candidate.mean(choose, "accumulator")
    return None if metric is None or mean is None else Scores(metric, mean)


def _per_variant(candidate: Candidate) -> dict[str, float]:
    """Metric by variant, in an order that does not depend on when each was played."""
    return {variant.key: round(candidate.rollouts[variant].score, 4) for variant in sorted(candidate.rollouts, key=str)}
