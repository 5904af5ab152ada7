"""`rsso-dspy report`, `show`, `export`, `paper` and `tasks`: what was played, published, or can be played."""

import json
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from rsso_dspy.bounds import MOST_TRIALS
from rsso_dspy.cli import options
from rsso_dspy.cli.options import build_config, echo, format_plural, load_prices, print_status
from rsso_dspy.errors import UsageError
from rsso_dspy.files import check_output_path
from rsso_dspy.records import Split


def report_runs(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of runs; of logs of Reflexion also as ARM=DIR.")
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    against: Annotated[
        str | None, typer.Option(help="Compare all other arms with this one; all: every pair.", metavar="ARM|all")
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            help="Points from which a difference matters (default: 10, or those that rounds were announced with).",
            min=0.1,
            max=100,
            metavar="POINTS",
        ),
    ] = None,
    over: Annotated[
        Literal["types", "variants"],
        typer.Option(help="What intervals and p are about: other task types, or other variants of these."),
    ] = "types",
    ceiling: Annotated[
        str | None,
        typer.Option(
            help="Give the gains of other arms also as shares of this one's, say of rules by hand.", metavar="ARM"
        ),
    ] = None,
    with_paper: Annotated[
        bool, typer.Option("--with-paper", help="Add the published figures, marked as another model's.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one page for a browser, with every trial.", metavar="FILE")
    ] = None,
    table_folder: Annotated[
        Path | None, typer.Option("--tables", help="Write Markdown, LaTeX and CSV here.", metavar="FOLDER")
    ] = None,
    figure_folder: Annotated[
        Path | None, typer.Option("--figures", help="Write SVG, PDF and PNG here.", metavar="FOLDER")
    ] = None,
    bars: Annotated[
        Literal["interval", "sem"],
        typer.Option(help="Bars of means in figures: 95% intervals over task types, or SEM over variants."),
    ] = "interval",
    config: options.ConfigFile = None,
    set_: options.Overrides = None,
) -> None:
    """Print results and costs of each arm, and paired differences with their tests."""
    from rsso_dspy.cli import results
    from rsso_dspy.report.analysis import analyze, find_margin, serialize_analysis
    from rsso_dspy.report.compare import Question
    from rsso_dspy.report.intervals import Cluster
    from rsso_dspy.report.page import PAGE

    price_of = load_prices(config, set_, folders)
    if html:
        check_output_path(html, "--html", PAGE)
    pool, run_records = results.load_folders(folders)
    points = find_margin(run_records) if margin is None else margin
    clusters: Cluster = "task types" if over == "types" else "variants"
    analysis = analyze(run_records, price_of, Question(against, points, clusters, ceiling))
    results.write_tables_and_figures(analysis, with_paper, bars, table_folder, figure_folder)
    if html:
        results.write_html(pool, run_records, analysis, with_paper, bars, html)
        if not json_:
            results.print_headline(analysis, analysis.rule_based_note)
    if json_:
        echo(json.dumps(serialize_analysis(analysis), indent=1))
    elif not (table_folder or figure_folder or html):
        results.print_analysis(analysis, with_paper=with_paper)


def show_source(
    source: Annotated[Path, typer.Argument(metavar="DIR|FILE", help="Folder of a run, or a compiled program.")],
    unit: Annotated[
        str | None,
        typer.Argument(metavar="[TASK::VARIANT]", help="Variant, or TASK of a training; else a list."),
    ] = None,
    arm: Annotated[str | None, typer.Option(help="Arm (default: the first).")] = None,
    trial: Annotated[int | None, typer.Option(min=1, max=MOST_TRIALS, help="Show only this trial.")] = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Also show every request and answer.")] = False,
) -> None:
    """Print a unit step by step, with the texts that each trial taught: plans, skills, rules, entries.

    Of a compiled program: how it was made, the candidates that were compared, its prompts beside the zero-shot ones.
    """
    from rsso_dspy.cli import results

    if not source.is_dir() and unit is None:
        results.show_program(source)
    else:
        results.show_unit(source, unit, arm, trial, prompts)


