"""`rsso-dspy run` and `rsso-dspy evaluate`: play held-out variants, followed on the terminal, and print the report."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rsso_dspy.bounds import MOST_SEED
from rsso_dspy.cli import options
from rsso_dspy.cli.options import (
    build_config,
    format_command,
    format_plural,
    print_status,
    split_names,
    split_tasks,
)
from rsso_dspy.cli.process import catch_interruptions
from rsso_dspy.cli.run_plan import describe_programs, print_run_plan
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import LimitReached, UsageError
from rsso_dspy.records import ZERO_SHOT

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.executor import RunOutcome
    from rsso_dspy.forecast import SpendLimit
    from rsso_dspy.optimize.program_file import Compiled
    from rsso_dspy.runs import Run
    from rsso_dspy.store.commands import RunSpec
    from rsso_dspy.store.run_folder import Store

FOUR = ("react-sso", "reflexion-sso", "sso", "rsso")
"""Skills x reflections in the SSO scaffold."""

SHOWN = 10
"""Maximum number of listed differences of a replay."""

OUT = Path("runs/run")
"""Default folder of a run."""


def run_methods(
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods, comma-separated (default: those of the compiled programs, else the four of the SSO "
            "scaffold: react-sso, reflexion-sso, sso, rsso)."
        ),
    ] = None,
    benchmark: options.BenchmarkName = None,
    task_names: options.TaskNames = None,
    variants: options.Variants = None,
    per_task: options.PerTask = None,
    trials: options.Trials = None,
    protocol: options.ProtocolName = None,
    seed: Annotated[int | None, typer.Option(min=0, max=MOST_SEED, help="Random seed of the run.")] = None,
    programs: Annotated[
        str | None,
        typer.Option(
            help="zero-shot and files of compiled programs, comma-separated; each program gives every method one arm.",
            show_default="zero-shot",
        ),
    ] = None,
    skills: Annotated[
        Path | None, typer.Option(help="Skill library that every unit starts from (see `rsso-dspy skills export`).")
    ] = None,
    constitution: Annotated[
        Path | None,
        typer.Option(
            help="Constitution that methods start from (see `rsso-dspy constitution build`). If no method is named "
            "METHOD+constitution, all of them read it."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the run; repeat the command to resume.", show_default=str(OUT)),
    ] = None,
    jobs: options.Jobs = 1,
    shard: Annotated[
        str | None, typer.Option(help="Play only part i of n, e.g. 2/8; `rsso-dspy report` reads the parts together.")
    ] = None,
    engine: Annotated[
        Literal["threads", "ray"],
        typer.Option(help="Play units in threads of this process, or on this machine's Ray cluster or a new one."),
    ] = "threads",
    dry_run: options.DryRun = False,
    max_cost: options.MaxCost = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Answer from the logs of this run instead of asking a model; only exact matches count. Without "
            "options of what to play, its own command is played and the results are compared.",
        ),
    ] = None,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    backend: options.BackendName = None,
    config: options.ConfigFile = None,
    set_: options.Overrides = None,
) -> None:
    """Play held-out variants with one or more methods and print the comparison.

    Every trial is saved as soon as it is finished. Repeat the command to resume. Section [run] of the file may hold
    methods, tasks, variants, per_task, trials, programs and constitution, which options override. For memories that
    train first, --set protocol.setting=transfer; for memories that only read, --set protocol.frozen=true.
    """
    from rsso_dspy.config import load_run_options
    from rsso_dspy.optimize.program_file import load_programs
    from rsso_dspy.store.commands import RunSpec, Shard

    typed = {
        "methods": methods,
        "tasks": task_names,
        "variants": variants,
        "per_task": per_task,
        "trials": trials,
        "programs": programs,
        "constitution": constitution,
    }
    file_options = load_run_options(config, set_ or ())
    asked = file_options.model_copy(update={name: value for name, value in typed.items() if value is not None})
    given = (methods, benchmark, task_names, variants, per_task, trials, protocol, seed, programs, skills, constitution)
    if replay is not None and all(each is None for each in (*given, shard, model, backend, config, set_)):
        return replay_run(replay, out, jobs, dry_run, engine)
    settings = build_config(
        config,
        set_,
        backend,
        replay,
        model,
        base_url,
        benchmark=benchmark,
        seed=seed,
        protocol__preset=protocol,
        protocol__trials=asked.trials,
    )
    if settings.protocol.frozen and skills is None and asked.constitution is None:
        raise UsageError("protocol.frozen needs memories to read; add --skills FILE or --constitution FILE")
    files = split_names(asked.programs, "--programs")
    playing = load_programs(files)
    compiled_for = list(dict.fromkeys(compiled.method for compiled in playing.values() if compiled))
    chosen = split_names(asked.methods, "--methods") if asked.methods is not None else compiled_for or FOUR
    if asked.constitution is not None:
        chosen = add_constitution(chosen)
    tasks = split_tasks(asked.tasks)
    spec = RunSpec(
        methods=tuple(chosen),
        programs=tuple(playing),
        compiled=tuple(Path(file) for file, program in zip(files, playing.values(), strict=True) if program),
        tasks=None if tasks is None else tuple(tasks),
        variants=() if asked.variants is None else tuple(split_names(asked.variants, "--variants")),
        per_task=asked.per_task,
        out=out or OUT,
        skills=skills,
        constitution=asked.constitution,
        shard=Shard.parse(shard) if shard else None,
    )
    return plan_and_play(settings, spec, playing, jobs, dry_run, max_cost, engine)


def add_constitution(methods: Sequence[str]) -> list[str]:
    """Return the methods, each with `+constitution` unless one of them has a constitution already."""
    from rsso_dspy.programs.methods import READING, get_method

    if any("constitution" in get_method(name).memories for name in methods):
        return list(methods)
    return [f"{name}+{READING}" for name in methods]


def evaluate_program(
    program: Annotated[Path, typer.Argument(metavar="FILE", help="The compiled program.")],
    candidate: Annotated[
        bool,
        typer.Option(
            "--candidate",
            help="Play the candidate of a program that is not confirmed; such a program is refused without this.",
        ),
    ] = False,
    variants: options.Variants = None,
    per_task: options.PerTask = None,
    trials: options.Trials = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder. Default: runs/evaluate-NAME. Repeat the command to continue a run."),
    ] = None,
    jobs: options.Jobs = 1,
    dry_run: options.DryRun = False,
    max_cost: options.MaxCost = None,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    backend: options.BackendName = None,
    config: options.ConfigFile = None,
    set_: options.Overrides = None,
) -> None:
    """Play held-out variants with the compiled program and with the zero-shot program of the same method, with the same
    seeds, and print the comparison.

    The tasks are those that the program was compiled on, or those of --variants. Works like `rsso-dspy run --programs
    zero-shot,FILE`, which has more options: every unit is written as soon as it is finished.
    """
    from rsso_dspy.optimize.program_file import load, load_programs
    from rsso_dspy.store.commands import RunSpec

    compiled = load(program)
    playing = load_programs([ZERO_SHOT, str(program)], candidate)
    settings = build_config(config, set_, backend, None, model, base_url, protocol__trials=trials)
    calibrated = tuple(dict.fromkeys(key.partition("::")[0] for key in compiled.calibration))
    listed = variants not in (None, *settings.active_benchmark.tasks.selections)
    made = f"compiled by {compiled.optimizer} on {len(compiled.calibration)} variants under {compiled.protocol}"
    print_status(f"{program}: {compiled.method}, {'made elsewhere' if compiled.is_made_elsewhere else made}")
    spec = RunSpec(
        methods=(compiled.method,),
        programs=tuple(playing),
        compiled=(program,),
        tasks=None if listed else calibrated or None,
        variants=() if variants is None else tuple(split_names(variants, "--variants")),
        per_task=per_task,
        out=out or Path("runs") / f"evaluate-{program.stem}",
        unconfirmed=candidate,
    )
    plan_and_play(settings, spec, playing, jobs, dry_run, max_cost)
    if not dry_run:
        echo(f"program: {program}")


def plan_and_play(
    settings: "Config",
    spec: "RunSpec",
    programs: "dict[str, Compiled | None]",
    jobs: int,
    dry_run: bool,
    max_cost: float | None,
    engine: str = "threads",
) -> None:
    """Plan the run, print its estimated cost and, unless `dry_run`, play pending units and print the report."""
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.pricing import make_price_lookup

    planned = _plan(settings, spec, programs, dry_run, engine)
    spend_limit = planned.make_spend_limit(max_cost)
    if dry_run:
        return
    outcome, limit = play_watched(planned, jobs, spend_limit, engine)
    print_report(planned.store, make_price_lookup(planned.config.prices))
    folder, first = planned.store.folder, planned.plan.units[0].variant.key
    echo(f"\nrun: {folder}  ({format_command('report', folder)}; {format_command('show', folder, first)})")
    exit_if_incomplete(outcome, limit, sum(record.stalled_trials for record in planned.store.records()))


def _plan(
    settings: "Config", spec: "RunSpec", programs: "dict[str, Compiled | None]", dry_run: bool, engine: str
) -> "Run":
    """Plan the run and print the plan with its estimated cost."""
    from rsso_dspy.runs import get_engine, plan_run

    get_engine(engine)
    planned = plan_run(settings, spec, programs, dry_run, print_status)
    for file, why in planned.store.set_aside.items():
        print_status(f"{why}: {'to be ' if dry_run else ''}quarantined as {file.name}; its unit is played again")
    print_run_plan(planned)
    plan, actor = planned.plan, planned.models_in_use.get("actor", "")
    trials = max(plan.get_rules(unit).trials for unit in plan.units)
    for line in describe_programs(programs, plan.protocol, actor, trials):
        print_status(f"      {line}")
    return planned


def play_watched(planned: "Run", jobs: int, spend_limit: "SpendLimit", engine: str) -> "tuple[RunOutcome | None, str]":
    """Play the pending units with progress; return the outcome, or None, and the limit that was reached."""
    from rsso_dspy.cli.progress import RunProgress
    from rsso_dspy.executor import EventStream
    from rsso_dspy.sessions import session

    with catch_interruptions() as ending, session(planned.config, jobs=jobs) as live:
        live.backend.check_connections()
        if any("skills" in unit.arm.method.memories for unit in planned.plan.units):
            live.embedder.check(live.backend.replay is not None)
        with RunProgress(planned.left) as watch:
            events = EventStream()
            watch.follow(events)
            try:
                return planned.execute(live, jobs, spend_limit, events, engine), ""
            except LimitReached as reached:
                return None, str(reached)
            except KeyboardInterrupt:
                watch.print_line("interrupted: finished trials are kept; repeat the command to resume")
                if any(thread.name.startswith("unit") for thread in threading.enumerate()):
                    os._exit(ending.code)  # pressed twice: do not wait for current answers; their cost is stored
                raise typer.Exit(ending.code) from None


def exit_if_incomplete(outcome: "RunOutcome | None", limit: str, stalled: int = 0) -> None:
    """Report missing and stalled units, and exit with code 1 if there are any."""
    if outcome and outcome.untrained:
        print_status(f"{len(outcome.untrained)} units were not played: what they start from errored")
    skipped = outcome.skipped if outcome else []
    for record in skipped:
        print_status(f"{record.arm} {record.key} was skipped, and would be again: {record.trials[-1].failure}")
    if skipped:
        print_status("to be rid of these variants, leave them out (--variants) or mend their data, in another --out")
    if outcome and (errored := len(outcome.errored) - len(skipped)):
        print_status(f"{errored} ended in errors; repeat the command to resume from their last good trial")
    if stalled:
        print_status(
            f"{format_plural(range(stalled), 'trial')} stalled: a step took longer than environment.step_seconds. "
            "Means include their scores so far"
        )
    if limit:
        print_status(limit)
    if limit or stalled or (outcome and outcome.errored):
        raise typer.Exit(1)


def replay_run(source: Path, out: Path | None, jobs: int, dry_run: bool, engine: str) -> None:
    """Play the commands of a run again, answered from its logs, and say whether all came out equal.

    Without `out`, what is played is removed. Raises `UsageError` for a folder that would be another run today.
    """
    from rsso_dspy.config import format_override
    from rsso_dspy.executor import fingerprint_programs
    from rsso_dspy.optimize.program_file import load_programs
    from rsso_dspy.store.commands import CONFIG, extract_given, load_commands
    from rsso_dspy.store.run_folder import Store

    store = Store(source, read_only=True)
    orders = load_commands(store)
    if not orders:
        raise UsageError(f"{source} holds no command, so it cannot be played again; name what to play, e.g. --methods")
    if out is not None and out.resolve() == source.resolve():
        raise UsageError(f"{out} is the original run; name another --out")
    with TemporaryDirectory(prefix="rsso-dspy-") as folder:
        given, again = Path(folder) / "given", Store(out or Path(folder) / "again")
        extract_given(store, given)
        examples = [format_override("memory.constitution.examples", str(file)) for file in given.glob("examples/*")]
        settings = build_config(given / CONFIG, examples, None, source)
        for order in orders:
            spec = order.locate_files(given, again.folder)
            files = {file.stem: str(file) for file in spec.compiled}
            playing = load_programs([files.get(name, name) for name in spec.programs], spec.unconfirmed)
            planned = _plan(settings, spec, playing, dry_run, engine)
            store.check_identity(planned.identity, fingerprint_programs(planned.programs))
            if not dry_run:
                play_watched(planned, jobs, planned.make_spend_limit(), engine)
        if not dry_run:
            _compare_records(store, again)


def _compare_records(store: "Store", again: "Store") -> None:
    """Print whether the replayed records are equal, else what differs first in each; exit with code 1 then."""
    from rsso_dspy.reproduce import compare_runs

    result = compare_runs(store, again)
    apart = f", except for {', '.join(sorted(result.apart))}" if result.apart else ""
    errored = f"; {result.errored} with errors left out" if result.errored else ""
    equal = result.equal == result.total > 0
    echo(f"{'equal: ' if equal else ''}{result.equal} of {result.total} records are equal{apart}{errored}")
    for name, where, ours, theirs in result.different[:SHOWN]:
        echo(f"  {name}: {where} is {ours} in {store.folder} and {theirs} now")
    for name in result.missing[:SHOWN]:
        echo(f"  {name} was not played")
    if not equal:
        raise typer.Exit(1)
