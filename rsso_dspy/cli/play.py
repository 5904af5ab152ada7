"""What plays, for the verbs: the plan and its cost on stderr, progress, replays, and how a command ends."""

import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import typer
from tqdm import tqdm

from rsso_dspy.api import is_decided, judge_run, measure_spread
from rsso_dspy.cli.options import Start, build_config, echo, format_command, format_plural, print_plan, print_status
from rsso_dspy.cli.process import catch_interruptions
from rsso_dspy.cli.results import (
    describe_compile,
    describe_spending,
    print_constitution,
    print_left_out_files,
    print_report,
)
from rsso_dspy.config import EMBEDDED, Config, format_override
from rsso_dspy.errors import LimitReached, UsageError
from rsso_dspy.executor import (
    EventStream,
    RunOutcome,
    StopRequested,
    TrialFinished,
    UnitFinished,
    fingerprint_programs,
    list_pending_jobs,
)
from rsso_dspy.experience import check_for_learning
from rsso_dspy.lm import Backend, check_backend
from rsso_dspy.memory.formats import ConstitutionFile
from rsso_dspy.optimize.compile import CompileRequest, compile_agent, describe_power, load_finished_compile
from rsso_dspy.optimize.constitution import ConstitutionBuild, itemize_build_costs
from rsso_dspy.optimize.program_file import Compiled, load_programs
from rsso_dspy.optimize.rollouts import RolloutFinished, RolloutLogs
from rsso_dspy.plan import (
    SECONDS_PER_CALL,
    TEACHING,
    Forecast,
    describe_detectable,
    describe_zero_shot_reflector,
    forecast_calls,
    forecast_hours,
    list_large_costs,
    price_forecast,
)
from rsso_dspy.power import ASSUMED
from rsso_dspy.pricing import format_dollars, format_tokens, make_price_lookup, sum_amounts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import NamedProtocol, make_reflection_settings
from rsso_dspy.records import SOLVED_SCORE, TrainingRecord, Trajectory, Usage
from rsso_dspy.report.tables import describe_course
from rsso_dspy.report.terminal import replace_controls
from rsso_dspy.rounds import describe_rounds
from rsso_dspy.runs import Engine, Run, get_engine, plan_run
from rsso_dspy.sessions import Session, session
from rsso_dspy.sign_flips import count_needed_differences
from rsso_dspy.store.commands import CONFIG, RunSpec, extract_given, load_commands
from rsso_dspy.store.run_folder import Store, Unit
from rsso_dspy.store.unit_log import JobRecord, dump_record

SHOWN = 10  # maximum number of listed differences of a replay

Programs = Mapping[str, Compiled | None]


def announce(
    start: Start,
    config: Config,
    forecast: Forecast,
    first: str,
    lines: Iterable[str] = (),
    notes: Iterable[str] = (),
    models: Mapping[str, str] = MappingProxyType({}),
    jobs: int = 1,
) -> None:
    """Print a plan with its cost, and ask before a large one. `models` maps further roles of the forecast to models."""
    is_replay = config.active_backend.replay
    price_of = make_price_lookup(config.prices)
    forecast = replace(forecast, sizes=config.active_benchmark.tokens_per_call)
    models = {**models, **dict(Backend(config.active_backend).models.items())}

    dollars = price_forecast(forecast, models, price_of)
    hours = 0.0 if is_replay else forecast_hours(forecast, models, jobs)
    cost = _describe_forecast(forecast, dollars, hours)
    if start.max_cost is not None and dollars is not None and start.max_cost < dollars:
        cost += f"; --max-cost {format_dollars(start.max_cost)} is less, and stops it there: what is finished is kept"
    backend = _describe_models(config, {"actor", *forecast.calls})
    print_plan(first, backend, *lines, cost, *notes)

    large = [] if is_replay else list_large_costs(forecast, models, price_of, jobs)
    if start.dry_run or start.yes or not large:
        return
    question = f"this may cost {' and '.join(large)}"
    if not sys.stdin.isatty():
        raise UsageError(f"{question}: add --yes to start it, or ask for less; --dry-run prints the plan alone")
    typer.confirm(f"{question[0].upper()}{question[1:]}. Start it?", abort=True, err=True)


# Progress


