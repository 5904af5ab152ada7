"""`rsso-dspy run`, `evaluate` and `compile`: play held-out variants, or compile a program on calibration variants."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rsso_dspy.bounds import MOST_JOBS, MOST_SEED
from rsso_dspy.cli import options
from rsso_dspy.cli.options import echo, print_status, split_names, split_tasks
from rsso_dspy.errors import UsageError
from rsso_dspy.records import ZERO_SHOT

FOUR = ("react-sso", "reflexion-sso", "sso", "rsso")  # skills x reflections in the SSO scaffold
QUICK_METHODS = ("react", "reflexion")  # equal retries, and reflections
OUT, SMALL_OUT, QUICK_OUT = Path("runs/run"), Path("runs/small"), Path("runs/quick")  # default folders
SMALL = {"methods": "react,reflexion", "per_task": 1, "trials": 3}
OUT_HELP = "Folder of the run; repeat to resume. Default: runs/run; --quick: runs/quick; a small run: runs/small."
Out = Annotated[Path | None, typer.Option(help=OUT_HELP)]
NEXT = "\nThat was a small run. Next, name what to play and who: rsso-dspy run --help"


@options.expand_options
def run_methods(
    methods: Annotated[
        str | None, typer.Option(help="Methods, comma-separated (default: react-sso, reflexion-sso, sso, rsso).")
    ] = None,
    benchmark: options.BenchmarkName = None,
    task_names: options.TaskNames = None,
    variants: options.Variants = None,
    per_task: options.PerTask = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            help="Play so many rounds, each of one variant of every task type; you may look at results between them.",
        ),
    ] = None,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="Stop after the round in which every memory is decided.")
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.1, max=100, metavar="POINTS", help="Points from which a gain matters in rounds (default: 10)."
        ),
    ] = None,
    trials: options.Trials = None,
    protocol: options.ProtocolName = None,
    seed: Annotated[int | None, typer.Option(min=0, max=MOST_SEED, help="Random seed of the run.")] = None,
    programs: Annotated[
        str | None, typer.Option(help="zero-shot and files of compiled programs; each gives every method one arm.")
    ] = None,
    skills: Annotated[Path | None, typer.Option(help="Skill library that every unit starts from.")] = None,
    constitution: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]FILE",
            help="Rules or Markdown that methods named METHOD+constitution, or else all, start from; repeat NAME=FILE "
            "for an arm with each.",
        ),
    ] = None,
    out: Out = None,
    jobs: options.Jobs = 1,
    shard: Annotated[str | None, typer.Option(help="Part i of n, e.g. 2/8; report reads the parts together.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Play one question: reflections against equal retries, on many task types.")
    ] = False,
    like: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Plan with the noise of this run's differences, in place of assumed noise."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Answer from this run's log; alone, play its own command again and compare."),
    ] = None,
    *,
    start: options.Start,
) -> None:
    """Play held-out variants with one or more methods and print the comparison.

    Without options and without a configuration, a small run is played.

    Every trial is saved as soon as it is finished. Repeat the command to resume. Section [run] of the file may hold
    methods, tasks, variants, per_task, trials, programs and constitution, which options override. For memories that
    train first, --set protocol.setting=transfer; for memories that only read, --set protocol.frozen=true; for a Ray
    cluster, --set run.engine=ray.
    """
    from rsso_dspy.cli.play import plan_and_play, replay_run
    from rsso_dspy.config import Config, load_config
    from rsso_dspy.constitutions import parse_constitutions
    from rsso_dspy.environments.benchmark import get_benchmark
    from rsso_dspy.optimize.program_file import load_programs
    from rsso_dspy.programs.methods import READING, get_method
    from rsso_dspy.store.commands import RunSpec, Shard

    values: dict[str, Any] = {"methods": methods, "tasks": task_names, "variants": variants, "per_task": per_task}
    values |= {"trials": trials, "programs": programs}
    values["constitution"] = parse_constitutions(constitution) if constitution else None
    of_model = options.name_model(start.model, start.base_url, start.backend)  # a key of it alone would be no backend
    file = load_config(start.config, [*of_model, *(start.set_ or ())], whole=False)
    extra: dict[str, Any] = {}
    if quick:
        benchmark, asks, extra = _ask_quick_question(benchmark, values)
        if until_decided or rounds is not None:
            rounds = rounds or asks.pop("per_task")
            asks["per_task"] = None
        values |= asks
        out = out or QUICK_OUT
    inputs = (*values.values(), benchmark, protocol, seed, skills, shard, rounds, margin, until_decided or None)
    settings = replace(start, dry_run=False, max_cost=None, yes=False)
    says_nothing = all(value is None for value in inputs) and settings == options.Start()
    if replay is not None and says_nothing:
        replay_run(replay, out, start, jobs, file.run.engine)
        return
    if is_small := says_nothing and file == Config():
        values = {"tasks": ",".join(get_benchmark().tasks.examples), **SMALL}
        out = out or SMALL_OUT
        print_status("nothing is named to play, so a small run is played, by the rule-based embedded player")
    merged = file.run.model_copy(update={name: value for name, value in values.items() if value is not None})
    keys = {
        "benchmark": benchmark,
        "seed": seed,
        "protocol.preset": protocol,
        "protocol.trials": merged.trials,
        **extra,
    }
    config = start.build_config(keys, replay)
    if config.protocol.frozen and skills is None and merged.constitution is None:
        raise UsageError("protocol.frozen needs memories to read; add --skills FILE or --constitution FILE")
    files = split_names(merged.programs, "--programs")
    playing = load_programs(files)
    compiled_for = tuple(dict.fromkeys(compiled.method for compiled in playing.values() if compiled))
    method_names = split_names(merged.methods, "--methods") if merged.methods is not None else compiled_for or FOUR
    if merged.constitution is not None and not any(
        "constitution" in get_method(name).memories for name in method_names
    ):
        method_names = tuple(f"{name}+{READING}" for name in method_names)
    spec = RunSpec(
        methods=method_names,
        programs=tuple(playing),
        compiled=tuple(Path(file) for file, program in zip(files, playing.values(), strict=True) if program),
        tasks=split_tasks(merged.tasks),
        variants=split_names(merged.variants, "--variants") if merged.variants is not None else (),
        per_task=merged.per_task,
        rounds=rounds,
        margin=margin,
        until_decided=until_decided,
        out=out or OUT,
        skills=skills,
        constitution=merged.constitution,
        shard=Shard.parse(shard) if shard else None,
    )
    plan_and_play(config, spec, playing, start, jobs, file.run.engine, like)
    if is_small and not start.dry_run:
        echo(NEXT)


def _ask_quick_question(name: str | None, typed: dict[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the benchmark, the options and the settings of `--quick`. Raises `UsageError` beside options that it sets,
    and for a benchmark without such a study."""
    from rsso_dspy.environments.benchmark import QUICK, get_benchmark

    set_by_it = ("methods", "tasks", "variants", "per_task", "trials")
    conflicts = [f"--{option.replace('_', '-')}" for option in set_by_it if typed[option] is not None]
    if conflicts:
        raise UsageError(f"--quick says what is played: leave {' and '.join(conflicts)} out, or leave out --quick")
    name = name or QUICK
    study = get_benchmark(name).quick
    if study is None:
        raise UsageError(f"{name} has no quick study: leave --benchmark out, or leave out --quick")
    asks = {
        "methods": ",".join(QUICK_METHODS),
        "tasks": ",".join(study.tasks),
        "per_task": study.per_task,
        "trials": study.trials,
    }
    return name, asks, {"protocol.steps": study.steps, "shared_answers": "true"}


