"""`rsso-dspy constitution`: a rule book distilled from calibration variants, looked at, compared, merged and edited."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.bounds import MOST_EPISODES
from rsso_dspy.cli.options import (
    BackendName,
    BenchmarkName,
    ConfigFile,
    DryRun,
    MaxCost,
    MaxTokens,
    Overrides,
    ProtocolName,
    Record,
    Replay,
    Seed,
    command,
    configuration,
    count,
    names,
    say,
)
from rsso_dspy.cli.playing import playing
from rsso_dspy.cli.prose import echo, print_json, print_json_text
from rsso_dspy.errors import LimitReached, UnknownName, UsageError
from rsso_dspy.report.terminal import visible
from rsso_dspy.whole import check_place

if TYPE_CHECKING:
    from rsso_dspy.protocol.building import Building
    from rsso_dspy.protocol.constitutions import Book

app = typer.Typer(
    help="Constitutions: build one on calibration variants, look at it, compare, merge, edit.", no_args_is_help=True
)

Source = Annotated[
    Path, typer.Argument(metavar="FILE|RUN", help="Constitution file, or folder of a run that wrote one.")
]
Arm = Annotated[str | None, typer.Option(help="Which arm of a run; the first that wrote a constitution when absent.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="File of the constitution.")]
Json = Annotated[bool, typer.Option("--json", help="JSON data instead of text.")]


@app.command()
def build(
    calib: Annotated[
        str,
        typer.Option(
            help="K-per-task: K training variants of every task, as compile draws them: half of a task's at most; or a "
            "JSON file whose `learn` lists variants."
        ),
    ] = "1-per-task",
    writer: Annotated[
        str, typer.Option(help="Who writes the rules: neural (a model), symbolic (patterns, no call), neuro-symbolic.")
    ] = "neural",
    explore: Annotated[
        int,
        typer.Option(min=0, max=MOST_EPISODES, help="Episodes without a task before, to learn about the world alone."),
    ] = 1,
    task_names: Annotated[str, typer.Option("--tasks", help="Task types, comma-separated, or all.")] = "all",
    out: Out = Path("constitution.json"),
    protocol: ProtocolName = None,
    seed: Seed = None,
    max_cost: MaxCost = None,
    max_tokens: MaxTokens = None,
    record: Record = False,
    replay: Replay = None,
    dry_run: DryRun = False,
    backend: BackendName = None,
    benchmark: BenchmarkName = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Have a meta-advisor distil rules from calibration variants, for any method and any other backend to read.

    The agent plays every variant once, one after the other, and writes abstract and error rules on the way.
    `rsso-dspy run --methods rsso --constitution FILE` reads them at no further call. Held-out variants are never
    played. The same command again goes on where it was cut short.
    """
    from typing import get_args

    from rsso_dspy.optimize.calibration import draw
    from rsso_dspy.programs.methods import Writing
    from rsso_dspy.protocol.building import building

    if writer not in get_args(Writing):
        raise UnknownName("writer", writer, get_args(Writing))
    settings = configuration(config, set_, backend, replay, benchmark=benchmark, protocol__preset=protocol, seed=seed)
    if out.exists():
        raise UsageError(f"{out} exists already; remove it, or name another -o")
    tasks = None if task_names == "all" else names(task_names, "--tasks")
    drawn = draw(calib, tasks, settings.seed, settings.simplification, settings.played)
    writing = next(each for each in get_args(Writing) if each == writer)
    built = building(settings, drawn.learn, writing, out, explore, say)
    describe(built, writer, calib, drawn.notes)
    if not dry_run:
        _print(play(built, max_cost, max_tokens, record))
        read = command("run", "--methods", "rsso", "--constitution", out)
        echo(f"\nconstitution: {out}  ({read})")


def describe(built: "Building", writer: str, calib: str, notes: Sequence[str] = ()) -> None:
    """Print what will be played, by which model, and what it may cost at most; `notes` are those of the draw."""
    from collections import Counter

    from rsso_dspy.cli.forecast import answering, cost
    from rsso_dspy.protocol.executor import missing
    from rsso_dspy.protocol.plan import Forecast

    plans, stores = built.plans, built.stores()
    calls: Counter[str] = Counter()
    left = 0
    for plan, store in zip(plans, stores, strict=True):
        work = missing(plan, store)
        left += len(work)
        calls.update(plan.forecast(work).calls)
    forecast = Forecast(dict(calls))
    episodes = sum(len(plan.units) for plan in plans)
    say(
        f"plan: {writer} rules from {count(built.plan.units, 'variant')} ({calib}), protocol {built.plan.protocol}, "
        f"into {built.out}\n"
        f"      {episodes} episodes one after the other, {episodes - left} finished, {left} to play\n"
        f"      {answering(built.config, {'actor', *calls})}\n      {cost(forecast)}"
    )
    for note in notes:
        say(f"      {note}")


