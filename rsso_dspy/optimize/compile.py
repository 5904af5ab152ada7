"""Compiling: an optimizer proposes better prompts, the candidate that does best on `val` is chosen, and `confirm` gives
the verdict in the file. The request is checked, forecast, and told what it can confirm, before anything is played."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

from rsso_dspy.config import CompileOptions, Config
from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.executor import LISTENING, EventStream, StopRequested
from rsso_dspy.experience import check_for_learning, list_learned_variants, list_unknown_sources
from rsso_dspy.files import check_output_path
from rsso_dspy.optimize import program_file
from rsso_dspy.optimize.calibration import PARTS, Calibration, draw_calibration
from rsso_dspy.optimize.optimizers import (
    BUDGET_SPENT,
    WORTH_SHOWING,
    Optimizer,
    Search,
    get_optimizer,
    make_placebo,
    read_candidates,
)
from rsso_dspy.optimize.program_file import Compiled, ProgramScores, RoleChange, TriedProgram
from rsso_dspy.optimize.rollouts import (
    CUT_SHORT,
    CompileStopped,
    RolloutLogs,
    Rollouts,
    choose_candidate,
    select_kept_candidate,
)
from rsso_dspy.optimize.teacher import Teacher, choose_teacher
from rsso_dspy.optimize.verdict import LEVEL, CandidateProgram, describe_smallest_gain, judge_candidate
from rsso_dspy.plan import TEACHING, Forecast, Plan, check_writers, compute_step_budgets, forecast_calls
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ROLE_OF, Method
from rsso_dspy.protocol import NamedProtocol, make_run_identity, resolve_protocol
from rsso_dspy.records import Variant
from rsso_dspy.sessions import Session, find_session
from rsso_dspy.store.guards import CompileEnvironment
from rsso_dspy.store.run_folder import Arm, Unit, describe_difference

SWEEPS = 4  # usual budget of the search: so many times all train and val variants; confirming comes on top
MOST_SEEDS, MOST_ROLLOUTS = 20, 100_000


@dataclass(frozen=True)
class CompileRequest:
    method: Method
    calibration: Calibration
    optimizer: Optimizer
    options: CompileOptions
    seed: int
    max_rollouts: int
    max_cost: float | None = None  # US dollars
    placebos: int = 0  # 1 where a placebo plays beside the candidates, if the budget covers it
    teacher: Teacher | None = None  # plays train in place of the student

    @property
    def reserved(self) -> int:
        """Rollouts that the search leaves for confirming; 0 without a search or with a budget too small for both."""
        needed = self.calibration.confirm_rollouts if self.optimizer.searches else 0
        return needed if self.max_rollouts >= self.optimizer.least(self.calibration) + needed else 0

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.calibration.notes, *(self.teacher.notes if self.teacher else ()), *self.optimizer.notes)

    def describe(self, config: Config) -> dict[str, Any]:
        """What the result depends on, as JSON data. The file of the compiled program holds the same fields."""
        teacher = self.teacher
        taught = {"teacher": {"name": teacher.name, "settings": teacher.settings}} if teacher else {}
        return {
            "teacher": teacher.model if teacher else None,
            "method": self.method.name,
            "optimizer": self.optimizer.name,
            "trials": self.options.trials,
            "steps": self.options.steps,
            "seed": self.seed,
            "max_rollouts": self.max_rollouts,
            "max_cost": self.max_cost,
            **{part: [variant.key for variant in getattr(self.calibration, part)] for part in PARTS},
            "seeds": self.calibration.seeds,
            "placebos": self.placebos,
            "identity": {**make_run_identity(config, resolve_protocol(config)), **taught, **self.optimizer.settings},
        }

    def forecast(self, protocol: NamedProtocol) -> Forecast:
        """Maximum calls by role. The search's rollouts are spread evenly over train and over val, in the proportion
        that costs most; the rest goes to confirm."""
        calibration = self.calibration
        reserved = self.reserved
        total = self.max_rollouts - reserved
        costs = {variant: self._forecast_variant_calls(protocol, variant) for variant in calibration.variants}
        taught = Counter[str]()
        if self.teacher and self.teacher.backend:  # what a gold teacher plays costs no rollout
            total -= len(calibration.train)
            taught = sum((costs[variant] for variant in calibration.train), taught)

        def accumulate_costliest(variants: Sequence[Variant], count: int) -> list[Counter[str]]:
            """Calls of the most expensive 0, 1, ... `count` rollouts when all variants take turns."""
            ranked = sorted((costs[variant] for variant in variants), key=lambda calls: -calls.total())
            return list(accumulate((ranked[n % len(ranked)] for n in range(count)), initial=Counter()))

        train = accumulate_costliest(calibration.train, total)
        val = accumulate_costliest(calibration.val if reserved else (*calibration.val, *calibration.confirm), total)
        limit = 0 if self.teacher else total  # the student is not played on train under a teacher
        worst = max(range(limit + 1), key=lambda n: train[n].total() + val[total - n].total())
        calls = train[worst] + val[total - worst]
        if reserved:
            calls += accumulate_costliest(calibration.confirm, reserved)[-1]
        predictors = sum(calls[role] > 0 for role in ROLE_OF.values())
        calls["proposer"] = predictors * self.optimizer.proposals(calibration, total)
        calls.update({f"{TEACHING}{role}": count for role, count in taught.items()})
        return Forecast({role: count for role, count in calls.items() if count})

    def _forecast_variant_calls(self, protocol: NamedProtocol, variant: Variant) -> Counter[str]:
        rules = replace(protocol.rules, trials=self.options.trials, learn_after_success=False)
        budget = protocol.find_budget(variant, self.calibration.played_benchmark)
        unit = Unit(Arm(self.method), variant, self.seed, min(budget, self.options.steps))
        alone = protocol.skills.pairs == "any"
        return Counter(forecast_calls(Plan("", rules, (unit,), writings=protocol.constitution, alone=alone)).calls)


def build_request(
    method: Method,
    protocol: NamedProtocol,
    calibration: Calibration,
    optimizer: str | Optimizer | None = None,
    options: CompileOptions | None = None,
    max_rollouts: int | None = None,
    max_cost: float | None = None,
    seed: int = 0,
    seeds: int = 1,
    teacher: Teacher | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CompileRequest:
    """Build a checked request. `optimizer` is gepa by default, or bootstrap under a teacher. Raises `UnknownName` for
    an optimizer, `UsageError` for a budget below one candidate. Unknown gold lengths are computed; `say` is told."""
    options = options or CompileOptions()
    name = optimizer or ("bootstrap" if teacher else "gepa")
    resolved = get_optimizer(name) if isinstance(name, str) else name
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"cannot play a variant with {seeds} seeds; ask for 1 to {MOST_SEEDS}")
    if "constitution" in method.memories and method.writing is None:
        raise UsageError(
            f"a compile has no constitution for {method.name} to read: compile {method.name.partition('+')[0]}, whose "
            "program plays with a constitution too"
        )
    calibration = replace(calibration, seeds=seeds)
    if teacher:
        teacher.check(calibration, resolved.name)
    compute_step_budgets(protocol, calibration.variants, say, calibration.played_benchmark)
    rollouts = _choose_budget(resolved, calibration, max_rollouts)
    placebos = int(resolved.searches)
    return CompileRequest(method, calibration, resolved, options, seed, rollouts, max_cost, placebos, teacher)


def _choose_budget(chosen: Optimizer, calibration: Calibration, max_rollouts: int | None) -> int:
    minimum = chosen.least(calibration)
    usual = max(minimum, SWEEPS * (len(calibration.train) + calibration.val_rollouts))
    if chosen.most:
        usual = chosen.most(calibration) + calibration.val_rollouts * chosen.searches  # of the placebo
    usual += calibration.confirm_rollouts * chosen.searches
    rollouts = usual if max_rollouts is None else max_rollouts
    if chosen.most:
        rollouts = min(rollouts, usual)
    if rollouts < minimum:
        raise UsageError(
            f"{rollouts} rollouts are too few for one candidate: {chosen.name} on {len(calibration.train)} train and "
            f"{len(calibration.val)} val variants needs --max-rollouts {minimum} at least"
        )
    if rollouts > MOST_ROLLOUTS:
        raise UsageError(f"cannot plan {rollouts} rollouts; ask for --max-rollouts {MOST_ROLLOUTS} at most")
    return rollouts


def describe_power(wanted: CompileRequest, rule_based: bool) -> Iterator[str]:
    """The smallest true gain that this compile confirms in four of five cases, or why it confirms none, in a line.
    `rule_based`: whether the embedded player plays, whose spread is known."""
    calibration = wanted.calibration
    pairs = len(calibration.confirm)
    hindrance = ""
    if not wanted.optimizer.searches:
        return
    if 0.5**pairs >= LEVEL:
        hindrance = f"{pairs} confirm variants do not give p < {LEVEL} even if it is better on all; it takes at least 5"
    elif not wanted.reserved:
        needed = calibration.confirm_rollouts
        hindrance = (
            f"{wanted.max_rollouts} rollouts are too few for a candidate and {needed} more to confirm it; give "
            f"--max-rollouts {wanted.optimizer.least(calibration) + needed} or more"
        )
    nothing = f"it can confirm nothing: {hindrance}; whatever it finds stays unconfirmed"
    yield nothing if hindrance else describe_smallest_gain(pairs, calibration.seeds, rule_based)


# Playing it.

ENDED = {
    "rollouts": "the rollouts of --max-rollouts were spent",
    "cost": "the dollars of --max-cost were spent",
    "interrupted": "it was interrupted",
    "error": "an error cut it short",
}
"""How a compile was cut short, in words. After the last two, the same command continues it."""


def compile(
    agent: Agent,
    live: Session | None = None,
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
    the simulators of the session: the open one, or the default one, where none is given. `teacher` is "gold" or a
    backend, `candidates` a file of instructions to try; `options` are trials and steps. Prints the verdict; the program
    is as it was given unless it is confirmed."""
    if live is None:
        with find_session(agent.benchmark) as session:
            return compile(
                agent, session, calib, tasks, optimizer, max_rollouts, max_cost, seeds, teacher, candidates, **options
            )
    config = live.config
    live.runtime.check_benchmark(agent.benchmark)
    calibration = draw_calibration(calib, tasks, config.seed, config.simplification, config.benchmark_in_data)
    by = choose_teacher(teacher, config) if teacher else None
    proposing = read_candidates(candidates, agent, optimizer) if candidates else optimizer
    settings = (proposing, CompileOptions(**options), max_rollouts, max_cost, config.seed, seeds, by)
    request = build_request(agent.method, live.protocol, calibration, *settings)
    program = CompiledAgent(compile_agent(agent, live, request, live.jobs))
    program.benchmark = agent.benchmark
    note = "" if program.compiled.improved else ". It plays the program that it started from"
    candidate = "; .compiled.select_candidate() plays the candidate" if program.compiled.candidate else ""
    print(f"{program.verdict}{note}{candidate}")
    return program


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
    beside it: cut short and called again, it plays none of them twice."""
    live.check_models([agent])
    check_writers([agent.method], live.config)
    check_for_learning(live.config, [agent.method])
    if program_file.hash_schema(agent) != program_file.hash_schema(Agent(agent.method.name)):
        raise UsageError(
            "its modules are not those of the method, and a compiled file holds prompts and demonstrations alone: "
            "play it from Python (agent(variant=...), dspy.Evaluate), and keep it with agent.save(PATH)"
        )
    logs = RolloutLogs(out, live.backend.replay)
    with logs.open_for_request(wanted.describe(live.config)):
        rollouts = Rollouts(live, wanted, jobs, events, logs)
        with suppress(KeyboardInterrupt):  # pressed again: running rollouts are given up
            play_until_interrupted(agent, rollouts)
            rollouts.wait_until_idle()
        rollouts.drop_unreadable()
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
    """The result in `out`, if this very request made it and finished. Raises `RunMismatch` for that of another request,
    and `UsageError` for a file that cannot be written."""
    program_file.derive_program_name(out)
    check_output_path(out)
    if not out.exists():
        return None
    try:
        compiled = program_file.load(out)
    except UsageError as error:
        raise UsageError(f"{error}. Nothing is written over it: use another -o, or move it away") from None

    request = wanted.describe(config)
    data = program_file.FILE.dump_python(compiled, mode="json")
    stored = {key: data[key] for key in request}
    if stored != request:
        difference = describe_difference(stored, request)
        raise RunMismatch(f"{out} holds the result of another compile:\n{difference}\nUse another -o, or move it away.")
    return None if compiled.ended_by in ("interrupted", "error") else compiled


def play_until_interrupted(agent: Agent, rollouts: Rollouts) -> None:
    """Play all phases in a thread, so that Ctrl-C is heard here at once and stops running rollouts."""
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
    """Score the program to improve and the placebo, then race what the optimizer proposes."""
    request = rollouts.wanted
    search = Search(agent, rollouts)
    rollouts.play_all(agent, rollouts.val, rollouts.seeds)
    # The least counts the program to improve, which was played already: as many rollouts as a placebo takes.
    needed = request.optimizer.least(request.calibration)
    if request.placebos and not search.is_done() and rollouts.rollouts_left >= needed:
        placebo = make_placebo(agent, request.seed)
        rollouts.register_candidate(placebo, placebo=True)
        rollouts.play_all(placebo, rollouts.val, rollouts.seeds)
    if not search.is_done():
        for candidate in request.optimizer.propose(search):
            search.race(candidate)


def confirm_choice(agent: Agent, rollouts: Rollouts) -> None:
    """Play the best candidate and the program to improve on `confirm`, in pairs, if the budget covers all of it."""
    rollouts.reserved = 0  # the search is over
    candidate = choose_candidate(rollouts)
    calibration = rollouts.wanted.calibration
    if candidate is None or rollouts.is_halted:
        return
    if rollouts.rollouts_left < calibration.confirm_rollouts:
        rollouts.unconfirmed = "the budget left too few rollouts to confirm it"
        return
    program = Agent(agent.method.name)
    program.load_state(candidate.state)
    programs = (agent, program)
    jobs = [
        (program, variant, n) for variant in calibration.confirm for n in range(rollouts.seeds) for program in programs
    ]
    rollouts.play_each(jobs)


def build_compiled(agent: Agent, rollouts: Rollouts) -> Compiled:
    request, live, val, seeds = rollouts.wanted, rollouts.live, rollouts.val, rollouts.seeds
    start = rollouts.register_candidate(agent)
    candidate = choose_candidate(rollouts)
    ended = rollouts.ended_by or ""
    why = rollouts.unconfirmed or ENDED.get(ended, "")
    confirmation = judge_candidate(start, candidate, request.calibration.confirm, seeds, why)
    improved = confirmation.verdict == "confirmed"
    best = candidate or start
    program = best if improved else start
    unconfirmed = None if improved else select_kept_candidate(rollouts)
    experience = check_for_learning(live.config, [agent.method])
    usual_end = BUDGET_SPENT if ended == "rollouts" else ENDED.get(ended, "the optimizer had nothing left to propose")
    fields = {
        **request.describe(live.config),
        "ended_by": rollouts.ended_by,
        "notes": (*request.notes, *_tell_untaught(rollouts)),
        "learned_on": list_learned_variants(experience),
        "source_unknown": list_unknown_sources(experience),
        "before": _compute_scores(start, val, seeds),
        "after": _compute_scores(best, val, seeds),
        "tried": describe_candidates(rollouts),
        "confirmation": confirmation,
        "candidate": program_file.KeptCandidate(unconfirmed.program, unconfirmed.state) if unconfirmed else None,
        "search_end": rollouts.search_end or usual_end,
        "rollouts": rollouts.spent,
        "usage": dict(sorted(rollouts.usage.items())),
        "abandoned": rollouts.find_abandoned_usage(),
        "model": live.backend.models["actor"],
        "proposer": live.backend.models["proposer"],
        "rule_based": live.backend.rule_based,
        "environment": CompileEnvironment.of(live.config),
        "signatures": program_file.hash_schema(agent),
        "program": program.program,
        "state": program.state,
    }
    return program_file.FILE.validate_python(fields)


def _tell_untaught(rollouts: Rollouts) -> Iterator[str]:
    untaught = [variant.key for variant, rollout in rollouts.taught.items() if rollout.score < WORTH_SHOWING]
    if untaught:
        yield f"nothing is shown of {', '.join(sorted(untaught))}: the teacher did not solve them, or knows no solution"


def describe_candidates(rollouts: Rollouts) -> list[TriedProgram]:
    """What every program was that a rollout was played with, in the order of their numbers."""
    tried: list[TriedProgram] = []
    zero_shot = Agent(rollouts.wanted.method.name).dump_state()
    for candidate in rollouts.candidates.values():
        if not candidate.rollouts:
            continue
        changes = tuple(program_file.list_changes(zero_shot, candidate.state))
        nearest, apart = _find_nearest(changes, tried)
        scored = candidate.list_met(rollouts.val, rollouts.seeds)
        is_complete = len(scored) == len(rollouts.val)
        by_key = {
            variant.key: candidate.list_rollouts(variant, rollouts.seeds)
            for variant in sorted(candidate.rollouts, key=str)
        }
        tried.append(
            TriedProgram(
                candidate.program,
                scores=_compute_scores(candidate, scored, rollouts.seeds),
                per_variant={key: round(fmean(rollout.score for rollout in group), 4) for key, group in by_key.items()},
                number=candidate.number,
                placebo=candidate.placebo,
                dropped=candidate.dropped,
                origin=candidate.origin,
                changes=changes,
                nearest=nearest,
                apart=apart,
                val_played=len(scored),
                left="" if is_complete else candidate.left or _explain_leaving(candidate, rollouts),
            )
        )
    return tried


def _explain_leaving(candidate: CandidateProgram, rollouts: Rollouts) -> str:
    """Why a candidate did not race on val although nothing cut it short: its optimizer has seen enough on train."""
    start = next(iter(rollouts.candidates.values()))
    train = rollouts.wanted.calibration.train
    scored = candidate.list_met(train)
    if not scored:
        return CUT_SHORT
    reached = f"metric {100 * (candidate.mean_over(scored) or 0):.1f} there"
    if (usual := start.mean_over(scored)) is not None:
        reached += f", {100 * usual:.1f} of 0"
    name = rollouts.wanted.optimizer.name
    return f"{name} went on without it after {len(scored)} of {len(train)} train variants: {reached}"


def _find_nearest(changes: Sequence[RoleChange], tried: Sequence[TriedProgram]) -> tuple[int | None, int]:
    """The number of the earlier program that these changes differ least from, the first of equals, and by how much."""
    apart = {program.number: program_file.count_differences(changes, program.changes) for program in tried}
    nearest = min(apart, key=apart.__getitem__, default=None)
    return nearest, apart.get(nearest, 0)


def _compute_scores(tried: CandidateProgram, val: Sequence[Variant], seeds: int) -> ProgramScores | None:
    if (metric := tried.mean_over(val, seeds)) is None:
        return None
    groups = [tried.list_rollouts(variant, seeds) for variant in val]
    return ProgramScores(metric, fmean(fmean(rollout.accumulator for rollout in rollouts) for rollouts in groups))
