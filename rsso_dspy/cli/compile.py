"""`rsso-dspy compile`: calibration variants in, a better program out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.bounds import (
    LEAST_DEMO_TOKENS,
    MOST_DEMO_TOKENS,
    MOST_DOLLARS,
    MOST_STEPS,
    MOST_TRIALS,
    USUAL_DEMO_TOKENS,
)
from rsso_dspy.cli.interruption import catch_interruptions
from rsso_dspy.cli.options import (
    BackendName,
    BaseUrl,
    BenchmarkName,
    ConfigFile,
    DryRun,
    Jobs,
    ModelName,
    Overrides,
    ProtocolName,
    Replay,
    Seed,
    build_config,
    format_command,
    format_plural,
    print_plan,
    print_status,
    split_names,
)
from rsso_dspy.cli.run_plan import describe_forecast, describe_models, describe_spending
from rsso_dspy.cli.terminal_text import echo

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.experiment.forecast import Forecast
    from rsso_dspy.optimize.program_file import Compiled
    from rsso_dspy.optimize.request import CompileRequest


def compile_program(
    calib: Annotated[
        str,
        typer.Option(
            help="K-per-task: of each task K training variants for train (feedback), K for val (to choose by), 3K for "
            'confirm (the chosen one against the start); or a JSON file with {"train": ["task::index", ...], "val": '
            '[...], "confirm": [...]}.'
        ),
    ] = "1-per-task",
    method_name: Annotated[str, typer.Option("--method", help="Method to compile.")] = "rsso",
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
    demo_tokens: Annotated[
        int,
        typer.Option(
            min=LEAST_DEMO_TOKENS,
            max=MOST_DEMO_TOKENS,
            help="Tokens of all demonstrations of a predictor at most, under a teacher.",
        ),
    ] = USUAL_DEMO_TOKENS,
    task_names: Annotated[str, typer.Option("--tasks", help="Task types, comma-separated, or all.")] = "all",
    compile_trials: Annotated[int, typer.Option(min=1, max=MOST_TRIALS, help="Trials per rollout.")] = 2,
    compile_steps: Annotated[
        int, typer.Option(min=1, max=MOST_STEPS, help="Steps per trial at most; or what the protocol allows.")
    ] = 60,
    max_rollouts: Annotated[
        int | None,
        typer.Option(min=1, help="Rollouts at most; four times train and val, and confirm twice, when absent."),
    ] = None,
    max_lm_calls: Annotated[int | None, typer.Option(min=1, help="Model calls at most.")] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=MOST_DOLLARS,
            help="US dollars at most; the best so far is kept.",
            metavar="USD",
        ),
    ] = None,
    max_idle: Annotated[
        int | None,
        typer.Option(min=1, max=MOST_STEPS, help="End a trial after this many steps in a row that earned nothing."),
    ] = None,
    roles: Annotated[
        str | None,
        typer.Option(
            help="Roles or predictors that may change, comma-separated, e.g. actor,reflector; all when absent."
        ),
    ] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="Compiled program to improve on; zero-shot when absent.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=20, help="Seeds that each val and confirm variant is played with; more where few.")
    ] = 1,
    protocol: ProtocolName = None,
    seed: Seed = None,
    jobs: Jobs = 1,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the compiled program.")] = Path("compiled.json"),
    replay: Replay = None,
    dry_run: DryRun = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
    benchmark: BenchmarkName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Compile a method's prompts on calibration variants and write the best program found, with a verdict.

    It is confirmed when it beats the program it started from on variants that neither has seen. Ctrl-C and a spent
    budget keep the best so far. Held-out variants are never played.
    """
    settings = build_config(
        config, set_, backend, replay, model, base_url, benchmark=benchmark, protocol__preset=protocol, seed=seed
    )
    from rsso_dspy.experiment.plan import check_writers
    from rsso_dspy.experiment.protocols import resolve_protocol
    from rsso_dspy.optimize.calibration import draw_calibration
    from rsso_dspy.optimize.compile import describe_request, load_finished_compile
    from rsso_dspy.optimize.program_file import load
    from rsso_dspy.optimize.request import build_request, choose_optimizer, describe_limits, describe_power
    from rsso_dspy.optimize.rollout_logs import RolloutLogs
    from rsso_dspy.optimize.teacher import choose_teacher
    from rsso_dspy.programs.methods import get_method

    check_writers([get_method(method_name)], settings)
    preset = resolve_protocol(settings)
    tasks = None if task_names == "all" else split_names(task_names, "--tasks")
    calibration = draw_calibration(calib, tasks, settings.seed, settings.simplification, settings.benchmark_in_data)
    base = load(start) if start else None
    optimizer = optimizer or choose_optimizer(teacher_name)
    teacher = choose_teacher(teacher_name, settings, demo_tokens) if teacher_name else None
    wanted = build_request(
        get_method(method_name),
        preset,
        calibration,
        optimizer,
        compile_trials,
        compile_steps,
        max_rollouts,
        max_lm_calls,
        settings.seed,
        print_status,
        max_cost,
        split_names(roles, "--roles") if roles is not None else None,
        base,
        max_idle,
        seeds,
        teacher=teacher,
    )
    there = load_finished_compile(out, settings, wanted)
    kept = 0 if there else RolloutLogs.for_output(out).check_request(describe_request(settings, wanted))
    forecast = wanted.forecast(preset)
    most = _price_forecast(forecast, wanted, settings)
    print_plan(
        f"plan: {optimizer} compiles {method_name} on {calibration.size} ({calib}), protocol {preset.id}, into {out}\n"
        f"      at most {wanted.limits.rollouts} rollouts of {compile_trials} trials of {compile_steps} steps\n"
        f"      {describe_models(settings, {'actor', *forecast.calls})}\n"
        f"      {_describe_cost(forecast, wanted, most)}"
    )
    if kept:
        print_plan(
            f"      {format_plural(range(kept), 'rollout')} of an attempt that was cut short are kept, and not "
            "played again"
        )
    if teacher:
        print_plan(f"      {teacher.describe_play(calibration)}")
    spare = calibration.describe_spare() if optimizer == "gepa" else ()
    power = (*describe_power(wanted, base), *describe_limits(wanted, forecast.total_calls, most))
    for note in (*calibration.notes, *spare, *(teacher.notes if teacher else ()), *power):
        print_plan(f"      {note}")
    if base and base.candidate:
        print_plan(f"      {start} holds an unconfirmed candidate: it starts from the program that one started from")
    if there:
        print_plan(f"      {out} holds the result already: kept")
    if dry_run:
        return
    compiled = there or _run_compile(wanted, base, jobs, out, settings)
    _print_outcome(compiled, out)


