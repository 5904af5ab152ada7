"""`rsso-dspy constitution`: build a constitution from calibration variants; show, compare, merge and edit it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.atomic import check_output_path
from rsso_dspy.bounds import MOST_EPISODES
from rsso_dspy.cli.interruption import catch_interruptions
from rsso_dspy.cli.options import (
    BackendName,
    BaseUrl,
    BenchmarkName,
    ConfigFile,
    DryRun,
    MaxCost,
    MaxTokens,
    ModelName,
    Overrides,
    ProtocolName,
    Record,
    Replay,
    Seed,
    build_config,
    format_command,
    format_plural,
    print_status,
    split_names,
)
from rsso_dspy.cli.terminal_text import echo, print_json, print_json_text
from rsso_dspy.errors import LimitReached, UnknownName, UsageError
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from rsso_dspy.experiment.constitutions import ConstitutionFile
    from rsso_dspy.workflows.build_constitution import ConstitutionBuild

app = typer.Typer(
    help="Build a constitution from calibration variants; show, compare, merge and edit it.", no_args_is_help=True
)

ConstitutionSource = Annotated[
    Path, typer.Argument(metavar="FILE|RUN", help="Constitution file, or folder of a run that wrote one.")
]
ConstitutionArm = Annotated[str | None, typer.Option(help="Arm of the run (default: the first with a constitution).")]
ConstitutionOut = Annotated[Path, typer.Option("--out", "-o", help="Constitution file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command()
def build(
    calib: Annotated[
        str,
        typer.Option(
            help="K-per-task: K training variants of every task, drawn as in compile (at most half of a task's); or a "
            "JSON file whose `train` lists variants."
        ),
    ] = "1-per-task",
    writer: Annotated[
        str,
        typer.Option(
            help="Rule writer: neural (a model), symbolic (patterns, no model calls) or neuro-symbolic (both)."
        ),
    ] = "neural",
    explore: Annotated[
        int,
        typer.Option(min=0, max=MOST_EPISODES, help="Exploration episodes without a task, played first."),
    ] = 1,
    task_names: Annotated[str, typer.Option("--tasks", help="Task types, comma-separated, or all.")] = "all",
    out: ConstitutionOut = Path("constitution.json"),
    protocol: ProtocolName = None,
    seed: Seed = None,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    record: Record = False,
    replay: Replay = None,
    dry_run: DryRun = False,
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
    benchmark: BenchmarkName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Distil rules from calibration variants, for any method and backend to read.

    The agent plays each variant once, in order, and writes abstract and error rules.
    `rsso-dspy run --methods rsso --constitution FILE` reads them without further model calls. Held-out variants are
    never played. Repeat an interrupted command to resume it.
    """
    from typing import get_args

    from rsso_dspy.optimize.calibration import draw_calibration
    from rsso_dspy.programs.methods import Writing
    from rsso_dspy.workflows.build_constitution import plan_constitution_build

    if writer not in get_args(Writing):
        raise UnknownName("writer", writer, get_args(Writing))
    settings = build_config(
        config, set_, backend, replay, model, base_url, benchmark=benchmark, protocol__preset=protocol, seed=seed
    )
    if out.exists():
        raise UsageError(f"{out} already exists; remove it or name another file with -o")
    tasks = None if task_names == "all" else split_names(task_names, "--tasks")
    drawn = draw_calibration(calib, tasks, settings.seed, settings.simplification, settings.active_benchmark, 0)
    writing = next(each for each in get_args(Writing) if each == writer)
    built = plan_constitution_build(settings, drawn.train, writing, out, explore, print_status)
    print_build_plan(built, writer, calib, drawn.notes)
    if not dry_run:
        _print_constitution(play_build(built, max_cost, max_tokens, record))
        read = format_command("run", "--methods", "rsso", "--constitution", out)
        echo(f"\nconstitution: {out}  ({read})")


def print_build_plan(built: "ConstitutionBuild", writer: str, calib: str, notes: Sequence[str] = ()) -> None:
    """Print the plan: episodes, models and maximum cost; `notes` come from drawing the variants."""
    from collections import Counter

    from rsso_dspy.cli.run_plan import describe_forecast, describe_models
    from rsso_dspy.experiment.executor import list_pending_jobs
    from rsso_dspy.experiment.plan import Forecast

    plans, stores = built.plans, built.make_stores()
    calls: Counter[str] = Counter()
    left = 0
    for plan, store in zip(plans, stores, strict=True):
        work = list_pending_jobs(plan, store)
        left += len(work)
        calls.update(plan.forecast_calls(work).calls)
    forecast = Forecast(dict(calls))
    episodes = sum(len(plan.units) for plan in plans)
    print_status(
        f"plan: {writer} rules from {format_plural(built.plan.units, 'variant')} ({calib}), protocol "
        f"{built.plan.protocol}, "
        f"into {built.out}\n"
        f"      {episodes} episodes in sequence, {episodes - left} finished, {left} to play\n"
        f"      {describe_models(built.config, {'actor', *calls})}\n      {describe_forecast(forecast)}"
    )
    for note in notes:
        print_status(f"      {note}")


