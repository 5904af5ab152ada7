"""`rsso-dspy constitution`: build a constitution from calibration variants, show and export it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rsso_dspy.bounds import MOST_EPISODES
from rsso_dspy.cli import options
from rsso_dspy.cli.options import build_config, format_command, format_plural, print_plan, print_status, split_tasks
from rsso_dspy.cli.process import catch_interruptions
from rsso_dspy.cli.run_plan import describe_forecast, describe_models, describe_spending
from rsso_dspy.cli.terminal_text import echo, print_json_text
from rsso_dspy.errors import LimitReached, UsageError

if TYPE_CHECKING:
    from rsso_dspy.memory.formats import ConstitutionFile
    from rsso_dspy.optimize.constitution import ConstitutionBuild

app = typer.Typer(help="Build a constitution from calibration variants, show and export it.", no_args_is_help=True)

Source = Annotated[
    Path, typer.Argument(metavar="FILE|RUN", help="Constitution file, or folder of a run that wrote one.")
]
Arm = Annotated[str | None, typer.Option(help="Arm of the run (default: the first with a constitution).")]


@app.command()
def build(
    calib: Annotated[
        str,
        typer.Option(
            help="K-per-task: K training variants of every task, drawn as in compile (at most half of a task's)."
        ),
    ] = "1-per-task",
    writer: Annotated[
        Literal["neural", "symbolic", "neuro-symbolic"],
        typer.Option(help="Rule writer: a model, patterns without model calls, or both."),
    ] = "neural",
    explore: Annotated[
        int, typer.Option(min=0, max=MOST_EPISODES, help="Exploration episodes without a task, played first.")
    ] = 1,
    task_names: options.TaskNames = None,
    protocol: options.ProtocolName = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Constitution file.")] = Path("constitution.json"),
    dry_run: options.DryRun = False,
    max_cost: options.MaxCost = None,
    model: options.ModelName = None,
    base_url: options.BaseUrl = None,
    backend: options.BackendName = None,
    benchmark: options.BenchmarkName = None,
    config: options.ConfigFile = None,
    set_: options.Overrides = None,
) -> None:
    """Distil rules from calibration variants, for any method and backend to read.

    The agent plays each variant once, in order, and writes abstract and error rules.
    `rsso-dspy run --methods rsso --constitution FILE` reads them without further model calls. Held-out variants are
    never played. Repeat an interrupted command to resume it.
    """
    from rsso_dspy.optimize.calibration import draw_calibration
    from rsso_dspy.optimize.constitution import itemize_build_costs, plan_constitution_build
    from rsso_dspy.pricing import sum_amounts

    settings = build_config(
        config, set_, backend, None, model, base_url, benchmark=benchmark, protocol__preset=protocol
    )
    tasks = split_tasks(task_names)
    drawn = draw_calibration(calib, tasks, settings.seed, settings.simplification, settings.benchmark_in_data, 0)
    plan = plan_constitution_build(settings, drawn.train, writer, out, explore, print_status)
    finished = plan.load_finished()
    if finished:
        print_status(f"{out} was built by this very command before: nothing is left to play")
    elif out.exists():
        raise UsageError(f"{out} already exists; remove it or name another file with -o")
    else:
        _print_plan(plan, writer, calib, drawn.notes)
    if not dry_run:
        book = finished or _play_build(plan, max_cost)
        print_constitution(book)
        entries = itemize_build_costs(book, settings)
        usage = {entry.role: entry.usage for entry in entries}
        echo(f"building it took {describe_spending(usage, sum_amounts(entry.billed for entry in entries))}")
        read = format_command("run", "--methods", "rsso", "--constitution", out)
        echo(f"\nconstitution: {out}  ({read})")


@app.command()
def show(source: Source, arm: Arm = None, json_: options.Json = False) -> None:
    """Print the rules and their source; --json prints the whole file, with every edit."""
    from rsso_dspy.memory_files import open_constitution

    book = open_constitution(source, arm)
    if json_:
        print_json_text(book.to_json())
    else:
        print_constitution(book)


@app.command()
def export(
    source: Source,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Markdown file, e.g. AGENTS.md, whose marked block is written.")
    ],
    arm: Arm = None,
) -> None:
    """Write the rules into a marked block of AGENTS.md, CLAUDE.md or the like; the rest of the file stays as it is."""
    from rsso_dspy.memory_files import open_constitution, write_constitution_block

    book = open_constitution(source, arm)
    write_constitution_block(book, out)
    print_status(f"{out}: {format_plural(book.constitution.rules, 'rule')} in its block")


def _print_plan(built: "ConstitutionBuild", writer: str, calib: str, notes: Sequence[str] = ()) -> None:
    """Print the plan: episodes, models and maximum cost; `notes` come from drawing the variants."""
    from rsso_dspy.executor import list_pending_jobs
    from rsso_dspy.forecast import Forecast, forecast_calls

    calls: Counter[str] = Counter()
    left = 0
    for plan, store in zip(built.plans, built.make_stores(), strict=True):
        work = list_pending_jobs(plan, store)
        left += len(work)
        calls.update(forecast_calls(plan, work).calls)
    episodes = sum(len(plan.units) for plan in built.plans)
    print_plan(
        f"plan: {writer} rules from {format_plural(built.plan.units, 'variant')} ({calib}), protocol "
        f"{built.plan.protocol}, into {built.out}\n"
        f"      {episodes} episodes in sequence, {episodes - left} finished, {left} to play\n"
        f"      {describe_models(built.config, {'actor', *calls})}\n      {describe_forecast(Forecast(dict(calls)))}",
        *(f"      {note}" for note in notes),
    )


def _play_build(built: "ConstitutionBuild", max_cost: float | None) -> "ConstitutionFile":
    """Play the pending episodes and write the file."""
    from rsso_dspy.cli.progress import RunProgress
    from rsso_dspy.executor import EventStream
    from rsso_dspy.sessions import session

    spend_limit = built.make_spend_limit(max_cost)
    with catch_interruptions() as ending, session(built.config) as live:
        live.backend.check_connections()
        with RunProgress([unit for plan in built.plans for unit in plan.units]) as watch:
            events = EventStream()
            watch.follow(events)
            try:
                return built.run(live, spend_limit, events)
            except LimitReached as reached:
                watch.print_line(str(reached))
                raise typer.Exit(1) from None
            except KeyboardInterrupt:
                watch.print_line("interrupted: finished episodes are kept; repeat the command to resume")
                raise typer.Exit(ending.code) from None


def print_constitution(book: "ConstitutionFile") -> None:
    """Print the rules by category, and where they come from."""
    from rsso_dspy.records import RULE_BASED_NOTE

    rules = book.constitution
    for category in ("abstract", "error"):
        held = [rule for rule in rules.rules if rule.lesson.category == category]
        echo(f"{category.capitalize()} rules: {len(held)}", bold=True)
        for rule in held:
            often = f" (said {rule.count} times)" if rule.count > 1 else ""
            echo(f"  {rule.id} {rule.lesson.line}{often}")
    if book.variants:
        echo(f"learned on {format_plural(book.variants, 'variant')}: {', '.join(book.variants)}")
    if book.provenance.get("rule_based"):
        echo(RULE_BASED_NOTE)