def _price_forecast(forecast: "Forecast", wanted: "CompileRequest", settings: "Config") -> float | None:
    """Return the dollars of a forecast; None if a price is unknown."""
    from rsso_dspy.config import make_price_lookup
    from rsso_dspy.lm import Backend
    from rsso_dspy.pricing import compute_cost as price
    from rsso_dspy.pricing import sum_amounts

    price_of = make_price_lookup(settings.prices)
    taught = wanted.teacher.models if wanted.teacher else {}
    models: dict[str, str] = {**dict(Backend(settings.active_backend).models.items()), **taught}
    by_role = {role: (usage, price_of(models[role])) for role, usage in forecast.usage.items()}
    return sum_amounts(price(usage, known) if known else None for usage, known in by_role.values())


def _describe_cost(forecast: "Forecast", wanted: "CompileRequest", amount: float | None) -> str:
    from rsso_dspy.pricing import format_dollars

    said = describe_forecast(forecast) + (f", {format_dollars(amount)}" if amount is None or amount else "")
    calls, money = wanted.limits.lm_calls, wanted.limits.cost
    said += f"; stopped after {calls:,} calls" if calls is not None else ""
    return said + (f"; stopped after {format_dollars(money)}" if money is not None else "")


def _run_compile(
    wanted: "CompileRequest", base: "Compiled | None", jobs: int, out: Path, settings: "Config"
) -> "Compiled":
    from rsso_dspy.cli.progress import CompileProgress
    from rsso_dspy.experiment.events import EventStream
    from rsso_dspy.experiment.session import session
    from rsso_dspy.optimize.compile import compile_agent
    from rsso_dspy.programs.agent import Agent

    with catch_interruptions() as ending, session(settings, jobs=jobs) as live:
        live.backend.check_connections()
        if "skills" in wanted.method.memories:
            live.embedder.check(live.backend.replay is not None)
        with CompileProgress(wanted.limits.rollouts) as watch:
            events = EventStream()
            watch.follow(events)
            try:
                agent = base.agent() if base else Agent(wanted.method.name)
                return compile_agent(agent, live, wanted, jobs, events, out)
            except KeyboardInterrupt:
                watch.print_line(
                    f"interrupted: {out} holds the best so far; repeat the command, no rollout is played twice"
                )
                raise typer.Exit(ending.code) from None


def _print_outcome(compiled: "Compiled", out: Path) -> None:
    """What came of it, on stdout."""
    from rsso_dspy.optimize.program_file import describe_verdict
    from rsso_dspy.optimize.program_text import describe_noise
    from rsso_dspy.records import RULE_BASED_NOTE, ZERO_SHOT

    before, after = compiled.before, compiled.after
    start = "the zero-shot program" if compiled.start == ZERO_SHOT else "the program it started from"
    found = compiled.improved or compiled.candidate
    if before is None or after is None:
        said = f"the budget ended before {start} was scored"
    elif found:
        said = f"metric {before.metric:.3f} -> {after.metric:.3f}, Mean {before.mean:.2f} -> {after.mean:.2f}"
    else:
        said = f"nothing better than {start} was found (metric {before.metric:.3f}, Mean {before.mean:.2f})"
    echo(
        f"{compiled.method}, {compiled.optimizer}: {said}, on {format_plural(compiled.val, 'val variant')}; "
        f"{format_plural(compiled.tried, 'program')} compared; the search ended: {compiled.search_end}"
    )
    echo(describe_verdict(compiled))
    for line in describe_noise(compiled):
        echo(line)
    echo(
        f"spent: {compiled.rollouts} of {compiled.max_rollouts} rollouts, "
        f"{describe_spending(compiled.usage, calls=compiled.lm_calls)}"
    )
    if compiled.abandoned:
        echo(f"attempts that were cut short cost more: {describe_spending(compiled.abandoned)}")
    if found:
        echo(f"{'changed' if compiled.improved else 'the candidate changes'}: {', '.join(compiled.changes)}")
    if not compiled.improved:
        beside = ", and the candidate beside it" if compiled.candidate else ", marked as such"
        echo(f"{out} holds {start}{beside}.")
    for note in compiled.notes:
        echo(f"note: {note}")
    if compiled.rule_based:
        echo(RULE_BASED_NOTE)
    flag = " --unconfirmed" if compiled.candidate else ""
    verb = format_command("evaluate", out) if found else format_command("program", "show", out)
    echo(f"\nprogram: {out}  ({verb}{flag})")
