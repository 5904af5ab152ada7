"""`rsso-dspy report`: results of runs, on the terminal, as files and as one page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, format_plural, load_prices, print_status
from rsso_dspy.cli.show import load_calls, print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import NotInstalled, UsageError
from rsso_dspy.files import atomic_write_text, check_output_path

if TYPE_CHECKING:
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.report.analysis import Analysis, RunRecords
    from rsso_dspy.report.figures import ReportFigure
    from rsso_dspy.report.page import PageCalls
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.run_folder import Store

EVERY = "all"
"""Value of `--against` that compares all pairs."""

MOST_STEPS = 20_000
"""Maximum number of steps whose requests and answers a page holds."""

TOO_MANY = "the run is long; `rsso-dspy show DIR UNIT --prompts` shows what was sent in one unit"
NO_LOG = "its log is not in the folder of the run"


def report_runs(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folder of the run; of several, the arms are named by the settings that differ."
        ),
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    against: Annotated[
        str | None,
        typer.Option(
            help="Compare all other arms with this one; all: every pair, with p values corrected for their number.",
            metavar="ARM|all",
        ),
    ] = None,
    with_paper: Annotated[
        bool, typer.Option("--with-paper", help="Add the published figures, marked as another model's.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write everything, including every trial, as one page for a browser.", metavar="FILE"),
    ] = None,
    table_folder: Annotated[
        Path | None,
        typer.Option("--tables", help="Write every table to this folder as Markdown, LaTeX and CSV.", metavar="FOLDER"),
    ] = None,
    figure_folder: Annotated[
        Path | None,
        typer.Option("--figures", help="Write every figure to this folder as SVG, PDF and PNG.", metavar="FOLDER"),
    ] = None,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Print results and costs of each arm, and paired differences with their tests."""
    from rsso_dspy.api import collect_played
    from rsso_dspy.report.analysis import analyze, serialize_analysis
    from rsso_dspy.report.page import check_page_target

    price_of = load_prices(config, set_, folders)
    if html:
        check_page_target(html)
    for folder, option in ((table_folder, "--tables"), (figure_folder, "--figures")):
        if folder:
            check_output_path(folder, option)
    pool = open_runs(folders)
    played = collect_played(pool)
    for store in pool.stores:
        print_left_out_files(store)
    if not (played.records or played.trainings or played.begun or played.abandoned or played.under_way):
        raise UsageError(f"{folders[0]} holds no finished unit yet; repeat the command that made it")
    analysis = analyze(played, price_of, None if against == EVERY else against, against == EVERY)
    _write_tables_and_figures(analysis, with_paper, table_folder, figure_folder)
    if html:
        write_html(pool, played, analysis, with_paper, html)
        if not json_:
            print_headline(analysis, analysis.rule_based_note)
    if json_:
        echo(json.dumps(serialize_analysis(analysis), indent=1))
    elif not (table_folder or figure_folder or html):
        print_analysis(analysis, with_paper=with_paper)


def open_runs(folders: Sequence[Path]) -> "PooledRuns":
    """Open the runs of these folders for reading. Raises what `PooledRuns` raises."""
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.run_folder import Store

    return PooledRuns([Store(folder, read_only=True) for folder in dict.fromkeys(folders)])


def print_report(store: "Store", price_of: "PriceOf") -> None:
    """Print the main tables on stdout; only the bill if no unit is finished."""
    from rsso_dspy.api import collect_played
    from rsso_dspy.report.analysis import analyze
    from rsso_dspy.store.pooled_runs import PooledRuns

    print_analysis(analyze(collect_played(PooledRuns([store])), price_of), whole=False)


def print_analysis(analysis: "Analysis", whole: bool = True, with_paper: bool = False) -> None:
    """Print all tables on stdout, or those shown at the end of a run."""
    from rsso_dspy.report import terminal
    from rsso_dspy.report.tables import render_analysis

    terminal.print_renderable(render_analysis(analysis, whole, with_paper))
    print_headline(analysis)


