"""`rsso-dspy report`: results of a run, on the terminal, as files and as one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.atomic import check_output_path
from rsso_dspy.cli.exchanges import recorded
from rsso_dspy.cli.options import ConfigFile, Overrides, format_plural, print_status
from rsso_dspy.cli.run_folders import Separate, open_runs, print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import NotInstalled, UsageError

if TYPE_CHECKING:
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.recordings import Exchange
    from rsso_dspy.records import TrainingRecord, UnitRecord
    from rsso_dspy.report.analysis import Analysis, RunRecords
    from rsso_dspy.report.figures import ReportFigure
    from rsso_dspy.report.page import PageFigure
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.unit_store import Store

FORMATS = (".svg", ".png")
"""File formats of figures."""


def report_runs(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folder of the run; several folders that differ in seeds or arms make one report."
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
        typer.Option("--figures", help="Write every figure to this folder as SVG and PNG.", metavar="FOLDER"),
    ] = None,
    separate: Separate = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Print results and costs of each arm, and paired differences with their tests."""
    import json

    from rsso_dspy.config import load_config, make_price_lookup
    from rsso_dspy.report.analysis import analyze_run, serialize_analysis
    from rsso_dspy.report.page import check_page_target
    from rsso_dspy.report.report_files import build_table_files

    if against is not None and every:
        raise UsageError("--against and --all-pairs exclude each other; use one of them")
    price_of = make_price_lookup(load_config(config, set_ or ()).prices)
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
    analysis = analyze_run(found, price_of, against, every)
    pictures = draw_run_figures(found, analysis, price_of, with_paper) if figure_folder else []
    files = build_table_files(analysis, with_paper) if table_folder else {}
    check_output_files(figure_folder, pictures, table_folder, files)
    if figure_folder:
        write_figures(pictures, figure_folder)
    if table_folder:
        write_tables(files, table_folder)
    if html:
        write_html(pool.stores, found, analysis, price_of, with_paper, html)
    if json_:
        echo(json.dumps(serialize_analysis(analysis), indent=1))
    elif not (table_folder or figure_folder or html):
        print_analysis(analysis, with_paper=with_paper)


def collect_played(pool: "PooledRuns") -> "RunRecords":
    """Analyze the folders of a run. Raises `RunMismatch` if units of one arm cannot be pooled."""
    from rsso_dspy.report.analysis import RunRecords
    from rsso_dspy.store.run_log import get_played_days, list_planned_units
    from rsso_dspy.workflows.run_monitor import get_role_models

    playing = {store: store.is_playing() for store in pool.stores}
    cut_short = [each for store in pool.stores if not playing[store] for each in pool.read_under_way(store)]
    records = list(pool.units())
    there = {f"{record.arm}/{record.key}/s{record.seed}" for record in records}
    wanted = {pool.label_unit(store, unit) for store in pool.stores for unit in list_planned_units(store)}
    dates = sorted(day for store in pool.stores for day in get_played_days(store))
    return RunRecords(
        records,
        list(pool.trainings()),
        list(pool.load_begun()),
        [*pool.read_abandoned(), *cut_short],
        tuple(dict.fromkeys([*dates[:1], *dates[-1:]])),
        len(wanted - there),
        [each for store in pool.stores if playing[store] for each in pool.read_under_way(store)],
        get_role_models(pool.stores[0].read_identity()[0]),
    )


def print_report(store: "Store", price_of: "PriceOf") -> None:
    """Print the main tables on stdout; only the bill if no unit is finished."""
    from rsso_dspy.report.analysis import analyze_run
    from rsso_dspy.store.pooled_runs import PooledRuns

    print_analysis(analyze_run(collect_played(PooledRuns([store])), price_of), whole=False)


def print_analysis(analysis: "Analysis", whole: bool = True, with_paper: bool = False) -> None:
    """Print all tables on stdout, or those shown at the end of a run."""
    from rsso_dspy.report import terminal
    from rsso_dspy.report.terminal_report import render_analysis

    terminal.print_renderable(render_analysis(analysis, whole, with_paper))


