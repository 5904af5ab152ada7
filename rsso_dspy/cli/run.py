"""`rsso-dspy run`: play held-out variants and report the results."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.bounds import MOST_PER_TASK, MOST_TRIALS
from rsso_dspy.cli.interruption import catch_interruptions
from rsso_dspy.cli.options import (
    WHICH_VARIANTS,
    BackendName,
    BaseUrl,
    BenchmarkName,
    ConfigFile,
    DryRun,
    Jobs,
    MaxCost,
    MaxTokens,
    Mlflow,
    ModelName,
    Overrides,
    PerTask,
    ProtocolName,
    Record,
    Replay,
    Retry,
    Seed,
    Trials,
    Unconfirmed,
    build_config,
    format_command,
    format_plural,
    parse_retry,
    print_status,
    split_names,
)
from rsso_dspy.cli.program_files import describe_programs, load_programs
from rsso_dspy.cli.run_plan import print_run_plan
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import LimitReached, UsageError
from rsso_dspy.recordings import MOST_RECORDED
from rsso_dspy.workflows.named_experiments import describe_experiments, get_experiment

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.experiment.executor import RunOutcome
    from rsso_dspy.experiment.run import Run
    from rsso_dspy.experiment.spend_limit import SpendLimit
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.store.run_spec import RunSpec
    from rsso_dspy.store.unit_store import Store

FOUR = ("react-sso", "reflexion-sso", "sso", "rsso")
"""Skills x reflections in the SSO scaffold."""


def run_methods(
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods, comma-separated (default: those of the compiled programs, else the four of the SSO "
            "scaffold: react-sso,reflexion-sso,sso,rsso)."
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A whole experiment, which other options modify. It ignores rsso.toml unless --config names it. "
            f"{describe_experiments()}.",
        ),
    ] = None,
    task_names: Annotated[
        str | None, typer.Option("--tasks", help="Task types, comma-separated, or all.", show_default="all")
    ] = None,
    variants: Annotated[str | None, typer.Option(help=WHICH_VARIANTS, show_default="sso")] = None,
    per_task: PerTask = None,
    trials: Trials = None,
    protocol: ProtocolName = None,
    seed: Seed = None,
    jobs: Jobs = 1,
    setting: Annotated[
        str | None,
        typer.Option(
            help="adaptation: memories start empty and learn on the held-out variant. transfer: they learn on training "
            "variants, then play each held-out variant once."
        ),
    ] = None,
    train_trials: Annotated[
        int | None, typer.Option(min=1, max=MOST_TRIALS, help="Transfer: rounds over the training variants.")
    ] = (None),
    train_per_task: Annotated[
        int | None, typer.Option(min=1, max=MOST_PER_TASK, help="Transfer: number of training variants per task.")
    ] = None,
    skills: Annotated[
        Path | None,
        typer.Option(help="Skill library that every unit starts from (see `rsso-dspy skills export`)."),
    ] = None,
    constitution: Annotated[
        Path | None,
        typer.Option(
            help="Constitution that methods start from (see `rsso-dspy constitution build`). If no method is named "
            "METHOD+constitution, all of them read it."
        ),
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="With --skills or --constitution: read the memories without learning.")
    ] = False,
    programs: Annotated[
        str,
        typer.Option(
            help="zero-shot and files of compiled programs, comma-separated; each program gives every method one arm."
        ),
    ] = "zero-shot",
    unconfirmed: Unconfirmed = False,
    out: Annotated[Path, typer.Option(help="Folder of the run; repeat the command to resume.")] = Path("runs/run"),
    fork: Annotated[
        Path | None,
        typer.Option(
            help="Take over the units of this run folder that are still valid, instead of playing them again."
        ),
    ] = None,
    retry: Retry = None,
    record: Record = False,
    replay: Replay = None,
    shard: Annotated[
        str | None, typer.Option(help="Play only part i of n, e.g. 2/8; `rsso-dspy merge` joins the parts.")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where to play units: threads (of this process), or ray (tasks of this machine's Ray cluster, "
            "or of a new local one)."
        ),
    ] = "threads",
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    mlflow: Mlflow = None,
    dry_run: DryRun = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
    benchmark: BenchmarkName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Play held-out variants with one or more methods and print the comparison.

    Every trial is saved as soon as it is finished. Repeat the command to resume.
    """
    from rsso_dspy.store.run_spec import RunSpec, Shard

    named = get_experiment(preset)
    settings = build_config(
        config if preset is None else config or skip_default_config(),
        [*named.settings, *(set_ or ())],
        backend,
        replay,
        model,
        base_url,
        benchmark=benchmark,
        seed=seed,
        protocol__preset=protocol,
        protocol__trials=trials,
        protocol__setting=setting,
        protocol__train_trials=train_trials,
        protocol__train_per_task=train_per_task,
        protocol__frozen="true" if frozen else None,
    )
    if settings.protocol.setting != "transfer" and (train_trials or train_per_task):
        raise UsageError("--train-trials and --train-per-task need --setting transfer")
    if frozen and skills is None and constitution is None:
        raise UsageError("--frozen needs memories to read; add --skills FILE or --constitution FILE")
    files = split_names(programs, "--programs")
    playing = load_programs(files, unconfirmed)
    compiled_for = list(dict.fromkeys(compiled.method for compiled in playing.values() if compiled))
    chosen = split_names(methods, "--methods") if methods is not None else named.methods or compiled_for or FOUR
    if constitution is not None:
        chosen = add_constitution(chosen)
    tasks = task_names if task_names is not None else named.tasks
    wanted = variants if variants is not None else named.variants
    spec = RunSpec(
        methods=tuple(chosen),
        programs=tuple(playing),
        compiled=tuple(Path(file) for file, program in zip(files, playing.values(), strict=True) if program),
        tasks=None if tasks == "all" else tuple(split_names(tasks, "--tasks")),
        variants=() if wanted is None else tuple(split_names(wanted, "--variants")),
        per_task=per_task or named.per_task,
        out=out,
        skills=skills,
        constitution=constitution,
        fork=fork,
        shard=Shard.parse(shard) if shard else None,
        retry_stalled=parse_retry(retry),
        record=record,
        unconfirmed=unconfirmed,
    )
    plan_and_play(settings, spec, playing, jobs, dry_run, max_cost, max_tokens, engine, mlflow)