def print_headline(analysis: "Analysis", note: str = "") -> None:
    """Print in plain sentences what came out."""
    from rsso_dspy.report import terminal
    from rsso_dspy.report.headline import write_headline

    terminal.print_renderable(terminal.to_plain_text(f"\n{write_headline(analysis)} {note}".rstrip()))


def _write_tables_and_figures(
    analysis: "Analysis", with_paper: bool, table_folder: Path | None, figure_folder: Path | None
) -> None:
    """Write tables and figures to their folders, where named. Raises `UsageError`, before writing anything, if one
    cannot be written or would replace a foreign file."""
    from rsso_dspy.report.figures import FORMATS, PICTURE, draw_figures, save_figure
    from rsso_dspy.report.sheets import build_table_kind
    from rsso_dspy.report.tables import build_table_files

    figures = draw_figures(analysis, with_paper=with_paper) if figure_folder else []
    tables = build_table_files(analysis, with_paper) if table_folder else {}
    pictures = [(figure, f"{figure.name}{ending}") for figure in figures for ending in FORMATS]
    if figure_folder:
        for _, name in pictures:
            check_output_path(figure_folder / name, "--figures", PICTURE)
    if table_folder:
        for file, text in tables.items():
            check_output_path(table_folder / file, "--tables", build_table_kind(text))
        for file, text in tables.items():
            atomic_write_text(table_folder / file, text)
        print_status(f"{format_plural(tables, 'file')} in {table_folder}")
    if figure_folder:
        for figure, name in pictures:
            save_figure(figure.figure, figure_folder / name)
        print_status(f"{format_plural(figures, 'figure')} in {figure_folder}, each as SVG, PDF and PNG")


def write_html(pool: "PooledRuns", played: "RunRecords", analysis: "Analysis", with_paper: bool, file: Path) -> None:
    """Write the page; without figures if matplotlib is not installed."""
    from rsso_dspy.environments.benchmark import get_benchmark
    from rsso_dspy.report.figures import draw_figures
    from rsso_dspy.report.headline import write_headline
    from rsso_dspy.report.page import Page, build_page_sections, write_page
    from rsso_dspy.report.tables import describe_facts, describe_run

    figures: list[ReportFigure] = []
    try:
        figures = draw_figures(analysis, with_paper=with_paper)
    except NotInstalled as error:
        print_status(f"the page has no figures: {error}")
    records: list[UnitRecord | TrainingRecord] = [*played.records, *played.trainings]
    page = Page(
        ", ".join(store.folder.resolve().name for store in pool.stores),
        build_page_sections(analysis, figures, with_paper),
        write_headline(analysis),
        describe_run(analysis),
        list(describe_facts(analysis).items()),
        get_benchmark().action_templates["sso"],
    )
    write_page(file, page, records, CallFinder(pool, MOST_STEPS).find)
    print_status(f"{file}: {format_plural(records, 'unit')}, {file.stat().st_size / 1e6:.1f} MB; open it in a browser")


class CallFinder:
    """Finds the calls of a record's models, for `most_steps` steps in all."""

    def __init__(self, pool: "PooledRuns", most_steps: int):
        self.left = most_steps
        self._pool = pool

    def find(self, record: "UnitRecord | TrainingRecord") -> "PageCalls":
        """Return the calls of a record, or why the page has none, and how long its trials took."""
        from rsso_dspy.report.page import PageCalls

        steps = sum(len(played.steps) for played in record.trajectories)
        for store, own in self._pool.find_sources(record):
            log = store.load_log(store.path_of(own))
            if log is None:
                continue
            if steps > self.left:
                return PageCalls(why_not=TOO_MANY, seconds=log.seconds)
            self.left -= steps
            return PageCalls(load_calls(store, own), seconds=log.seconds)
        return PageCalls(why_not=NO_LOG)