class ProgressBar:
    """Progress of units or rollouts on stderr: a bar on a terminal, plain lines elsewhere."""

    title = ""

    def __init__(self, total: int):
        self.total = total
        self.done = 0
        self._lock = threading.Lock()
        hidden = not sys.stderr.isatty()
        self._bar = tqdm(total=total, desc=self.title, file=sys.stderr, disable=hidden, dynamic_ncols=True)
        self.close = self._bar.close

    def follow(self, events: EventStream) -> None:
        events.subscribe(StopRequested, self.on_interrupt)

    def on_interrupt(self, _event: StopRequested) -> None:
        self.print_line("stopping after the current model calls; press Ctrl-C again to stop now")

    def print_line(self, text: str) -> None:
        self._bar.write(replace_controls(text), file=sys.stderr)

    def update_bar(self, text: str, finished: str = "") -> None:
        self._bar.n = self.done
        self._bar.set_postfix_str(replace_controls(text))
        if finished and self._bar.disable:
            self.print_line(f"[{self.done}/{self.total}] {finished}")


class RunProgress(ProgressBar):
    title = "units"
    tokens = 0

    def follow(self, events: EventStream) -> None:
        super().follow(events)
        events.subscribe(TrialFinished, self.on_trial_finished)
        events.subscribe(UnitFinished, self.on_job_finished)

    def on_trial_finished(self, event: TrialFinished) -> None:
        with self._lock:
            self.tokens += sum(usage.input + usage.output for usage in event.result.usage.values())
            self.update_bar(f"{format_tokens(self.tokens)} tokens")

    def on_job_finished(self, event: UnitFinished) -> None:
        record = event.record
        if record.has_errors:
            text = f"error: {record.trials[-1].error}"
        else:
            text = " ".join(_describe_score(trajectory) for trajectory in record.trajectories)
        for trial in record.trials:
            if trial.stalled:
                text += f", trial {trial.trial} stalled"

        with self._lock:
            self.done += 1
            text = f"{record.arm} {event.work.name}: {text}"
            self.update_bar(f"{text}  {format_tokens(self.tokens)} tokens", text)


def _describe_score(trajectory: Trajectory) -> str:
    """Return the accumulator, which is without the points held at reset, and so may be low where a trial is solved."""
    points = trajectory.accumulator
    return f"{points} solved" if trajectory.solved and points < SOLVED_SCORE else str(points)


class CompileProgress(ProgressBar):
    title = "rollouts"

    def follow(self, events: EventStream) -> None:
        super().follow(events)
        events.subscribe(RolloutFinished, self.on_rollout)

    def on_rollout(self, event: RolloutFinished) -> None:
        rollouts = event.rollouts
        rollout = event.rollout
        player = "teacher" if rollout.variant in rollouts.taught else f"candidate {event.candidate.number}"
        with self._lock:
            self.done += not rollouts.is_free(rollout.variant)
            text = f"{player} {rollout.variant.key}: metric {100 * rollout.score:.1f}  {rollouts.lm_calls:,} calls"
            self.update_bar(text, text)


@contextmanager
def open_watched(
    watch: ProgressBar, config: Config, jobs: int, skills: bool, interrupted: str
) -> Iterator[tuple[Session, EventStream]]:
    """Open a session, show progress, and end with the code of an interruption. `skills`: the embedder is needed."""
    with catch_interruptions() as ending, session(config, jobs, watch.total > 0) as live:
        if skills and watch.total:
            live.embedder.check()
        with closing(watch):
            events = EventStream()
            watch.follow(events)
            try:
                yield live, events
            except KeyboardInterrupt:
                watch.print_line(f"interrupted: {interrupted}")
                if any(thread.name.startswith("unit") for thread in threading.enumerate()):
                    os._exit(ending.code)  # pressed twice: do not wait for current answers; their cost is stored
                raise typer.Exit(ending.code) from None


# Runs


def plan_and_play(
    config: Config,
    spec: RunSpec,
    programs: Programs,
    start: Start,
    jobs: int,
    engine: Engine = "threads",
    like: Path | None = None,
) -> None:
    """Plan the run, print its estimated cost and, unless `dry_run`, play pending units and print the report. What the
    run can find is said from the differences in the folder `like`, if one is given."""
    planned = _plan(config, spec, programs, start, jobs, engine, like)
    if start.dry_run:
        return
    outcome, limit = _play_watched(planned, start, jobs, engine)
    print_report(planned.store, make_price_lookup(planned.config.prices))

    folder = planned.store.folder
    first = planned.plan.units[0].variant.key
    echo(f"\nrun: {folder}  ({format_command('report', folder)}; {format_command('show', folder, first)})")
    stalled = sum(record.stalled_trials for record in planned.store.records())
    exit_if_incomplete(outcome, limit, stalled)


