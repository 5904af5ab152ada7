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
    count,
    names,
    say,
)
from rsso_dspy.cli.programs import agents, load_programs
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.config import Config
    from rsso_dspy.optimize.compiled import Compiled
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.protocol.plan import Arm, Forecast, Plan, Work
    from rsso_dspy.protocol.playing import Carried
    from rsso_dspy.protocol.store import Store
    from rsso_dspy.trajectory import TrainingRecord, UnitRecord


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
    setting: Annotated[
        str | None,
        typer.Option(
            help="adaptation: memories start empty and learn on the held-out variant. transfer: they learn on training "
            "variants, then play each held-out variant once."
        ),
    ] = None,
    train_trials: Annotated[int | None, typer.Option(min=1, help="Transfer: rounds over the training variants.")] = (
        None
    ),
    train_per_task: Annotated[int | None, typer.Option(min=1, help="Transfer: training variants per task.")] = None,
    skills: Annotated[
        Path | None,
        typer.Option(help="Skill library that every unit starts from; `rsso-dspy skills export` writes one."),
    ] = None,
    frozen: Annotated[
        bool, typer.Option("--frozen", help="With --skills: read the library and learn nothing.")
    ] = False,
    programs: Annotated[
        str, typer.Option(help="zero-shot and files of compiled programs, comma-separated; each makes an arm a method.")
    ] = "zero-shot",
    out: Annotated[Path, typer.Option(help="Folder of the run; the same command again continues it.")] = Path(
        "runs/run"
    ),
    fork: Annotated[
        Path | None,
        typer.Option(help="Another run's folder: what of it is still valid here is taken over and not played again."),
    ] = None,
    dry_run: DryRun = False,
    backend: BackendName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Play held-out variants with one or more methods and print the comparison.

    Every unit (method, variant, seed) is written as soon as it is finished. Run the same command again to continue.
    """
    settings = configuration(
        config,
        set_,
        backend,
        seed=seed,
        protocol__preset=protocol,
        protocol__trials=trials,
        protocol__setting=setting,
        protocol__train_trials=train_trials,
        protocol__train_per_task=train_per_task,
        protocol__frozen="true" if frozen else None,
    )
    if settings.protocol.setting != "transfer" and (train_trials or train_per_task):
        raise UsageError("--train-trials and --train-per-task are of the transfer setting; add --setting transfer")
    if frozen and skills is None:
        raise UsageError("--frozen reads memories and learns nothing, and there are none to read; add --skills FILE")
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
        skills,
        fork,
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
    skills: Path | None = None,
    fork: Path | None = None,
) -> None:
    """Plan, say what it may cost and, unless that is all, play what is left and print the report."""
    from dataclasses import replace

    from rsso_dspy.optimize.compiled import check_methods
    from rsso_dspy.protocol.executor import fingerprints, missing
    from rsso_dspy.protocol.libraries import carried
    from rsso_dspy.protocol.plan import plan_held_out
    from rsso_dspy.protocol.playing import NOTHING
    from rsso_dspy.protocol.presets import configured
    from rsso_dspy.protocol.provenance import identity
    from rsso_dspy.protocol.store import Store

    check_methods(programs, methods)
    plan = plan_held_out(settings, methods, tasks, variants, per_task, list(programs), say)
    playing = agents(plan, programs)
    kept = carried(skills, settings, plan, say) if skills else NOTHING
    plan = replace(plan, carried=kept.states)
    bound_to = identity(settings, configured(settings), kept.digest)
    store = Store(out)
    store.read_only = dry_run
    store.check(bound_to, fingerprints(playing))
    left = missing(plan, store)
    for file in store.set_aside:
        say(f"damaged, {'to be ' if dry_run else ''}set aside as {file}: its unit is played again")
    taken = taken_over(fork, plan, left, bound_to, fingerprints(playing)) if fork else []
    left = [work for work in left if store.path_of(work) not in map(store.path_of, taken)]
    describe(plan, left, out, settings)
    for name, compiled in programs.items():
        if compiled and not compiled.improved:
            why = "found nothing better" if compiled.before else "ended before anything was scored"
            say(f"      {name} holds the program it started from: its compile {why}")
    if not dry_run:
        play(plan, playing, jobs, store, settings, bound_to, kept, taken)


def taken_over(
    source: Path, plan: "Plan", left: "list[Work]", bound_to: dict[str, Any], programs: dict[str, str]
) -> "list[UnitRecord | TrainingRecord]":
    """Records of another run that stand for work that is left."""
    from rsso_dspy.protocol.fork import reusable
    from rsso_dspy.protocol.store import Store

    other = Store(source)
    other.read_only = True
    wanted = set(map(other.path_of, left))
    taken = [record for record in reusable(other, plan, bound_to, programs) if other.path_of(record) in wanted]
    say(f"{count(taken, 'record')} of {source} are valid here and are taken over")
    return taken


def play(
    plan: "Plan",
    programs: "dict[Arm, Agent]",
    jobs: int,
    store: "Store",
    settings: "Config",
    bound_to: dict[str, Any],
    kept: "Carried",
    taken: "list[UnitRecord | TrainingRecord]",
) -> None:
    """Play what is left of the plan and print the report."""
    from rsso_dspy.cli.progress import Watch
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.protocol.executor import Executor, fingerprints, missing
    from rsso_dspy.protocol.playing import Player
    from rsso_dspy.protocol.provenance import provenance
    from rsso_dspy.protocol.session import session

    with session(settings, jobs=jobs) as live:
        live.backend.reach()
        if any("skills" in unit.arm.method.memories for unit in plan.units):
            live.embedder.check()
        with store.lock():
            store.open(bound_to, fingerprints(programs))
            for record in taken:
                store.save(record)
            left = missing(plan, store)  # asked under the lock: another process may just have finished some
            with Watch(left) as watch:
                player = Player(live, store, programs, provenance(settings), kept, watch.trial)
                try:
                    outcome = Executor(player, watch).run(plan, left, jobs)
                except KeyboardInterrupt:
                    watch.say("interrupted: every finished trial is kept; run the same command again to continue")
                    raise typer.Exit(130) from None
    print_report(list(store.units()), list(store.trainings()))
    folder = store.folder
    typer.echo(f"\nrun: {folder}  (rsso-dspy report {folder}; rsso-dspy show {folder} {plan.units[0].variant.key})")
    if outcome.untrained:
        say(f"{len(outcome.untrained)} units were not played: the training they start from ended in an error")
    if outcome.errored:
        say(f"{len(outcome.errored)} ended in errors; run the same command again to go on from their last good trial")
        raise typer.Exit(1)


def describe(plan: "Plan", left: "list[Work]", out: Path, settings: "Config") -> None:
    """Print what will be played, by which model, and what it may cost."""
    from rsso_dspy.protocol.plan import Unit

    variants = len({unit.variant for unit in plan.units})
    forecast = plan.forecast(left)
    units = sum(isinstance(work, Unit) for work in left)
    trainings = len(left) - units
    episodes = sum(len(training.episodes) for training in plan.trainings)
    say(
        f"plan: {len(plan.arms)} arms x {variants} variants = {len(plan.units)} units, "
        f"{count(range(plan.rules.trials), 'trial')} each, protocol {plan.protocol}, into {out}\n"
        f"      {answering(settings, {'actor', *forecast.calls})}"
    )
    if plan.trainings:
        say(f"      {count(plan.trainings, 'training')} of {episodes:,} episodes before, {trainings} to play")
    say(f"      {len(plan.units) - units} units finished, {units} to play\n      {cost(forecast)}")


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