def export_runs(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of runs.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="File or folder (default: beside DIR).")] = None,
    format_: Annotated[
        Literal["trials", "steps", "inspect"],
        typer.Option("--format", help="Parquet, a row per trial or step; or a folder of .eval logs for Inspect."),
    ] = "trials",
) -> None:
    """Write a run in a format that other tools read: Parquet, or logs of Inspect.

    Scores of errored trials and units are absent, never 0. Unfinished units are left out.
    """
    from rsso_dspy.api import collect_played
    from rsso_dspy.cli.results import open_runs, print_left_out_files
    from rsso_dspy.environments.benchmark import DEFAULT
    from rsso_dspy.report.export import write_inspect_logs, write_parquet

    pool = open_runs(folders)
    price_of = load_prices(None, None, folders)
    resolved = folders[0].resolve()
    sibling = resolved if folders[0].name in ("", "..") else folders[0]
    target = out or sibling.with_name(f"{resolved.name}-{format_}{'' if format_ == 'inspect' else '.parquet'}")
    try:
        if format_ == "inspect":
            benchmark = pool.stores[0].read_identity()[0].get("config", {}).get("benchmark", DEFAULT)
            logs = write_inspect_logs(target, resolved.name, benchmark, collect_played(pool))
            amount = format_plural(logs, "file")
        else:
            rows = write_parquet(target, format_, chain(pool.trainings(), pool.units()), price_of)
            amount = format_plural(rows, format_.removesuffix("s"))
    finally:
        for store in pool.stores:
            print_left_out_files(store)
    if unfinished := sum(len(store.load_begun()) for store in pool.stores):
        print_status(f"{unfinished} unfinished left out")
    echo(f"{target}: {amount}")


def print_paper(
    name: Annotated[Literal["rsso", "omnireflect", "reflexion"], typer.Argument(metavar="[PAPER]")] = "rsso",
) -> None:
    """Print the tables of a paper: rsso, omnireflect or reflexion.

    rsso: its tables (Claude Sonnet 4.6) and statistics recomputed from Table 2. omnireflect: Tables 1 to 5. reflexion:
    example figures of its memory.
    """
    from rsso_dspy.report import published
    from rsso_dspy.report.sheets import print_parts

    for sheet in published.build_published_tables(name):
        echo(sheet.title)
        print_parts([sheet])
        echo()
    echo("\n".join(published.describe_published_tables(name)))


def print_tasks(
    benchmark: options.BenchmarkName = None, config: options.ConfigFile = None, set_: options.Overrides = None
) -> None:
    """List the task types of the benchmark with their splits and held-out variants, and the benchmarks installed."""
    from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
    from rsso_dspy.environments.splits import FIRST
    from rsso_dspy.report.sheets import Cell, build_sheet, print_parts

    settings = build_config(config, set_, keys={"benchmark": benchmark})
    of = settings.active_benchmark
    data = of.locate_data(settings.environment.data)
    selection = of.tasks.selections[0]
    sample = "the first of the test split" if selection == FIRST else f"selection {selection}"
    rows: list[list[Any]] = []
    guesses, strata = [], []
    for task in of.tasks.names():
        variants = of.tasks.held_out(task, selection)
        budgets = [of.limit_steps(int(1.5 * of.budget.gold_length(variant))) for variant in variants]
        sizes = (len(of.tasks.indices(task, split)) for split in get_args(Split))
        indices = " ".join(str(variant.index) for variant in variants)
        rows.append([task, *sizes, Cell(f"{min(budgets)}-{max(budgets)}"), indices])
        guesses.append(of.count_guesses(task, data))
        strata.append("; ".join(of.strata(variants[0], data)))

    columns = ["task", *get_args(Split), "steps", "held-out"]
    if any(guesses):
        columns.append("guess")
        rows = [[*row, f"1 in {count}" if count else ""] for row, count in zip(rows, guesses, strict=True)]
    if any(strata):
        columns.append("strata")
        rows = [[*row, parts] for row, parts in zip(rows, strata, strict=True)]
    print_parts([build_sheet("tasks", "", columns, rows)])
    limit = f" {of.name} ends a trial after {of.budget.most_steps}." if of.budget.most_steps else ""
    echo(f"Held-out: {sample}. Steps: floor(1.5 x gold length) per trial, smallest to largest of these.{limit}")
    echo("Installed benchmarks, for --benchmark:")
    for name in list_benchmarks():
        try:
            echo(f"{name} {get_benchmark(name).version}")
        except UsageError as error:
            echo(f"{name}: {error}")