def _plan(
    config: Config,
    spec: RunSpec,
    programs: Programs,
    start: Start,
    jobs: int,
    engine: Engine,
    like: Path | None = None,
) -> Run:
    """Plan the run and print the plan. Raises `UsageError` where --max-cost cannot be kept, and what keeps a model from
    answering where any is to be asked."""
    get_engine(engine)
    spread = measure_spread(like) if like else ASSUMED
    spread_source = str(like) if like else ""
    planned = plan_run(config, spec, programs, start.dry_run, print_status)
    has_ended = spec.until_decided and planned.store.exists and is_decided(planned.store.folder)
    if planned.left and not has_ended and not start.dry_run:
        start.check_backend(config)
    if start.max_cost is not None:
        planned.make_spend_limit(start.max_cost)
    for file, reason in planned.store.set_aside.items():
        fate = "to be quarantined" if start.dry_run else "quarantined"
        print_status(f"{reason}: {fate} as {file.name}; its unit is played again")

    plan = planned.plan
    first = (
        f"plan: {format_plural(plan.arms, 'arm')} x {format_plural(plan.variants, 'variant')} = "
        f"{format_plural(plan.units, 'unit')}, {format_plural(plan.rules.trials, 'trial')} each, protocol "
        f"{plan.protocol}, into {planned.store.folder}"
    )
    notes = _describe_programs(programs, planned)
    jobs_left = [] if has_ended else planned.left
    calls = forecast_calls(plan, jobs_left, planned.played)

    lines = list(_describe_plan(planned))
    if detectable := describe_detectable(plan, spread, spread_source):
        lines.append(detectable)
    if plan.announced is not None:
        needed = count_needed_differences(len(plan.announced.pairs))
        lines.append(describe_rounds(plan.announced, needed))
    if has_ended:
        lines.append("every memory is decided: no further round is played; without --until-decided all are")
    announce(start, config, calls, first, lines, notes, jobs=jobs)
    return planned


def _play_watched(planned: Run, start: Start, jobs: int, engine: Engine) -> tuple[RunOutcome | None, str]:
    """Play the pending units with progress; return the outcome, or None, and the limit that was reached."""
    skills = any("skills" in unit.arm.method.memories for unit in planned.plan.units)
    resume_hint = "finished trials are kept; repeat the command to resume"
    with open_watched(RunProgress(len(planned.left)), planned.config, jobs, skills, resume_hint) as (live, events):
        try:
            limit = planned.make_spend_limit(start.max_cost)
            return planned.execute(live, jobs, limit, events, engine, partial(_judge_rounds, planned)), ""
        except LimitReached as reached:
            return None, str(reached)
        finally:
            for note in live.backend.describe_forms():
                print_status(note)


def _judge_rounds(planned: Run) -> bool:
    """Whether a run in rounds is decided; what its complete rounds say is printed."""
    judged = judge_run(planned.store.folder)
    if judged is None or not judged.complete:
        return False
    print_status(f"round {judged.complete} of {judged.announced.rounds}: {'; '.join(describe_course(judged))}")
    return judged.is_decided


def exit_if_incomplete(outcome: RunOutcome | None, limit: str, stalled: int = 0) -> None:
    """Report missing and stalled units, and exit with code 1 if there are any."""
    outcome = outcome or RunOutcome()
    problems = []
    for record in outcome.skipped:
        problems.append(f"{record.arm} {record.key} was skipped, and would be again: {record.trials[-1].failure}")
    if outcome.skipped:
        problems.append("to be rid of these variants, leave them out (--variants) or mend their data, in another --out")
    if outcome.untrained:
        problems.append(f"{len(outcome.untrained)} units were not played: what they start from errored")
    errored = len(outcome.errored) - len(outcome.skipped)
    if errored:
        problems.append(f"{errored} ended in errors; repeat the command to resume from their last good trial")
    if stalled:
        trials = format_plural(stalled, "trial")
        problems.append(
            f"{trials} stalled: a step took longer than environment.step_seconds. Means include their scores so far"
        )
    if limit:
        problems.append(limit)
    problems += _describe_faults(outcome)

    if problems:
        print_status("\n".join(problems))
        raise typer.Exit(1)


