"""`rsso-dspy compile`: calibration variants in, a better program out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli import options
from rsso_dspy.cli.options import (
    build_config,
    format_command,
    format_plural,
    print_plan,
    print_status,
    split_tasks,
)
from rsso_dspy.cli.process import catch_interruptions
from rsso_dspy.cli.run_plan import describe_forecast, describe_models
from rsso_dspy.cli.show_program import describe_compile
from rsso_dspy.cli.terminal_text import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rsso_dspy.config import Config
    from rsso_dspy.forecast import Forecast
    from rsso_dspy.optimize.program_file import Compiled
    from rsso_dspy.optimize.request import CompileRequest


def compile_program(
    method_name: Annotated[str, typer.Option("--method", help="Method to compile.")] = "rsso",
    calib: Annotated[
        str,
        typer.Option(
            help="K-per-task: of each task K training variants for train (feedback), K for val (to choose by), 3K for "
            "confirm (the chosen one against the start)."
        ),
    ] = "1-per-task",
    benchmark: options.BenchmarkName = None,
    task_names: options.TaskNames = None,
    optimizer: Annotated[
        str | None,
        typer.Option(
            help="gepa, mipro (instructions), bootstrap (demonstrations), none. gepa when absent, "
            "bootstrap under a teacher."
        ),
    ] = None,
    teacher_name: Annotated[
        str | None,
        typer.Option(
            "--teacher",
            metavar="BACKEND|gold",
            help="Who plays train, for demonstrations: a backend, or gold for solutions of training variants.",
        ),
    ] = None,
    protocol: options.ProtocolName = None,
    max_rollouts: Annotated[
        int | None,
        typer.Option(min=1, help="Rollouts at most; four times train and val, and confirm twice, when absent."),
    ] = None,
    max_cost: options.MaxCost = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=20, help="Seeds that each val and confirm variant is played with; more where few.")
    ] = 1,
    jobs: options.Jobs = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the compiled program.")] = Path("compiled.json"),
    dry_run: options.DryRun = False,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    backend: options.BackendName = None,
    config: options.ConfigFile = None,
    set_: options.Overrides = None,
) -> None:
    """Compile a method's prompts on calibration variants and write the best program found, with a verdict.

    It is confirmed when it beats the program it started from on variants that neither has seen. Ctrl-C and a spent
    budget keep the best so far. Held-out variants are never played. More by --set or in section [compile] of the file:
    compile.trials (2) and compile.steps (60) of a rollout, compile.demo_tokens (1500) of bootstrap, compile.start
    (a compiled program to improve on).
    """
    from rsso_dspy.optimize.calibration import draw_calibration
    from rsso_dspy.optimize.compile import load_finished_compile
    from rsso_dspy.optimize.program_file import load
    from rsso_dspy.optimize.request import build_request
    from rsso_dspy.optimize.rollouts import RolloutLogs
    from rsso_dspy.optimize.teacher import choose_teacher
    from rsso_dspy.plan import check_writers
    from rsso_dspy.programs.methods import get_method
    from rsso_dspy.protocol import resolve_protocol

    settings = build_config(
        config, set_, backend, None, model, base_url, benchmark=benchmark, protocol__preset=protocol
    )
    more = settings.compile
    check_writers([get_method(method_name)], settings)
    preset = resolve_protocol(settings)
    calibration = draw_calibration(
        calib, split_tasks(task_names), settings.seed, settings.simplification, settings.benchmark_in_data
    )
    request = build_request(
        get_method(method_name),
        preset,
        calibration,
        optimizer,
        more,
        max_rollouts,
        max_cost,
        settings.seed,
        seeds,
        choose_teacher(teacher_name, settings) if teacher_name else None,
        load(more.start) if more.start else None,
        print_status,
    )
    base = request.start
    finished = load_finished_compile(out, settings, request)
    kept = 0 if finished else RolloutLogs(out).check_request(request.describe(settings))
    forecast = request.forecast(preset)
    print_plan(
        f"plan: {request.optimizer.name} compiles {method_name} on {calibration.size} ({calib}), protocol {preset.id}, "
        f"into {out}",
        f"      at most {request.max_rollouts} rollouts of {more.trials} trials of {more.steps} steps",
        f"      {describe_models(settings, {'actor', *forecast.calls})}",
        f"      {_describe_cost(forecast, request, settings)}",
        *(f"      {note}" for note in _list_notes(request, kept)),
    )
    if base and base.candidate:
        print_plan(
            f"      {more.start} holds an unconfirmed candidate: it starts from the program that one started from"
        )
    if finished:
        print_plan(f"      {out} holds the result already: kept")
    if not dry_run:
        _print_outcome(finished or _run_compile(request, jobs, out, settings), out)


def _list_notes(request: "CompileRequest", kept: int) -> "Iterator[str]":
    """Yield what else a plan says: what is kept of an attempt, who teaches, and what can be confirmed."""
    from rsso_dspy.optimize.request import describe_power

    if kept:
        yield f"{format_plural(range(kept), 'rollout')} of an attempt that was cut short are kept, and not played again"
    if request.teacher:
        free = "" if request.teacher.backend else "; no model is asked for that"
        yield f"{request.teacher.model} plays the train variants{free}"
        yield from request.teacher.notes
    yield from request.calibration.notes
    yield from describe_power(request)


def _describe_cost(forecast: "Forecast", request: "CompileRequest", settings: "Config") -> str:
    """Say what the compile costs at most."""
    from rsso_dspy.forecast import price_forecast
    from rsso_dspy.lm import Backend
    from rsso_dspy.pricing import format_dollars, make_price_lookup

    taught = request.teacher.models if request.teacher else {}
    models: dict[str, str] = {**dict(Backend(settings.active_backend).models.items()), **taught}
    dollars = price_forecast(forecast, models, make_price_lookup(settings.prices))
    limit = f"; stopped after {format_dollars(request.max_cost)}" if request.max_cost is not None else ""
    return describe_forecast(forecast, dollars) + limit


def _run_compile(request: "CompileRequest", jobs: int, out: Path, settings: "Config") -> "Compiled":
    from rsso_dspy.cli.progress import CompileProgress
    from rsso_dspy.executor import EventStream
    from rsso_dspy.optimize.compile import compile_agent
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.sessions import session

    with catch_interruptions() as ending, session(settings, jobs=jobs) as live:
        live.backend.check_connections()
        if "skills" in request.method.memories:
            live.embedder.check(live.backend.replay is not None)
        with CompileProgress(request.max_rollouts) as watch:
            events = EventStream()
            watch.follow(events)
            try:
                agent = request.start.agent() if request.start else Agent(request.method.name)
                return compile_agent(agent, live, request, jobs, events, out)
            except KeyboardInterrupt:
                watch.print_line(
                    f"interrupted: {out} holds the best so far; repeat the command, no rollout is played twice"
                )
                raise typer.Exit(ending.code) from None


def _print_outcome(compiled: "Compiled", out: Path) -> None:
    """What came of it, on stdout."""
    for line in describe_compile(compiled):
        echo(line)
    flag = " --candidate" if compiled.candidate else ""
    verb = format_command("evaluate" if compiled.improved or compiled.candidate else "show", out)
    echo(f"\nprogram: {out}  ({verb}{flag})")
