"""`rsso-dspy report`: the numbers of a finished or unfinished run, on the terminal, as files and as one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.exchanges import recorded
from rsso_dspy.cli.folders import Separate, opened, say_left_out
from rsso_dspy.cli.options import ConfigFile, Overrides, count, say
from rsso_dspy.cli.prose import echo
from rsso_dspy.errors import NotInstalled, UsageError
from rsso_dspy.whole import check_place

if TYPE_CHECKING:
    from rsso_dspy.money import PriceOf
    from rsso_dspy.protocol.pooling import Pool
    from rsso_dspy.protocol.store import Store
    from rsso_dspy.recordings import Exchange
    from rsso_dspy.report.analysis import Analysis, Played
    from rsso_dspy.report.figures import Picture
    from rsso_dspy.report.page import Drawing
    from rsso_dspy.trajectory import TrainingRecord, UnitRecord

FORMATS = (".svg", ".png")
"""What every figure is written as."""


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Folder of the run; several that differ in seeds or arms are one report."
        ),
    ],
    json_: Annotated[bool, typer.Option("--json", help="JSON data instead of tables.")] = False,
    against: Annotated[str | None, typer.Option(help="Compare every other arm with this one.", metavar="ARM")] = None,
    every: Annotated[
        bool, typer.Option("--all-pairs", help="Compare every two arms; p values are corrected for all of them.")
    ] = False,
    with_paper: Annotated[
        bool, typer.Option("--with-paper", help="Show the published figures beside, marked as another model's.")
    ] = False,
    html: Annotated[
        Path | None,
        typer.Option(help="Write one page with everything, every trial too, to open in a browser.", metavar="FILE"),
    ] = None,
    table_folder: Annotated[
        Path | None,
        typer.Option("--tables", help="Write every table there as Markdown, LaTeX and CSV.", metavar="FOLDER"),
    ] = None,
    figure_folder: Annotated[
        Path | None, typer.Option("--figures", help="Write every figure there as SVG and PNG.", metavar="FOLDER")
    ] = None,
    separate: Separate = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Print what each arm achieved, what it cost, and the paired differences with their tests."""
    import json

    from rsso_dspy.config import load, prices
    from rsso_dspy.report.analysis import analyse, as_json
    from rsso_dspy.report.files import table_files
    from rsso_dspy.report.page import check_replaceable

    if against is not None and every:
        raise UsageError("--against and --all-pairs ask for different comparisons; leave one out")
    price_of = prices(load(config, set_ or ()).prices)
    if html:
        check_replaceable(html)
    for folder, option in ((table_folder, "--tables"), (figure_folder, "--figures")):
        if folder:
            check_place(folder, option)
    pool = opened(folders, separate)
    found = of(pool)
    for store in pool.stores:
        say_left_out(store)
    if not (found.records or found.trainings or found.begun or found.abandoned or found.under_way):
        raise UsageError(f"{folders[0]} holds no finished unit yet; run it on with the command that made it")
    analysis = analyse(found, price_of, against, every)
    pictures = pictures_of(found, analysis, price_of, with_paper) if figure_folder else []
    files = table_files(analysis, with_paper) if table_folder else {}
    check_places(figure_folder, pictures, table_folder, files)
    if figure_folder:
        write_figures(pictures, figure_folder)
    if table_folder:
        write_tables(files, table_folder)
    if html:
        write_html(pool.stores, found, analysis, price_of, with_paper, html)
    if json_:
        echo(json.dumps(as_json(analysis), indent=1))
    elif not (table_folder or figure_folder or html):
        show(analysis, with_paper=with_paper)


def of(pool: "Pool") -> "Played":
    """What the folders of a run tell. Raises `RunMismatch` for units of one arm that are not of one kind."""
    from rsso_dspy.protocol.runlog import days, planned
    from rsso_dspy.protocol.watching import models_of
    from rsso_dspy.report.analysis import Played

    playing = {store: store.playing() for store in pool.stores}
    cut_short = [each for store in pool.stores if not playing[store] for each in pool.under_way(store)]
    records = list(pool.units())
    there = {f"{record.arm}/{record.key}/s{record.seed}" for record in records}
    wanted = {pool.key(store, unit) for store in pool.stores for unit in planned(store)}
    dates = sorted(day for store in pool.stores for day in days(store))
    return Played(
        records,
        list(pool.trainings()),
        list(pool.begun()),
        [*pool.abandoned(), *cut_short],
        tuple(dict.fromkeys([*dates[:1], *dates[-1:]])),
        len(wanted - there),
        [each for store in pool.stores if playing[store] for each in pool.under_way(store)],
        models_of(pool.stores[0].about()[0]),
    )