@options.expand_options
def evaluate_program(
    program: Annotated[Path, typer.Argument(metavar="FILE", help="The compiled program.")],
    candidate: Annotated[
        bool, typer.Option("--candidate", help="Play the candidate of a program that is not confirmed.")
    ] = False,
    benchmark: options.BenchmarkName = None,
    variants: options.Variants = None,
    per_task: options.PerTask = None,
    trials: options.Trials = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run (default: runs/evaluate-NAME).")] = None,
    jobs: options.Jobs = 1,
    *,
    start: options.Start,
) -> None:
    """Play held-out variants with the compiled program and with the zero-shot program of the same method, with the same
    seeds, and print the comparison.

    The benchmark and the tasks are those that the program was compiled on; --variants names other tasks of it.
    `rsso-dspy run --programs zero-shot,FILE` has more options.
    """
    from rsso_dspy.cli.play import plan_and_play
    from rsso_dspy.optimize.program_file import load, load_programs
    from rsso_dspy.store.commands import RunSpec

    compiled = load(program)
    playing = load_programs([ZERO_SHOT, str(program)], candidate)
    made_on = compiled.environment.name if compiled.environment else None
    config = start.build_config({"protocol.trials": trials, "benchmark": benchmark}, assumed={"benchmark": made_on})
    calibrated = tuple(dict.fromkeys(key.partition("::")[0] for key in compiled.calibration))
    lists_variants = variants not in (None, *config.active_benchmark.tasks.selections)
    origin = f"compiled by {compiled.optimizer} on {len(compiled.calibration)} variants under {compiled.protocol}"
    print_status(f"{program}: {compiled.method}, {'made elsewhere' if compiled.is_made_elsewhere else origin}")
    spec = RunSpec(
        methods=(compiled.method,),
        programs=tuple(playing),
        compiled=(program,),
        tasks=None if lists_variants else calibrated or None,
        variants=split_names(variants, "--variants") if variants is not None else (),
        per_task=per_task,
        out=out or Path("runs") / f"evaluate-{program.stem}",
        unconfirmed=candidate,
    )
    plan_and_play(config, spec, playing, start, jobs)
    if not start.dry_run:
        echo(f"program: {program}")