def play_build(
    built: "ConstitutionBuild", max_cost: float | None, max_tokens: int | None, record: bool = False
) -> "ConstitutionFile":
    """Play the pending episodes and write the file."""
    from rsso_dspy.cli.progress import RunProgress
    from rsso_dspy.experiment.events import EventStream
    from rsso_dspy.experiment.session import session

    purse = built.make_spend_limit(max_cost, max_tokens)
    with catch_interruptions() as ending, session(built.config) as live:
        live.backend.check_connections()
        with RunProgress([unit for plan in built.plans for unit in plan.units]) as watch:
            events = EventStream()
            watch.follow(events)
            try:
                return built.run(live, purse, events, record)
            except LimitReached as reached:
                watch.print_line(str(reached))
                raise typer.Exit(1) from None
            except KeyboardInterrupt:
                watch.print_line("interrupted: finished episodes are kept; repeat the command to resume")
                raise typer.Exit(ending.code) from None


@app.command()
def show(
    source: ConstitutionSource,
    arm: ConstitutionArm = None,
    edits: Annotated[bool, typer.Option("--edits", help="Also list every edit: add, merge, drop and so on.")] = False,
    json_: Json = False,
) -> None:
    """Print the rules and their source; with --edits also their history."""
    from rsso_dspy.experiment.constitutions import open_constitution

    book = open_constitution(source, arm)
    if json_:
        print_json_text(book.to_json())
        return
    _print_constitution(book)
    if edits:
        echo("Edits", bold=True)
        for edit in book.constitution.edits:
            of = f" of {', '.join(edit.of)}" if edit.of else ""
            why = f" ({edit.why})" if edit.why else ""
            echo(
                replace_controls(
                    f"  {edit.what} {edit.id}{of}{why}, {edit.source or 'given'}: {edit.text}".rstrip(": ")
                )
            )


@app.command()
def diff(a: ConstitutionSource, b: ConstitutionSource, json_: Json = False) -> None:
    """Print the rules that occur in only one of two constitutions."""
    from rsso_dspy.experiment.constitutions import list_unique_rules, open_constitution

    ours, theirs = open_constitution(a), open_constitution(b)
    only = {str(a): list_unique_rules(ours, theirs), str(b): list_unique_rules(theirs, ours)}
    shared = len(ours.constitution.rules) - len(only[str(a)])
    if json_:
        print_json({"only": only, "shared": shared})
        return
    for mark, (name, lines) in zip("-+", only.items(), strict=True):
        echo(f"only in {name}: {format_plural(lines, 'rule')}", bold=True)
        for line in lines:
            echo(replace_controls(f"{mark} {line}"))
    echo(f"in both: {shared}")


@app.command()
def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="FILE|RUN...", help="Constitution files, or folders of runs.")
    ],
    out: ConstitutionOut,
) -> None:
    """Merge several constitutions into one file, each rule once, without a model."""
    from rsso_dspy.atomic import atomic_write_text
    from rsso_dspy.experiment.constitutions import merge_constitution_files, open_constitution

    if out.exists():
        raise UsageError(f"{out} already exists; remove it or name another file with -o")
    check_output_path(out)
    books = {str(source): open_constitution(source) for source in sources}
    made = merge_constitution_files(books)
    atomic_write_text(out, made.to_json())
    before = sum(len(book.constitution.rules) for book in books.values())
    print_status(f"{out}: {format_plural(made.constitution.rules, 'rule')} of {before}")


@app.command()
def edit(file: Annotated[Path, typer.Argument(metavar="FILE", help="Constitution file.")]) -> None:
    """Edit the rules in $EDITOR, one per line."""
    from dataclasses import replace

    import click

    from rsso_dspy.atomic import atomic_write_text
    from rsso_dspy.experiment.constitutions import apply_edited_rules, format_rules, read_constitution
    from rsso_dspy.safe_read import read_text

    book = read_constitution(file)
    check_output_path(file, "file")
    draft = file.with_name(f"{file.name}.draft")
    before = read_text(draft) if draft.exists() else format_rules(book.constitution)
    try:
        text = click.edit(before, extension=".txt")
    except click.ClickException as error:
        raise UsageError(f"cannot open an editor ({error.message}); set EDITOR, e.g. EDITOR=nano") from None
    if text is None and not draft.exists():
        print_status("no changes")
        return
    try:
        made = apply_edited_rules(book.constitution, text if text is not None else before)
    except UsageError as error:
        atomic_write_text(draft, text if text is not None else before)
        raise UsageError(f"{error}. Your text is saved in {draft}; repeat the command to edit it again") from None
    atomic_write_text(file, replace(book, constitution=made).to_json())
    draft.unlink(missing_ok=True)
    print_status(f"{file}: {format_plural(made.rules, 'rule')}, before {len(book.constitution.rules)}")


def _print_constitution(book: "ConstitutionFile") -> None:
    from rsso_dspy.records import RULE_BASED_NOTE

    rules = book.constitution
    for category in ("abstract", "error"):
        held = [rule for rule in rules.rules if rule.lesson.category == category]
        echo(f"{category.capitalize()} rules: {len(held)}", bold=True)
        for rule in held:
            said = f" (said {rule.count} times)" if rule.count > 1 else ""
            echo(replace_controls(f"  {rule.id} {rule.lesson.line}{said}"))
    if book.variants:
        echo(f"learned on {format_plural(book.variants, 'variant')}: {', '.join(book.variants)}")
    if book.provenance.get("rule_based"):
        echo(RULE_BASED_NOTE)