def play(built: "Building", max_cost: float | None, max_tokens: int | None, record: bool = False) -> "Book":
    """Play what is left and write the file."""
    from rsso_dspy.cli.progress import Watch
    from rsso_dspy.protocol.events import EventStream
    from rsso_dspy.protocol.session import session

    purse = built.purse(max_cost, max_tokens)
    with playing() as ending, session(built.config) as live:
        live.backend.reach()
        with Watch([unit for plan in built.plans for unit in plan.units]) as watch:
            events = EventStream()
            watch.follow(events)
            try:
                return built.play(live, purse, events, record)
            except LimitReached as reached:
                watch.say(str(reached))
                raise typer.Exit(1) from None
            except KeyboardInterrupt:
                watch.say("interrupted: every finished episode is kept; the same command again goes on")
                raise typer.Exit(ending.code) from None


@app.command()
def show(
    source: Source,
    arm: Arm = None,
    edits: Annotated[bool, typer.Option("--edits", help="Every edit too: added, merged, dropped and so on.")] = False,
    json_: Json = False,
) -> None:
    """Print the rules, where they come from and what was changed on the way."""
    from rsso_dspy.protocol.constitutions import opened

    book = opened(source, arm)
    if json_:
        print_json_text(book.text())
        return
    _print(book)
    if edits:
        echo("Edits", bold=True)
        for edit in book.constitution.edits:
            of = f" of {', '.join(edit.of)}" if edit.of else ""
            why = f" ({edit.why})" if edit.why else ""
            echo(visible(f"  {edit.what} {edit.id}{of}{why}, {edit.source or 'given'}: {edit.text}".rstrip(": ")))


@app.command()
def diff(a: Source, b: Source, json_: Json = False) -> None:
    """Print the rules that only one of two constitutions holds."""
    from rsso_dspy.protocol.constitutions import only_in, opened

    ours, theirs = opened(a), opened(b)
    only = {str(a): only_in(ours, theirs), str(b): only_in(theirs, ours)}
    shared = len(ours.constitution.rules) - len(only[str(a)])
    if json_:
        print_json({"only": only, "shared": shared})
        return
    for mark, (name, lines) in zip("-+", only.items(), strict=True):
        echo(f"only in {name}: {count(lines, 'rule')}", bold=True)
        for line in lines:
            echo(visible(f"{mark} {line}"))
    echo(f"in both: {shared}")


@app.command()
def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="FILE|RUN...", help="Constitution files, or folders of runs.")
    ],
    out: Out,
) -> None:
    """Put the rules of several constitutions into one file, each rule once. No model is asked."""
    from rsso_dspy.protocol.constitutions import opened, together
    from rsso_dspy.whole import write_whole

    if out.exists():
        raise UsageError(f"{out} exists already; remove it, or name another -o")
    check_place(out)
    books = {str(source): opened(source) for source in sources}
    made = together(books)
    write_whole(out, made.text())
    before = sum(len(book.constitution.rules) for book in books.values())
    say(f"{out}: {count(made.constitution.rules, 'rule')} of {before}")


@app.command()
def edit(file: Annotated[Path, typer.Argument(metavar="FILE", help="Constitution file.")]) -> None:
    """Open the rules in $EDITOR, one a line, and write back what was made of them."""
    from dataclasses import replace

    import click

    from rsso_dspy.protocol.constitutions import editable, edited, read_book
    from rsso_dspy.reading import read_text
    from rsso_dspy.whole import write_whole

    book = read_book(file)
    check_place(file, "file")
    draft = file.with_name(f"{file.name}.draft")
    before = read_text(draft) if draft.exists() else editable(book.constitution)
    try:
        text = click.edit(before, extension=".txt")
    except click.ClickException as error:
        raise UsageError(f"no editor could be opened ({error.message}); set EDITOR, e.g. EDITOR=nano") from None
    if text is None and not draft.exists():
        say("nothing was changed")
        return
    try:
        made = edited(book.constitution, text if text is not None else before)
    except UsageError as error:
        write_whole(draft, text if text is not None else before)
        raise UsageError(f"{error}. What was written is kept in {draft}: the same command opens it again") from None
    write_whole(file, replace(book, constitution=made).text())
    draft.unlink(missing_ok=True)
    say(f"{file}: {count(made.rules, 'rule')}, before {len(book.constitution.rules)}")


def _print(book: "Book") -> None:
    from rsso_dspy.trajectory import RULE_BASED_NOTE

    rules = book.constitution
    for category in ("abstract", "error"):
        held = [rule for rule in rules.rules if rule.lesson.category == category]
        echo(f"{category.capitalize()} rules: {len(held)}", bold=True)
        for rule in held:
            said = f" (said {rule.count} times)" if rule.count > 1 else ""
            echo(visible(f"  {rule.id} {rule.lesson.line}{said}"))
    if book.variants:
        echo(f"learnt on {count(book.variants, 'variant')}: {', '.join(book.variants)}")
    if book.provenance.get("rule_based"):
        echo(RULE_BASED_NOTE)
