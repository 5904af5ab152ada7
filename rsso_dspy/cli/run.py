"""`rsso-dspy run`: play held-out variants and report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.cli.options import BackendName, ConfigFile, Overrides, configuration, names

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.protocol.plan import Plan, Unit
    from rsso_dspy.protocol.store import Store


def run(
    methods: Annotated[str, typer.Option(help="Methods, comma-separated.")] = "react-sso,reflexion-sso,sso,rsso",
    task_names: Annotated[str, typer.Option("--tasks", help="Task types, comma-separated, or all.")] = "all",
    variants: Annotated[
        str, typer.Option(help="sso (the paper's seeded sample), first, or a list: 228,229 or boil::22,freeze::21.")
    ] = "sso",
    per_task: Annotated[int | None, typer.Option(min=1, help="At most this many variants per task.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Trials per variant; the preset's when absent.")] = None,
    protocol: Annotated[
        str | None, typer.Option(help="Protocol preset: sso-adapt/1, sso-adapt/1-cap60, release.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every unit.")] = None,
    jobs: Annotated[int, typer.Option(min=1, max=256, help="Units played at once, each with its own simulator.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder of the run; the same command again continues it.")] = Path(
        "runs/run"
    ),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and what it may cost; play nothing.")
    ] = False,
    backend: BackendName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Play held-out variants with one or more methods and print the comparison.

    Every unit (method, variant, seed) is written as soon as it is finished. Run the same command again to continue.
    """
    settings = configuration(config, set_, backend, protocol__preset=protocol, protocol__trials=trials, seed=seed)
    from rsso_dspy.protocol.executor import missing
    from rsso_dspy.protocol.plan import plan_held_out
    from rsso_dspy.protocol.presets import configured
    from rsso_dspy.protocol.provenance import identity
    from rsso_dspy.protocol.store import Store

    tasks = None if task_names == "all" else names(task_names, "--tasks")
    wanted = names(methods, "--methods")
    plan = plan_held_out(settings, wanted, tasks, names(variants, "--variants"), per_task, say=_say)
    bound_to = identity(settings, configured(settings))
    store = Store(out)
    store.read_only = dry_run
    store.check(bound_to)
    left = missing(plan, store)
    for file in store.set_aside:
        _say(f"damaged, {'to be ' if dry_run else ''}set aside as {file}: its unit is played again")
    describe(plan, left, out, settings)
    if not dry_run:
        play(plan, jobs, store, settings, bound_to)


def play(plan: "Plan", jobs: int, store: "Store", settings: "Config", bound_to: dict[str, Any]) -> None:
    """Play what is left of the plan and print the report."""
    from rsso_dspy.cli.progress import Watch
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.protocol.executor import Executor, missing
    from rsso_dspy.protocol.provenance import provenance
    from rsso_dspy.protocol.session import session

    programs = {unit.arm: Agent(unit.arm.method.name) for unit in plan.units}
    with session(settings, jobs=jobs) as live:
        live.backend.reach()
        if any("skills" in unit.arm.method.memories for unit in plan.units):
            live.embedder.check()
        with store.lock():
            store.open(bound_to, plan.arms)
            left = missing(plan, store)  # asked under the lock: another process may just have finished some
            with Watch(left) as watch:
                executor = Executor(live, store, lambda unit: programs[unit.arm], provenance(settings), watch)
                try:
                    outcome = executor.run(plan, left, jobs)
                except KeyboardInterrupt:
                    watch.say("interrupted: everything finished is kept; run the same command again to continue")
                    raise typer.Exit(130) from None
    print_report(list(store.units()))
    folder = store.folder
    typer.echo(f"\nrun: {folder}  (rsso-dspy report {folder}; rsso-dspy show {folder} {plan.units[0].variant.key})")
    if outcome.errored:
        _say(f"{len(outcome.errored)} units ended in errors; run the same command again to retry them")
        raise typer.Exit(1)


def describe(plan: "Plan", left: "list[Unit]", out: Path, settings: "Config") -> None:
    """Print what will be played, by which model, and what it may cost."""
    from rsso_dspy.backends import EMBEDDED, Backend

    forecast = plan.forecast(left)
    tokens_in, tokens_out = forecast.tokens
    per_role = ", ".join(f"{role} {count:,}" for role, count in forecast.calls.items()) or "none"
    models = Backend(settings.active_backend).models
    answering = ", ".join(dict.fromkeys(model for role, model in models.items() if role in {"actor", *forecast.calls}))
    note = " (rule-based, offline, no cost)" if answering == EMBEDDED else ""
    variants = len({unit.variant for unit in plan.units})
    _say(
        f"plan: {len(plan.arms)} arms x {variants} variants = {len(plan.units)} units, "
        f"{plan.rules.trials} trials each, protocol {plan.protocol}, into {out}\n"
        f"      backend {settings.backend}: {answering}{note}\n"
        f"      {len(plan.units) - len(left)} units finished, {len(left)} to play\n"
        f"      at most {forecast.total_calls:,} model calls ({per_role}) while every answer can be read; "
        f"about {tokens_in / 1e6:.2f}M tokens in and {tokens_out / 1e6:.2f}M out if every trial uses all its steps"
    )


def _say(text: str) -> None:
    typer.echo(text, err=True)