def _describe_faults(outcome: RunOutcome) -> Iterator[str]:
    """Yield the units that are errors of the environment's code, each with its message, whose last line is the line of
    the user's code."""
    left_out = len(outcome.faulty[:-SHOWN])
    if left_out:
        yield f"the environment's code failed in {left_out} further units"
    for record in outcome.faulty[-SHOWN:]:
        failure = record.trials[-1].failure
        message = failure.message if failure else ""
        yield f"{record.arm} {record.key}: {message}"


def replay_run(source: Path, out: Path | None, start: Start, jobs: int, engine: Engine) -> None:
    """Play the commands of a run again, answered from its logs, and say whether all came out equal."""
    store = Store(source, read_only=True)
    orders = load_commands(store)
    if not orders:
        raise UsageError(f"{source} holds no command, so it cannot be played again; name what to play, e.g. --methods")
    if out is not None and out.resolve() == source.resolve():
        raise UsageError(f"{out} is the original run; name another --out")
    recorded = list(store.records())
    print_left_out_files(store)

    with TemporaryDirectory(prefix="rsso-dspy-") as folder:
        inputs = Path(folder) / "given"
        replay_store = Store(out or Path(folder) / "again")
        extract_given(store, inputs)
        examples = [format_override("memory.constitution.examples", str(file)) for file in inputs.glob("examples/*")]
        config = build_config(inputs / CONFIG, examples, replay=source)
        for order in orders:
            spec = order.locate_files(inputs, replay_store.folder)
            files = {file.stem: str(file) for file in spec.compiled}
            names = [files.get(name, name) for name in spec.programs]
            playing = load_programs(names, spec.unconfirmed)
            planned = _plan(config, spec, playing, start, jobs, engine)
            store.check_identity(planned.identity, fingerprint_programs(planned.programs))
            if not start.dry_run:
                _play_watched(planned, start, jobs, engine)
        if not start.dry_run:
            _compare_records(store.folder, recorded, replay_store)


def _compare_records(folder: Path, recorded: Sequence[JobRecord], again: Store) -> None:
    """Print whether the replayed records are equal, else what differs first in each; exit with code 1 then."""
    equal = 0
    errored = 0
    differences: list[str] = []
    for record in recorded:
        name = f"{record.arm} {record.key}"
        if isinstance(record, TrainingRecord):
            name += " (training)"
        replayed = again.load(record)
        if record.has_errors:
            errored += 1
            continue
        if replayed is None or replayed.has_errors:
            differences.append(f"{name} was not played")
            continue

        difference = _find_difference(_dump_comparable(record, record), _dump_comparable(replayed, record))
        if difference is None:
            equal += 1
            continue
        path, recorded_value, replayed_value = difference
        recorded_text = json.dumps(recorded_value, ensure_ascii=False)
        replayed_text = json.dumps(replayed_value, ensure_ascii=False)
        differences.append(f"{name}: {path} is {recorded_text:.100} in {folder} and {replayed_text:.100} now")

    is_equal = equal > 0 and not differences
    verdict = "equal: " if is_equal else ""
    left_out = f"; {errored} with errors left out" if errored else ""
    echo(f"{verdict}{equal} of {equal + len(differences)} records are equal{left_out}")
    for line in differences[:SHOWN]:
        echo(f"  {line}")
    if not is_equal:
        raise typer.Exit(1)


def _dump_comparable(record: JobRecord, of: JobRecord) -> dict[str, Any]:
    """Return what a replay gives again: no provenance, and no counts of trials of `of` whose simulator died."""
    data = dump_record(record) | {"provenance": None}
    for trial, result in zip(data["trials"], of.trials, strict=False):
        if result.replayed:
            trial |= dict.fromkeys(("replayed", "usage", "failures", "sent"))
    return data