def add_constitution(methods: Sequence[str]) -> list[str]:
    """Return the methods, each with `+constitution` unless one of them has a constitution already."""
    from rsso_dspy.programs.methods import READING, get_method

    if any("constitution" in get_method(name).memories for name in methods):
        return list(methods)
    return [f"{name}+{READING}" for name in methods]


def skip_default_config() -> Path:
    """Ignore configuration files, so that an experiment is the same in every working directory."""
    from rsso_dspy.config import DEFAULT_FILE

    if Path(DEFAULT_FILE).exists():
        print_status(f"--preset ignores {DEFAULT_FILE}; add --config {DEFAULT_FILE} to read it")
    return Path(os.devnull)


def plan_and_play(
    settings: "Config",
    spec: "RunSpec",
    programs: "dict[str, Compiled | None]",
    jobs: int,
    dry_run: bool,
    max_cost: float | None,
    max_tokens: int | None,
    engine: str = "threads",
    mlflow: str | None = None,
) -> None:
    """Plan the run, print its estimated cost and, unless `dry_run`, play pending units and print the report."""
    from rsso_dspy.experiment.run import plan_run
    from rsso_dspy.integrations.engines import check_engine
    from rsso_dspy.integrations.mlflow_tracking import check_server_address

    check_engine(engine)
    if mlflow is not None:
        check_server_address(mlflow)
    planned = plan_run(settings, spec, programs, dry_run, print_status)
    for file in planned.store.set_aside:
        what = f"{'to be ' if dry_run else ''}quarantined as {file.name}; its unit is played again"
        print_status(f"{planned.store.describe_quarantined(file)}: {what}")
    if spec.fork:
        print_status(f"{format_plural(planned.taken, 'record')} of {spec.fork} taken over")
    print_run_plan(planned, jobs)
    for line in describe_programs(programs, planned.plan.protocol, planned.models_in_use.get("actor", "")):
        print_status(f"      {line}")
    purse = planned.make_spend_limit(max_cost, max_tokens)
    if not dry_run:
        play_and_report(planned, jobs, purse, engine, mlflow)


