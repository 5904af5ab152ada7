"""`rsso-dspy evaluate`: compare a compiled program with the zero-shot program on held-out variants."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.options import (
    BackendName,
    BaseUrl,
    BenchmarkName,
    ConfigFile,
    DryRun,
    Jobs,
    MaxCost,
    MaxTokens,
    ModelName,
    Overrides,
    PerTask,
    ProtocolName,
    Replay,
    Retry,
    Seed,
    Trials,
    Unconfirmed,
    Variants,
    build_config,
    parse_retry,
    print_status,
    split_names,
)
from rsso_dspy.cli.play import plan_and_play
from rsso_dspy.cli.terminal_text import echo


def evaluate_program(
    program: Annotated[Path, typer.Argument(metavar="FILE", help="The compiled program.")],
    unconfirmed: Unconfirmed = False,
    task_names: Annotated[
        str | None,
        typer.Option(
            "--tasks", help="Task types, comma-separated, or all. Default: those the program was compiled on."
        ),
    ] = None,
    variants: Variants = None,
    per_task: PerTask = None,
    trials: Trials = None,
    protocol: ProtocolName = None,
    seed: Seed = None,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder. Default: runs/evaluate-NAME. Repeat the command to continue a run."),
    ] = None,
    retry: Retry = None,
    replay: Replay = None,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    dry_run: DryRun = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
    benchmark: BenchmarkName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Play held-out variants with the compiled program and with the zero-shot program of the same method, with the same
    seeds, and print the comparison.

    A candidate that is not confirmed plays only with --unconfirmed. The command works like `rsso-dspy run` with two
    programs: it writes every unit as soon as it is finished.
    """
    from rsso_dspy.optimize.program_file import load, load_programs
    from rsso_dspy.records import ZERO_SHOT
    from rsso_dspy.store.commands import RunSpec

    compiled = load(program)
    playing = load_programs([ZERO_SHOT, str(program)], unconfirmed)
    settings = build_config(
        config,
        set_,
        backend,
        replay,
        model,
        base_url,
        benchmark=benchmark,
        protocol__preset=protocol,
        protocol__trials=trials,
        seed=seed,
    )
    calibrated = list(dict.fromkeys(key.partition("::")[0] for key in compiled.calibration))
    listed = variants not in (None, *settings.active_benchmark.table.selections)
    tasks = None if listed else calibrated
    if task_names is not None:
        tasks = None if task_names == "all" else split_names(task_names, "--tasks")
    elif not calibrated:
        tasks = None
    made = f"compiled by {compiled.optimizer} on {len(compiled.calibration)} variants under {compiled.protocol}"
    print_status(f"{program}: {compiled.method}, {'made elsewhere' if compiled.is_made_elsewhere else made}")
    spec = RunSpec(
        methods=(compiled.method,),
        programs=tuple(playing),
        compiled=(program,),
        tasks=None if tasks is None else tuple(tasks),
        variants=() if variants is None else tuple(split_names(variants, "--variants")),
        per_task=per_task,
        out=out or Path("runs") / f"evaluate-{program.stem}",
        retry_stalled=parse_retry(retry),
        unconfirmed=unconfirmed,
    )
    plan_and_play(settings, spec, playing, jobs, dry_run, max_cost, max_tokens)
    if not dry_run:
        echo(f"program: {program}")