def _find_difference(ours: Any, theirs: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Return the dotted path of the first value inside that differs, and both values; None if all are equal."""
    pairs: list[tuple[Any, Any, Any]]
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = [(key, ours.get(key), theirs.get(key)) for key in {**ours, **theirs}]
    elif isinstance(ours, list) and isinstance(theirs, list):
        pairs = [(number, *pair) for number, pair in enumerate(zip_longest(ours, theirs))]
    else:
        return None if ours == theirs else (path, ours, theirs)

    for key, our_value, their_value in pairs:
        difference = _find_difference(our_value, their_value, f"{path}.{key}".lstrip("."))
        if difference is not None:
            return difference
    return None


# Plans


def _format_duration(hours: float) -> str:
    return f"{60 * hours:.0f} minutes" if hours < 1 else f"{hours:.1f} hours"


def _describe_plan(planned: Run) -> Iterator[str]:
    """Yield streams, trainings, and what is there already."""
    plan = planned.plan
    units = sum(isinstance(work, Unit) for work in planned.left)
    for arm, stream in plan.streams.items():
        trials = f"{format_plural(plan.stream_trials, 'trial')} each"
        if plan.stream_trials != plan.rules.trials:
            trials += " as protocol.stream_trials says"
        size = format_plural(stream, "unit")
        yield f"{arm.name}: one stream of {size}, {trials}; each starts from what the one before it left"

    if plan.trainings:
        trainings = format_plural(plan.trainings, "training")
        episodes = format_plural(sum(len(training.episodes) for training in plan.trainings), "episode")
        yield f"{trainings} of {episodes} before, {len(planned.left) - units} to play"
    yield f"{format_plural(len(plan.units) - units, 'unit')} finished, {units} to play"


def _describe_models(config: Config, roles: set[str]) -> str:
    models = Backend(config.active_backend).models
    names = ", ".join(dict.fromkeys(model for role, model in models.items() if role in roles))
    if names != EMBEDDED:
        return f"backend {config.backend}: {names}"
    price = make_price_lookup(config.prices)(EMBEDDED)
    cost = "no cost" if price and price.is_free else "priced as configured"
    return f"backend {config.backend}: {names} (rule-based, offline, {cost})"


def _describe_forecast(forecast: Forecast, dollars: float | None, hours: float) -> str:
    """Describe a forecast, with the dollars unless it is free; None is an unknown price."""
    if not forecast.calls:
        return "no model calls left"
    input_tokens, output_tokens = map(format_tokens, forecast.tokens)
    per_role = ", ".join(f"{role} {count:,}" for role, count in forecast.calls.items())
    text = (
        f"at most {forecast.total_calls:,} model calls ({per_role}) if no answer has to be asked for again; "
        f"about {input_tokens} tokens in and {output_tokens} out if every trial uses all its steps"
    )
    if dollars is None:
        text += ", unpriced"
    elif dollars:
        text += f", {format_dollars(dollars)} uncached"
    if hours:
        text += f", {_format_duration(hours)} at {SECONDS_PER_CALL:g} s an answer"
    return text


def _describe_programs(programs: Programs, planned: Run) -> Iterator[str]:
    """Yield which program of a file is played, and where its verdict or its trials are not those of this run."""
    model = Backend(planned.config.active_backend).models["actor"]
    trials = max(planned.plan.get_rules(unit).trials for unit in planned.plan.units)
    for name, compiled in programs.items():
        if compiled is None:
            continue
        if compiled.confirmation and not compiled.improved:
            yield f"{name} plays its candidate, which is {compiled.confirmation.verdict} ({compiled.confirmation.why})"
        elif compiled.improved and compiled.model != model:
            yield f"{name} was confirmed by {compiled.model}, but plays by {model}: its verdict does not apply there"
        if compiled.trials not in (0, trials):
            count = format_plural(compiled.trials, "trial")
            yield f"{name} was compiled by the best of {count}; here it is the best of {trials}, the protocol's"


# Compiles


def compile_and_print(
    request: CompileRequest, protocol: NamedProtocol, config: Config, calib: str, out: Path, start: Start, jobs: int
) -> None:
    experience = check_for_learning(config, [request.method])
    finished = load_finished_compile(out, config, request)
    kept_rollouts = 0 if finished else RolloutLogs(out).check_request(request.describe(config))
    options = request.options
    teacher = request.teacher
    if not (finished or kept_rollouts or start.dry_run):  # what is kept may be all that it takes
        start.check_backend(config)
        if teacher and teacher.backend:
            check_backend(teacher.backend, lambda *_: "--teacher")

    plays_by_rules = config.active_backend.resolve_role("actor").model == EMBEDDED
    notes = [*request.notes, *describe_power(request, plays_by_rules)]
    notes += [source.describe_unknown() for source in experience if source.unknown]
    if zero_shot := describe_zero_shot_reflector([request.method], make_reflection_settings(config), config):
        notes.append(zero_shot)
    if teacher:
        remark = "" if teacher.backend else "; no model is asked for that"
        notes.insert(0, f"{teacher.model} plays the train variants{remark}")
    if kept_rollouts:
        rollouts = format_plural(kept_rollouts, "rollout")
        notes.insert(0, f"{rollouts} of an attempt that was cut short are kept, and not played again")
    if finished:
        notes.append(f"{out} holds the result already: kept")

    trials = format_plural(options.trials, "trial")
    steps = f"each of the protocol's steps, {options.steps} at most; {jobs} at once"
    announce(
        replace(start, yes=start.yes or finished is not None),
        config,
        request.forecast(protocol),
        f"plan: {request.optimizer.name} compiles {request.method.name} on {request.calibration.size} ({calib}), "
        f"protocol {protocol.id}, into {out}",
        [f"at most {request.max_rollouts} rollouts of {trials}, {steps}"],
        notes,
        teacher.models if teacher else {},
        jobs,
    )
    if start.dry_run:
        return

    compiled = finished or _compile_watched(request, config, out, jobs)
    echo("\n".join(describe_compile(compiled)))
    _tell_cut_answers(compiled.usage, config.backend, teacher.name if teacher else "")
    verb = "evaluate" if compiled.improved or compiled.candidate else "show"
    flag = " --candidate" if compiled.candidate else ""
    echo(f"\nprogram: {out}  ({format_command(verb, out)}{flag})")


def _compile_watched(request: CompileRequest, config: Config, out: Path, jobs: int) -> Compiled:
    resume_hint = f"{out} holds the best so far; repeat the command, no rollout is played twice"
    watch = CompileProgress(request.max_rollouts)
    skills = "skills" in request.method.memories
    with open_watched(watch, config, jobs, skills, resume_hint) as (live, events):
        return compile_agent(Agent(request.method.name), live, request, jobs, events, out)


# Constitutions


def build_and_print(build: ConstitutionBuild, head: str, notes: Sequence[str], start: Start) -> None:
    """Print the plan under its first words and, unless `dry_run`, build the constitution and print it."""
    finished = build.load_finished()
    if finished:
        print_status(f"{build.out} was built by this very command before: nothing is left to play")
    elif build.out.exists():
        raise UsageError(f"{build.out} already exists; remove it or name another file with -o")
    else:
        _announce_build(build, head, notes, start)
    if start.dry_run:
        return

    book = finished or _build_watched(build, start.max_cost)
    print_constitution(book)
    entries = itemize_build_costs(book, build.config)
    usage = {entry.role: entry.usage for entry in entries}
    dollars = sum_amounts(entry.billed for entry in entries)
    echo(f"building it took {describe_spending(usage, dollars)}")
    _tell_cut_answers(usage, build.config.backend)
    echo(f"\nconstitution: {build.out}  ({format_command('run', '--methods', 'rsso', '--constitution', build.out)})")


def _announce_build(build: ConstitutionBuild, head: str, notes: Sequence[str], start: Start) -> None:
    work = [list_pending_jobs(plan, store) for plan, store in zip(build.plans, build.make_stores(), strict=True)]
    calls = Counter[str]()
    for plan, jobs in zip(build.plans, work, strict=True):
        calls += Counter(forecast_calls(plan, jobs).calls)
    episodes = sum(len(plan.units) for plan in build.plans)
    pending = sum(map(len, work))
    if pending and not start.dry_run:
        start.check_backend(build.config)

    first = f"plan: {head}, protocol {build.plan.protocol}, into {build.out}"
    progress = f"{episodes} episodes in sequence, {episodes - pending} finished, {pending} to play"
    announce(start, build.config, Forecast(dict(calls)), first, [progress], notes)


def _tell_cut_answers(usage: Mapping[str, Usage], backend: str, teacher: str = "") -> None:
    for role, counts in usage.items():
        if not counts.truncated:
            continue
        name = teacher if role.startswith(TEACHING) else backend
        setting = f"backends.{name}.roles.{role.removeprefix(TEACHING)}.max_tokens"
        echo(f"{format_plural(counts.truncated, 'answer')} of the {role} cut off at max_tokens: raise {setting}")


def _build_watched(build: ConstitutionBuild, max_cost: float | None) -> ConstitutionFile:
    limit = build.make_spend_limit(max_cost)
    resume_hint = "finished episodes are kept; repeat the command to resume"
    watch = RunProgress(sum(len(plan.units) for plan in build.plans))
    with open_watched(watch, build.config, 1, False, resume_hint) as (live, events):
        try:
            return build.run(live, limit, events)
        except LimitReached as reached:
            watch.print_line(str(reached))
            raise typer.Exit(1) from None
