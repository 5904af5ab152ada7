"""`rsso-dspy run`: the options of a run of held-out variants."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.bounds import MOST_PER_TASK, MOST_TRIALS
from rsso_dspy.cli import options
from rsso_dspy.cli.options import build_config, parse_retry, split_names
from rsso_dspy.cli.play import plan_and_play
from rsso_dspy.errors import UsageError

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
    task_names: Annotated[
        str | None, typer.Option("--tasks", help="Task types, comma-separated, or all.", show_default="all")
    ] = None,
    variants: options.Variants = None,
    per_task: options.PerTask = None,
    trials: options.Trials = None,
    protocol: options.ProtocolName = None,
    seed: options.Seed = None,
    jobs: options.Jobs = 1,
    setting: Annotated[
        str | None,
        typer.Option(
            help="adaptation: memories start empty and learn on the held-out variant. transfer: they learn on training "
            "variants, then play each held-out variant once."
        ),
    ] = None,
    train_trials: Annotated[
        int | None, typer.Option(min=1, max=MOST_TRIALS, help="Transfer: rounds over the training variants.")
    ] = None,
    train_per_task: Annotated[
        int | None, typer.Option(min=1, max=MOST_PER_TASK, help="Transfer: number of training variants per task.")
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
    frozen: Annotated[
        bool, typer.Option("--frozen", help="With --skills or --constitution: read the memories without learning.")
    ] = False,
    programs: Annotated[
        str | None,
        typer.Option(
            help="zero-shot and files of compiled programs, comma-separated; each program gives every method one arm.",
            show_default="zero-shot",
        ),
    ] = None,
    unconfirmed: options.Unconfirmed = False,
    out: Annotated[Path, typer.Option(help="Folder of the run; repeat the command to resume.")] = Path("runs/run"),
    retry: options.Retry = None,
    replay: options.Replay = None,
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
    max_cost: options.MaxCost = None,
    max_tokens: options.MaxTokens = None,
    dry_run: options.DryRun = False,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    backend: options.BackendName = None,
    benchmark: options.BenchmarkName = None,
    config: options.ConfigFile = None,
    set_: options.Overrides = None,
) -> None:
    """Play held-out variants with one or more methods and print the comparison.

    Every trial is saved as soon as it is finished. Repeat the command to resume. A section [run] of the file may hold
    methods, tasks, variants, per_task, trials, programs and constitution, which options override.
    """
    from rsso_dspy.config import load_run_options
    from rsso_dspy.optimize.program_file import load_programs
    from rsso_dspy.store.commands import RunSpec, Shard

    asked = load_run_options(
        config,
        methods=methods,
        tasks=task_names,
        variants=variants,
        per_task=per_task,
        trials=trials,
        programs=programs,
        constitution=constitution,
    )
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
        protocol__setting=setting,
        protocol__train_trials=train_trials,
        protocol__train_per_task=train_per_task,
        protocol__frozen="true" if frozen else None,
    )
    if settings.protocol.setting != "transfer" and (train_trials or train_per_task):
        raise UsageError("--train-trials and --train-per-task need --setting transfer")
    if frozen and skills is None and asked.constitution is None:
        raise UsageError("--frozen needs memories to read; add --skills FILE or --constitution FILE")
    files = split_names(asked.programs, "--programs")
    playing = load_programs(files, unconfirmed)
    compiled_for = list(dict.fromkeys(compiled.method for compiled in playing.values() if compiled))
    chosen = split_names(asked.methods, "--methods") if asked.methods is not None else compiled_for or FOUR
    if asked.constitution is not None:
        chosen = add_constitution(chosen)
    spec = RunSpec(
        methods=tuple(chosen),
        programs=tuple(playing),
        compiled=tuple(Path(file) for file, program in zip(files, playing.values(), strict=True) if program),
        tasks=None if asked.tasks == "all" else tuple(split_names(asked.tasks, "--tasks")),
        variants=() if asked.variants is None else tuple(split_names(asked.variants, "--variants")),
        per_task=asked.per_task,
        out=out,
        skills=skills,
        constitution=asked.constitution,
        shard=Shard.parse(shard) if shard else None,
        retry_stalled=parse_retry(retry),
        unconfirmed=unconfirmed,
    )
    plan_and_play(settings, spec, playing, jobs, dry_run, max_cost, max_tokens, engine)


def add_constitution(methods: Sequence[str]) -> list[str]:
    """Return the methods, each with `+constitution` unless one of them has a constitution already."""
    from rsso_dspy.programs.methods import READING, get_method

    if any("constitution" in get_method(name).memories for name in methods):
        return list(methods)
    return [f"{name}+{READING}" for name in methods]