def check_output_files(
    figures: Path | None, pictures: "list[ReportFigure]", tables: Path | None, files: "Mapping[Path, str]"
) -> None:
    """Raise `UsageError`, before writing anything, if a figure or table cannot be written or would replace a foreign
    file."""
    from rsso_dspy.report.figures import PICTURE
    from rsso_dspy.report.report_files import build_table_kind

    for name in (f"{picture.name}{ending}" for picture in pictures for ending in FORMATS):
        if figures:
            check_output_path(figures / name, "--figures", PICTURE)
    for file, text in files.items():
        if tables:
            check_output_path(tables / file, "--tables", build_table_kind(text))


def write_tables(files: "Mapping[Path, str]", folder: Path) -> None:
    """Write all tables; return the files by name."""
    from rsso_dspy.atomic import atomic_write_text

    for name, text in files.items():
        atomic_write_text(folder / name, text)
    print_status(f"{format_plural(files, 'file')} in {folder}")


def draw_run_figures(
    found: "RunRecords", analysis: "Analysis", price_of: "PriceOf", with_paper: bool = False
) -> "list[ReportFigure]":
    """Draw every figure that the run has data for. Raises `UsageError` if matplotlib is not installed."""
    from rsso_dspy.report.figures import draw_report_figures
    from rsso_dspy.report.metrics import group_by_arm

    comparisons = [finding.comparison for finding in analysis.findings]
    return draw_report_figures(group_by_arm(found.records), price_of, analysis.main_pair, with_paper, comparisons)


def write_figures(drawn: "list[ReportFigure]", folder: Path) -> None:
    """Write all figures."""
    from rsso_dspy.report.figures import save_figure

    for picture in drawn:
        for ending in FORMATS:
            save_figure(picture.figure, folder / f"{picture.name}{ending}")
    print_status(f"{format_plural(drawn, 'figure')} in {folder}, each as SVG and PNG")


def write_html(
    stores: "Sequence[Store]",
    found: "RunRecords",
    analysis: "Analysis",
    price_of: "PriceOf",
    with_paper: bool,
    file: Path,
) -> None:
    """Write the page."""
    from rsso_dspy.environments.benchmark import get_benchmark
    from rsso_dspy.report.figures import render_figure_svg
    from rsso_dspy.report.page import PageFigure, write_page
    from rsso_dspy.report.page_sections import build_page_sections, format_run_facts
    from rsso_dspy.report.report_files import describe_run

    drawn, candidates = {}, []
    try:
        for picture in draw_run_figures(found, analysis, price_of, with_paper):
            drawn[picture.name] = PageFigure(
                picture.title, picture.alt, render_figure_svg(picture.figure, picture.name, themed=True)
            )
        candidates = [drawing for store in stores for drawing in _draw_run_candidates(store.folder)]
    except NotInstalled as error:
        print_status(f"the page has no figures: {error}")
    sections = build_page_sections(analysis, drawn, candidates, with_paper)
    records: list[UnitRecord | TrainingRecord] = [*found.records, *found.trainings]
    name = ", ".join(store.folder.resolve().name for store in stores)
    templates = get_benchmark().action_templates

    def exchanges(record: "UnitRecord | TrainingRecord") -> "Mapping[int, Sequence[Exchange]]":
        return next(filter(None, (recorded(store, record) for store in stores)), {})

    write_page(file, name, sections, records, describe_run(analysis), format_run_facts(analysis), templates, exchanges)
    print_status(f"{file}: {format_plural(records, 'unit')}, {file.stat().st_size / 1e6:.1f} MB; open it in a browser")


def _draw_run_candidates(folder: Path) -> "list[PageFigure]":
    """Load the candidates of a run's compiled programs from the copies in its folder, where readable."""
    from rsso_dspy.cli.candidate_figure import draw_program_file
    from rsso_dspy.report.figures import render_figure_svg
    from rsso_dspy.report.page import PageFigure

    found = []
    for file in sorted((folder / "given" / "programs").glob("*.json")):
        try:
            figure, words = draw_program_file(file)
        except UsageError as error:
            print_status(f"not in the page: the candidates of {file} ({error})")
            continue
        found.append(PageFigure(file.stem, words, render_figure_svg(figure, f"candidates-{file.stem}", themed=True)))
    return found