def print_report(store: "Store", price_of: "PriceOf") -> None:
    """The main tables, on stdout; the bill alone while no unit is finished."""
    from rsso_dspy.protocol.pooling import Pool
    from rsso_dspy.report.analysis import analyse

    show(analyse(of(Pool([store])), price_of), whole=False)


def show(analysis: "Analysis", whole: bool = True, with_paper: bool = False) -> None:
    """The tables on stdout, all of them or those that stand at the end of a run."""
    from rsso_dspy.report import terminal
    from rsso_dspy.report.view import view

    terminal.show(view(analysis, whole, with_paper))


def check_places(
    figures: Path | None, pictures: "list[Picture]", tables: Path | None, files: "Mapping[Path, str]"
) -> None:
    """Raise `UsageError` when a figure or table cannot be written into its folder, or would take the place of what is
    something else: before any of them is written."""
    from rsso_dspy.report.figures import PICTURE
    from rsso_dspy.report.files import table_kind

    for name in (f"{picture.name}{ending}" for picture in pictures for ending in FORMATS):
        if figures:
            check_place(figures / name, "--figures", PICTURE)
    for file, text in files.items():
        if tables:
            check_place(tables / file, "--tables", table_kind(text))


def write_tables(files: "Mapping[Path, str]", folder: Path) -> None:
    """Every table as files, by name."""
    from rsso_dspy.whole import write_whole

    for name, text in files.items():
        write_whole(folder / name, text)
    say(f"{count(files, 'file')} in {folder}")


def pictures_of(
    found: "Played", analysis: "Analysis", price_of: "PriceOf", with_paper: bool = False
) -> "list[Picture]":
    """Every figure that the run can fill. Raises `UsageError` when matplotlib is not installed."""
    from rsso_dspy.report.figures import pictures
    from rsso_dspy.report.metrics import by_arm

    comparisons = [finding.comparison for finding in analysis.findings]
    return pictures(by_arm(found.records), price_of, analysis.pair, with_paper, comparisons)


def write_figures(drawn: "list[Picture]", folder: Path) -> None:
    """Every figure as files."""
    from rsso_dspy.report.figures import save

    for picture in drawn:
        for ending in FORMATS:
            save(picture.figure, folder / f"{picture.name}{ending}")
    say(f"{count(drawn, 'figure')} in {folder}, each as SVG and PNG")


def write_html(
    stores: "Sequence[Store]", found: "Played", analysis: "Analysis", price_of: "PriceOf", with_paper: bool, file: Path
) -> None:
    """The page."""
    from rsso_dspy.environments.benchmark import benchmark
    from rsso_dspy.report.contents import contents, facts_of
    from rsso_dspy.report.figures import svg
    from rsso_dspy.report.files import about
    from rsso_dspy.report.page import Drawing, write_page

    drawn, candidates = {}, []
    try:
        for picture in pictures_of(found, analysis, price_of, with_paper):
            drawn[picture.name] = Drawing(picture.title, picture.alt, svg(picture.figure, picture.name, themed=True))
        candidates = [drawing for store in stores for drawing in _candidates(store.folder)]
    except NotInstalled as error:
        say(f"the page has no pictures: {error}")
    sections = contents(analysis, drawn, candidates, with_paper)
    records: list[UnitRecord | TrainingRecord] = [*found.records, *found.trainings]
    name = ", ".join(store.folder.resolve().name for store in stores)
    templates = benchmark().action_templates

    def exchanges(record: "UnitRecord | TrainingRecord") -> "Mapping[int, Sequence[Exchange]]":
        return next(filter(None, (recorded(store, record) for store in stores)), {})

    write_page(file, name, sections, records, about(analysis), facts_of(analysis), templates, exchanges)
    say(f"{file}: {count(records, 'unit')}, {file.stat().st_size / 1e6:.1f} MB; open it in a browser")


def _candidates(folder: Path) -> "list[Drawing]":
    """What the compiled programs of a run were chosen from, where their files were kept and can be read."""
    from rsso_dspy.cli.candidates import candidates_of
    from rsso_dspy.report.figures import svg
    from rsso_dspy.report.page import Drawing

    found = []
    for file in sorted((folder / "given" / "programs").glob("*.json")):
        try:
            figure, words = candidates_of(file)
        except UsageError as error:
            say(f"not in the page: the candidates of {file} ({error})")
            continue
        found.append(Drawing(file.stem, words, svg(figure, f"candidates-{file.stem}", themed=True)))
    return found
