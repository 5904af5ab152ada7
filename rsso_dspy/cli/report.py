"""`rsso-dspy report`: results of a run, on the terminal, as files and as one page."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, format_plural, load_prices, print_status
from rsso_dspy.cli.page_content import CallFinder, build_sections, get_page_title
from rsso_dspy.cli.run_folders import Separate, open_runs, print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError
from rsso_dspy.files import check_output_path

if TYPE_CHECKING:
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.report.analysis import Analysis, RunRecords
    from rsso_dspy.report.figures import ReportFigure
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.run_folder import Store

MOST_STEPS = 20_000
"""Maximum number of steps whose requests and answers a page holds."""


class FigureSizeName(StrEnum):
    """Widths of figures."""

    PAGE = "page"
    COLUMN = "column"


def report_runs(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folder of the run; of several, the arms are named by the settings that differ."
        ),
    ],
    json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    against: Annotated[str | None, typer.Option(help="Compare all other arms with this one.", metavar="ARM")] = None,
    every: Annotated[
        bool, typer.Option("--all-pairs", help="Compare all pairs of arms; p values are corrected for their number.")
    ] = False,
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
    figure_size: Annotated[
        FigureSizeName, typer.Option(help="Width of figures: a page's text (7.2 inches) or one of two columns (3.5).")
    ] = FigureSizeName.PAGE,
    separate: Separate = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Print results and costs of each arm, and paired differences with their tests."""
    import json

    from rsso_dspy.report.analysis import analyze, serialize_analysis
    from rsso_dspy.report.figures import draw_figures
    from rsso_dspy.report.page import check_page_target
    from rsso_dspy.report.tables import build_table_files
    from rsso_dspy.workflows.played_runs import collect_played

    if against is not None and every:
        raise UsageError("--against and --all-pairs exclude each other; use one of them")
    price_of = load_prices(config, set_, folders)
    if html:
        check_page_target(html)
    for folder, option in ((table_folder, "--tables"), (figure_folder, "--figures")):
        if folder:
            check_output_path(folder, option)
    pool = open_runs(folders, separate)
    found = collect_played(pool)
    for store in pool.stores:
        print_left_out_files(store)
    if not (found.records or found.trainings or found.begun or found.abandoned or found.under_way):
        raise UsageError(f"{folders[0]} holds no finished unit yet; repeat the command that made it")
    analysis = analyze(found, price_of, against, every)
    pictures: list[ReportFigure] = []
    if figure_folder:
        pictures = draw_figures(analysis, figure_size.value, with_paper)
    files = build_table_files(analysis, with_paper) if table_folder else {}
    check_output_files(figure_folder, pictures, table_folder, files)
    if figure_folder:
        write_figures(pictures, figure_folder)
    if table_folder:
        write_tables(files, table_folder)
    if html:
        write_html(pool, found, analysis, with_paper, html)
        if not json_:
            print_headline(analysis, analysis.rule_based_note)
    if json_:
        echo(json.dumps(serialize_analysis(analysis), indent=1))
    elif not (table_folder or figure_folder or html):
        print_analysis(analysis, with_paper=with_paper)


def print_report(store: "Store", price_of: "PriceOf") -> None:
    """Print the main tables on stdout; only the bill if no unit is finished."""
    from rsso_dspy.report.analysis import analyze
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.workflows.played_runs import collect_played

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


def check_output_files(
    figures: Path | None, pictures: "list[ReportFigure]", tables: Path | None, files: "Mapping[Path, str]"
) -> None:
    """Raise `UsageError`, before writing anything, if a figure or table cannot be written or would replace a foreign
    file."""
    from rsso_dspy.report.figure_canvas import FORMATS, PICTURE
    from rsso_dspy.report.sheets import build_table_kind

    for name in (f"{picture.name}{ending}" for picture in pictures for ending in FORMATS):
        if figures:
            check_output_path(figures / name, "--figures", PICTURE)
    for file, text in files.items():
        if tables:
            check_output_path(tables / file, "--tables", build_table_kind(text))


def write_tables(files: "Mapping[Path, str]", folder: Path) -> None:
    """Write all tables; return the files by name."""
    from rsso_dspy.files import atomic_write_text

    for name, text in files.items():
        atomic_write_text(folder / name, text)
    print_status(f"{format_plural(files, 'file')} in {folder}")


def write_figures(drawn: "list[ReportFigure]", folder: Path) -> None:
    """Write all figures."""
    from rsso_dspy.report.figure_canvas import FORMATS, save_figure

    for picture in drawn:
        for ending in FORMATS:
            save_figure(picture.figure, folder / f"{picture.name}{ending}")
    print_status(f"{format_plural(drawn, 'figure')} in {folder}, each as SVG, PDF and PNG")


def write_html(pool: "PooledRuns", found: "RunRecords", analysis: "Analysis", with_paper: bool, file: Path) -> None:
    """Write the page."""
    from rsso_dspy.environments.benchmark import get_benchmark
    from rsso_dspy.report.headline import write_headline
    from rsso_dspy.report.page import write_page
    from rsso_dspy.report.tables import describe_facts, describe_run

    sections = build_sections(pool.stores, analysis, with_paper)
    records: list[UnitRecord | TrainingRecord] = [*found.records, *found.trainings]
    write_page(
        file,
        get_page_title(pool.stores),
        sections,
        records,
        describe_run(analysis),
        list(describe_facts(analysis).items()),
        get_benchmark().action_templates,
        CallFinder(pool, MOST_STEPS).find,
        write_headline(analysis),
    )
    print_status(f"{file}: {format_plural(records, 'unit')}, {file.stat().st_size / 1e6:.1f} MB; open it in a browser")