@options.expand_options
def compile_program(
    method_name: Annotated[str, typer.Option("--method", help="Method to compile.")] = "rsso",
    calib: Annotated[
        str, typer.Option(help="K-per-task: of each task K training variants for train, K for val, 3K for confirm.")
    ] = "1-per-task",
    benchmark: options.BenchmarkName = None,
    task_names: options.TaskNames = None,
    optimizer: Annotated[
        str | None, typer.Option(help="gepa (the default), mipro, bootstrap (under a teacher the default) or none.")
    ] = None,
    candidates: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='TOML file of instructions to try in place of an optimizer\'s: actor = ["...", "..."].',
        ),
    ] = None,
    teacher_name: Annotated[
        str | None, typer.Option("--teacher", metavar="BACKEND|gold", help="Who plays train: a backend, or solutions.")
    ] = None,
    protocol: options.ProtocolName = None,
    max_rollouts: Annotated[
        int | None, typer.Option(min=1, help="Rollouts at most (default: 4 x train and val, 2 x confirm).")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=20, help="Seeds of each val and confirm variant.")] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=MOST_JOBS,
            help=f"Rollouts played at once, each in a simulator (default: one a core, {options.USUAL_JOBS} at most).",
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the compiled program.")] = Path("compiled.json"),
    *,
    start: options.Start,
) -> None:
    """Compile a method's prompts on calibration variants and write the best program found, with a verdict.

    It is confirmed when it beats the program it started from on variants that neither has seen. Ctrl-C and a spent
    budget keep the best so far. Held-out variants are never played. By --set or in section [compile] of the file:
    compile.trials (2) and compile.steps (60) of a rollout.
    """
    from rsso_dspy.cli.play import compile_and_print
    from rsso_dspy.optimize.calibration import draw_calibration
    from rsso_dspy.optimize.compile import build_request
    from rsso_dspy.optimize.optimizers import read_candidates
    from rsso_dspy.optimize.teacher import choose_teacher
    from rsso_dspy.plan import check_writers
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.protocol import resolve_protocol

    keys = {"benchmark": benchmark, "protocol.preset": protocol}
    config = start.build_config(keys)
    agent = Agent(method_name)
    check_writers([agent.method], config)
    preset = resolve_protocol(config)
    calibration = draw_calibration(
        calib, split_tasks(task_names), config.seed, config.simplification, config.benchmark_in_data
    )
    teacher = choose_teacher(teacher_name, config) if teacher_name else None
    request = build_request(
        agent.method,
        preset,
        calibration,
        read_candidates(candidates, agent, optimizer) if candidates else optimizer,
        config.compile,
        max_rollouts,
        start.max_cost,
        config.seed,
        seeds,
        teacher,
        print_status,
    )
    compile_and_print(request, preset, config, calib, out, start, jobs or options.count_usual_jobs())
