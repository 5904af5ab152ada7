"""Compiling: an optimizer proposes better prompts, the candidate that does best on `val` is chosen, and `confirm` gives
the verdict in the file."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from statistics import fmean
from typing import Any

from rsso_dspy.config import CompileOptions, Config
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.executor import LISTENING, EventStream, StopRequested
from rsso_dspy.files import check_output_path
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.optimize.optimizers import read_candidates
from rsso_dspy.optimize.program_file import (
    FILE,
    Compiled,
    KeptCandidate,
    ProgramScores,
    TriedProgram,
    check_stock_modules,
    derive_program_name,
    hash_schema,
    load,
)
from rsso_dspy.optimize.request import CompileRequest, build_request
from rsso_dspy.optimize.rollouts import CompileStopped, RolloutLogs, Rollouts, choose_candidate
from rsso_dspy.optimize.student import BUDGET_SPENT, NOTHING_LEFT, Search, make_placebo
from rsso_dspy.optimize.teacher import choose_teacher
from rsso_dspy.optimize.verdict import CandidateProgram, judge_candidate
from rsso_dspy.plan import check_writers
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Variant
from rsso_dspy.sessions import Session
from rsso_dspy.store.guards import CompileEnvironment
from rsso_dspy.store.run_folder import describe_difference

ENDED = {
    "": "",
    "rollouts": "the rollouts of --max-rollouts were spent",
    "cost": "the dollars of --max-cost were spent",
    "interrupted": "it was interrupted",
    "error": "an error cut it short",
}
"""How a compile was cut short, in words. After the last two, the same command continues it."""


def compile(
    agent: Agent,
    live: Session,
    calib: str = "1-per-task",
    tasks: Sequence[str] | None = None,
    optimizer: str | None = None,
    max_rollouts: int | None = None,
    max_cost: float | None = None,
    seeds: int = 1,
    teacher: str | None = None,
    candidates: Path | str | None = None,
    **options: Any,
) -> "CompiledAgent":
    """Compile a program on calibration variants (see `draw_calibration`) of the named tasks, with the configuration and
    the simulators of the session. `teacher` is "gold" or the name of a backend; `candidates` is a file of instructions
    to try (see `read_candidates`). `options` are those of `CompileOptions`: trials, steps. Prints the verdict and
    returns the program; unless it is confirmed, it plays as the one that was given."""
    config = live.config
    calibration = draw_calibration(calib, tasks, config.seed, config.simplification, config.benchmark_in_data)
    by = choose_teacher(teacher, config) if teacher else None
    proposing = read_candidates(candidates, agent, optimizer) if candidates else optimizer
    asked = (proposing, CompileOptions(**options), max_rollouts, max_cost, config.seed, seeds, by)
    wanted = build_request(agent.method, live.protocol, calibration, *asked)
    found = CompiledAgent(compile_agent(agent, live, wanted, live.jobs))
    kept = "" if found.compiled.improved else ". It plays the program that it started from"
    candidate = "; .compiled.select_candidate() plays the candidate" if found.compiled.candidate else ""
    print(f"{found.verdict}{kept}{candidate}")
    return found


class CompiledAgent(Agent):
    """The program that a compile ends with: the candidate where it is confirmed, else the program that was given."""

    def __init__(self, compiled: Compiled):
        super().__init__(compiled.method)
        self.load_state(compiled.agent().dump_state())
        self.compiled = compiled  # the content of its file
        self.verdict = str(compiled.confirmation)  # one word (confirmed, unconfirmed or not better), then why

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
    """Compile a program and, if `out` is given, write it there. A spent budget ends the search with the best so far. So
    do Ctrl-C and a failing backend: then `out` is written and the error is raised. With `out`, rollouts are logged
    beside it: cut short and called again, it plays none of them twice. Raises what `Session.check_models`,
    `check_writers` and `check_stock_modules` raise."""
    live.check_models([agent])
    check_writers([agent.method], live.config)
    check_stock_modules(agent)
    logs = RolloutLogs(out, live.backend.replay)
    with logs.open_for_request(wanted.describe(live.config)):
        rollouts = Rollouts(live, wanted, jobs, events, logs)
        with suppress(KeyboardInterrupt):  # pressed again: running rollouts are given up
            play_until_interrupted(agent, rollouts)
            rollouts.wait_until_idle()
        compiled = build_compiled(agent, rollouts)
        if out and logs.store:
            logs.store.check_exists()
            compiled.save(out)
        if rollouts.ended_by == "interrupted":
            raise KeyboardInterrupt
        if rollouts.error is not None:
            raise rollouts.error
        return compiled


def load_finished_compile(out: Path, config: Config, wanted: CompileRequest) -> Compiled | None:
    """The result in `out`, if the same request made it and finished; otherwise None. Raises `RunMismatch` for the
    result of another request, and `UsageError` for a file that cannot be written."""
    derive_program_name(out)
    if out.is_dir():
        raise UsageError(f"{out} is a folder; name a file, e.g. -o {out / 'compiled.json'}")
    check_output_path(out)
    if not out.exists():
        return None
    try:
        there = load(out)
    except UsageError as error:
        raise UsageError(f"{error}. Nothing is written over it: use another -o, or move it away") from None
    now, data = wanted.describe(config), FILE.dump_python(there, mode="json")
    if (then := {key: data[key] for key in now}) != now:
        difference = describe_difference(then, now)
        raise RunMismatch(f"{out} holds the result of another compile:\n{difference}\nUse another -o, or move it away.")
    return None if there.ended_by in ("interrupted", "error") else there


def play_until_interrupted(agent: Agent, rollouts: Rollouts) -> None:
    """Play all phases in a thread. So Ctrl-C is heard here at once, and stops the rollouts that an optimizer may be
    waiting for."""
    with ThreadPoolExecutor(1) as threads:
        phases = threads.submit(copy_context().run, play_phases, agent, rollouts)
        try:
            while not wait([phases], LISTENING).done:
                pass
            phases.result()
        except KeyboardInterrupt:
            rollouts.stop_compile("interrupted")
            rollouts.events.emit(StopRequested())


def play_phases(agent: Agent, rollouts: Rollouts) -> None:
    with suppress(CompileStopped):
        search_candidates(agent, rollouts)
    with suppress(CompileStopped):
        confirm_choice(agent, rollouts)


def search_candidates(agent: Agent, rollouts: Rollouts) -> None:
    """Score the program to improve and the placebos, then race what the optimizer proposes."""
    wanted, search = rollouts.wanted, Search(agent, rollouts)
    rollouts.play_all(agent, rollouts.val, rollouts.seeds)
    # The least counts the program to improve, which was played already: as many rollouts as a placebo takes.
    needed = wanted.optimizer.least(wanted.calibration)
    for number in range(wanted.placebos):
        if search.is_done() or rollouts.rollouts_left < needed:
            break
        placebo = make_placebo(agent, wanted.seed + number)
        rollouts.register_candidate(placebo, placebo=True)
        rollouts.play_all(placebo, rollouts.val, rollouts.seeds)
    if not search.is_done():
        for candidate in wanted.optimizer.propose(search):
            search.race(candidate)


def confirm_choice(agent: Agent, rollouts: Rollouts) -> None:
    """Play the best candidate and the program to improve on `confirm`, in pairs, if the budget covers all of it."""
    rollouts.reserved = 0  # the search is over
    chosen, calibration = choose_candidate(rollouts), rollouts.wanted.calibration
    if chosen is None or rollouts.is_halted:
        return
    if rollouts.rollouts_left < calibration.confirm_rollouts:
        rollouts.unconfirmed = "the budget left too few rollouts to confirm it"
        return
    program = Agent(agent.method.name)
    program.load_state(chosen.state)
    both = (agent, program)
    rollouts.play_each([(each, one, n) for one in calibration.confirm for n in range(rollouts.seeds) for each in both])


def build_compiled(agent: Agent, rollouts: Rollouts) -> Compiled:
    wanted, live, val, seeds = rollouts.wanted, rollouts.live, rollouts.val, rollouts.seeds
    start, chosen = rollouts.register_candidate(agent), choose_candidate(rollouts)
    rows = [_describe_candidate(each, val, seeds) for each in rollouts.candidates.values()]
    ended = rollouts.ended_by or ""
    why = rollouts.unconfirmed or ENDED[ended]
    confirmation = judge_candidate(start, chosen, wanted.calibration.confirm, seeds, why)
    improved, best = confirmation.verdict == "confirmed", chosen or start
    kept = best if improved else start
    usual_end = BUDGET_SPENT if ended == "rollouts" else ENDED[ended] or NOTHING_LEFT
    found = {
        **wanted.describe(live.config),
        "ended_by": rollouts.ended_by,
        "notes": wanted.notes,
        "before": _compute_scores(start, val, seeds),
        "after": _compute_scores(best, val, seeds),
        "tried": list(filter(None, rows)),
        "confirmation": confirmation,
        "candidate": None if improved or chosen is None else KeptCandidate(chosen.program, chosen.state),
        "search_end": rollouts.search_end or usual_end,
        "rollouts": rollouts.spent,
        "usage": dict(sorted(rollouts.usage.items())),
        "abandoned": rollouts.find_abandoned_usage(),
        "model": live.backend.models["actor"],
        "proposer": live.backend.models["proposer"],
        "rule_based": live.backend.rule_based,
        "environment": CompileEnvironment.of(live.config),
        "signatures": hash_schema(agent),
        "program": kept.program,
        "state": kept.state,
    }
    return FILE.validate_python(found)


def _describe_candidate(tried: CandidateProgram, val: Sequence[Variant], seeds: int) -> TriedProgram | None:
    """The row of a candidate that was played on all of `val`, or dropped there; None for any other."""
    met = [variant for variant in val if variant in tried.rollouts] if tried.dropped else val
    if (scores := _compute_scores(tried, met, seeds)) is None:
        return None
    played = {each.key: tried.list_rollouts(each, seeds) for each in sorted(tried.rollouts, key=str)}
    per_variant = {key: round(fmean(each.score for each in rollouts), 4) for key, rollouts in played.items()}
    return TriedProgram(tried.program, scores, per_variant, tried.number, tried.placebo, tried.dropped)


def _compute_scores(tried: CandidateProgram, val: Sequence[Variant], seeds: int) -> ProgramScores | None:
    if (metric := tried.mean_over(val, seeds)) is None:
        return None
    played = [tried.list_rollouts(variant, seeds) for variant in val]
    return ProgramScores(metric, fmean(fmean(each.accumulator for each in rollouts) for rollouts in played))
