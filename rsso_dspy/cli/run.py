"""`rsso-dspy run`: play held-out variants and report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.cli.options import (
    BackendName,
    ConfigFile,
    DryRun,
    Jobs,
    Overrides,
    PerTask,
    ProtocolName,
    Seed,
    Trials,
    Variants,
    configuration,
    names,
    say,
)
from rsso_dspy.cli.programs import agents, load_programs

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.protocol.plan import Arm, Forecast, Plan, Unit
    from rsso_dspy.protocol.store import Store


FOUR = ("react-sso", "reflexion-sso", "sso", "rsso")
"""Skills x reflections in the SSO scaffold."""


def run(
    methods: Annotated[
        str | None,
        typer.Option(
            help="Methods, comma-separated; when absent, those of the compiled programs, else the four of the SSO "
            "scaffold: react-sso,reflexion-sso,sso,rsso."
        ),
    ] = None,
    task_names: Annotated[str, typer.Option("--tasks", help="Task types, comma-separated, or all.")] = "all",
    variants: Variants = "sso",
    per_task: PerTask = None,
    trials: Trials = None,
    protocol: ProtocolName = None,
    seed: Seed = None,
    jobs: Jobs = 1,
    programs: Annotated[
        str, typer.Option(help="zero-shot and files of compiled programs, comma-separated; each makes an arm a method.")
    ] = "zero-shot",
    out: Annotated[Path, typer.Option(help="Folder of the run; the same command again continues it.")] = Path(
        "runs/run"
    ),
    dry_run: DryRun = False,
    backend: BackendName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Play held-out variants with one or more methods and print the comparison.

    Every unit (method, variant, seed) is written as soon as it is finished. Run the same command again to continue.
    """
    settings = configuration(config, set_, backend, protocol__preset=protocol, protocol__trials=trials, seed=seed)
    playing = load_programs(names(programs, "--programs"), settings)
    compiled_for = list(dict.fromkeys(compiled.method for compiled in playing.values() if compiled))
    held_out_run(
        settings,
        names(methods, "--methods") if methods is not None else compiled_for or [*FOUR],
        playing,
        None if task_names == "all" else names(task_names, "--tasks"),
        names(variants, "--variants"),
        per_task,
        jobs,
        out,
        dry_run,
    )


def held_out_run(
    settings: "Config",
    methods: list[str],
    programs: "dict[str, Compiled | None]",
    tasks: list[str] | None,
    variants: list[str],
    per_task: int | None,
    jobs: int,
    out: Path,
    dry_run: bool,
) -> None:
    """Plan, say what it may cost and, unless that is all, play what is left and print the report."""
    from rsso_dspy.optimize.compiled import check_methods
    from rsso_dspy.protocol.executor import fingerprints, missing
    from rsso_dspy.protocol.plan import plan_held_out
    from rsso_dspy.protocol.presets import configured
    from rsso_dspy.protocol.provenance import identity
    from rsso_dspy.protocol.store import Store

    check_methods(programs, methods)
    plan = plan_held_out(settings, methods, tasks, variants, per_task, list(programs), say)
    playing = agents(plan, programs)
    bound_to = identity(settings, configured(settings))
    store = Store(out)
    store.read_only = dry_run
    store.check(bound_to, fingerprints(playing))
    left = missing(plan, store)
    for file in store.set_aside:
        say(f"damaged, {'to be ' if dry_run else ''}set aside as {file}: its unit is played again")
    describe(plan, left, out, settings)
    for name, compiled in programs.items():
        if compiled and not compiled.improved:
            why = "found nothing better" if compiled.before else "ended before anything was scored"
            say(f"      {name} holds the program it started from: its compile {why}")
    if not dry_run:
        play(plan, playing, jobs, store, settings, bound_to)


def play(
    plan: "Plan",
    programs: "dict[Arm, Agent]",
    jobs: int,
    store: "Store",
    settings: "Config",
    bound_to: dict[str, Any],
) -> None:
    """Play what is left of the plan and print the report."""
    from rsso_dspy.cli.progress import Watch
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.protocol.executor import Executor, fingerprints, missing
    from rsso_dspy.protocol.provenance import provenance
    from rsso_dspy.protocol.session import session

    with session(settings, jobs=jobs) as live:
        live.backend.reach()
        if any("skills" in unit.arm.method.memories for unit in plan.units):
            live.embedder.check()
        with store.lock():
            store.open(bound_to, fingerprints(programs))
            left = missing(plan, store)  # asked under the lock: another process may just have finished some
            with Watch(left) as watch:
                executor = Executor(live, store, programs, provenance(settings), watch)
                try:
                    outcome = executor.run(plan, left, jobs)
                except KeyboardInterrupt:
                    watch.say("interrupted: everything finished is kept; run the same command again to continue")
                    raise typer.Exit(130) from None
    print_report(list(store.units()))
    folder = store.folder
    typer.echo(f"\nrun: {folder}  (rsso-dspy report {folder}; rsso-dspy show {folder} {plan.units[0].variant.key})")
    if outcome.errored:
        say(f"{len(outcome.errored)} units ended in errors; run the same command again to retry them")
        raise typer.Exit(1)


def describe(plan: "Plan", left: "list[Unit]", out: Path, settings: "Config") -> None:
    """Print what will be played, by which model, and what it may cost."""
    variants = len({unit.variant for unit in plan.units})
    forecast = plan.forecast(left)
    say(
        f"plan: {len(plan.arms)} arms x {variants} variants = {len(plan.units)} units, "
        f"{plan.rules.trials} trials each, protocol {plan.protocol}, into {out}\n"
        f"      {answering(settings, {'actor', *forecast.calls})}\n"
        f"      {len(plan.units) - len(left)} units finished, {len(left)} to play\n"
        f"      {cost(forecast)}"
    )


def answering(settings: "Config", roles: set[str]) -> str:
    """Which models answer in these roles."""
    from rsso_dspy.backends import EMBEDDED, Backend

    models = Backend(settings.active_backend).models
    names = ", ".join(dict.fromkeys(model for role, model in models.items() if role in roles))
    return f"backend {settings.backend}: {names}" + (" (rule-based, offline, no cost)" if names == EMBEDDED else "")


def cost(forecast: "Forecast") -> str:
    """A forecast in words."""
    tokens_in, tokens_out = forecast.tokens
    per_role = ", ".join(f"{role} {count:,}" for role, count in forecast.calls.items()) or "none"
    return (
        f"at most {forecast.total_calls:,} model calls ({per_role}) while every answer can be read; "
        f"about {tokens_in / 1e6:.2f}M tokens in and {tokens_out / 1e6:.2f}M out if every trial uses all its steps"
    )