def play_and_report(
    planned: "Run", jobs: int, purse: "SpendLimit", engine: str = "threads", mlflow: str | None = None
) -> None:
    """Play the pending units of a run and print the report."""
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.config import make_price_lookup

    outcome, limit = play_watched(planned, jobs, purse, engine, mlflow)
    print_report(planned.store, make_price_lookup(planned.config.prices))
    if left_out := planned.store.trials_left_out():
        print_status(
            f"{format_plural(range(left_out), 'trial')} did not fit into {planned.store.recordings}, limited to "
            f"{MOST_RECORDED >> 30} GiB: their units cannot be replayed. Record the rest as shards (--shard)"
        )
    folder = planned.store.folder
    first = planned.plan.units[0].variant.key
    echo(f"\nrun: {folder}  ({format_command('report', folder)}; {format_command('show', folder, first)})")
    exit_if_incomplete(outcome, limit, count_stalled_trials(planned.store))


def play_watched(
    planned: "Run", jobs: int, purse: "SpendLimit", engine: str = "threads", mlflow: str | None = None
) -> "tuple[RunOutcome | None, str]":
    """Play the pending units with progress; return the outcome, or None, and the limit that was reached."""
    from rsso_dspy.cli.progress import RunProgress
    from rsso_dspy.experiment.events import EventStream
    from rsso_dspy.experiment.session import session
    from rsso_dspy.integrations.engines import get_engine
    from rsso_dspy.integrations.mlflow_tracking import MlflowTracker, connect_server
    from rsso_dspy.report.report_files import build_report_files

    server = connect_server(mlflow) if mlflow is not None else None
    with catch_interruptions() as ending, session(planned.config, jobs=jobs) as live:
        live.backend.check_connections()
        if any("skills" in unit.arm.method.memories for unit in planned.plan.units):
            live.embedder.check(live.backend.recordings is not None)
        with RunProgress(planned.left, planned, jobs) as watch:
            events = EventStream()
            if server:
                MlflowTracker(server, planned, build_report_files, watch.print_line).follow(events)
            watch.follow(events)
            try:
                return planned.execute(live, jobs, purse, events, get_engine(engine), engine), ""
            except LimitReached as reached:
                return None, str(reached)
            except KeyboardInterrupt:
                watch.print_line("interrupted: finished trials are kept; repeat the command to resume")
                if any(thread.name.startswith("unit") for thread in threading.enumerate()):
                    os._exit(ending.code)  # pressed twice: do not wait for current answers; their cost is stored
                raise typer.Exit(ending.code) from None


def count_stalled_trials(store: "Store") -> int:
    """Count stalled trials among the finished units of a folder."""
    return sum(record.stalled_trials for kind in (store.units, store.trainings) for record in kind())


def exit_if_incomplete(outcome: "RunOutcome | None", limit: str, stalled: int = 0) -> None:
    """Report missing and stalled units, and exit with code 1 if there are any."""
    if outcome and outcome.untrained:
        print_status(f"{len(outcome.untrained)} units were not played: what they start from errored")
    if outcome and outcome.errored:
        print_status(f"{len(outcome.errored)} ended in errors; repeat the command to resume from their last good trial")
    if stalled:
        print_status(
            f"{format_plural(range(stalled), 'trial')} stalled: a step took longer than environment.step_seconds. "
            "Means "
            "include their scores so far; add --retry stalled to play their units again"
        )
    if limit:
        print_status(limit)
    if limit or stalled or (outcome and outcome.errored):
        raise typer.Exit(1)
