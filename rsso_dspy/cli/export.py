"""`rsso-dspy export`: write one or several runs in a format that other tools read."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import format_plural, load_prices, print_status
from rsso_dspy.cli.report import Separate, open_runs
from rsso_dspy.cli.show import print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UnknownName, UsageError
from rsso_dspy.files import check_output_path

if TYPE_CHECKING:
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.report.frame import RowKind
    from rsso_dspy.report.inspect_log import ExportedRun
    from rsso_dspy.store.pooled_runs import PooledRuns

PARQUET, INSPECT = "parquet", "inspect"
ROWS: tuple["RowKind", ...] = ("trials", "steps")


def export_runs(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folder of the run; several if they differ in seeds or arms.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File or folder (default: beside the first DIR, named after it).")
    ] = None,
    format_: Annotated[
        str,
        typer.Option(
            "--format",
            help="parquet (for pandas, R, DuckDB) or inspect (a folder of .eval logs for Inspect).",
        ),
    ] = PARQUET,
    rows: Annotated[
        str | None,
        typer.Option(
            help="Parquet: one row per trial (trials), or per step with its texts (steps).", show_default="trials"
        ),
    ] = None,
    separate: Separate = False,
) -> None:
    """Write a run in a format that other tools read: Parquet, or logs of Inspect.

    Scores of errored trials and units are absent, never 0. Unfinished units are left out.
    """
    from rsso_dspy.report.frame import check_parquet_target, write_parquet
    from rsso_dspy.report.inspect_log import write_inspect_logs

    if format_ not in (PARQUET, INSPECT):
        raise UnknownName("format", format_, (PARQUET, INSPECT))
    if format_ == INSPECT and rows:
        raise UsageError(f"--rows chooses the rows of a Parquet file; leave it out with --format {format_}")
    pool = open_runs(folders, separate)
    price_of = load_prices(None, None, folders)
    if format_ == INSPECT:
        target = out or _name_target(folders[0], f"-{format_}")
        check_output_path(target, "-o")
        with _tell_left_out(pool):
            written = write_inspect_logs(target, _collect_run(pool, price_of))
        echo(f"{target}: {format_plural(range(written), 'file')}")
        return
    kind = next((each for each in ROWS if each == (rows or "trials")), None)
    if kind is None:
        raise UnknownName("kind of rows", rows or "", ROWS)
    target = out or _name_target(folders[0], f"-{kind}.parquet")
    check_parquet_target(target)
    with _tell_left_out(pool):
        written = write_parquet(target, kind, chain(pool.trainings(), pool.units()), price_of)
    echo(f"{target}: {format_plural(range(written), kind.removesuffix('s'))}")


@contextmanager
def _tell_left_out(pool: "PooledRuns") -> Iterator[None]:
    """Name, after the block, the files that it could not read and, if it succeeds, the unfinished work."""
    try:
        yield
    finally:
        for store in pool.stores:
            print_left_out_files(store)
    if left := sum(len(store.load_begun()) for store in pool.stores):
        print_status(f"{left} unfinished left out")


def _collect_run(pool: "PooledRuns", price_of: "PriceOf") -> "ExportedRun":
    """Collect what Inspect's logs say of a run."""
    from rsso_dspy.api import collect_played
    from rsso_dspy.environments.benchmark import DEFAULT
    from rsso_dspy.report.analysis import analyze
    from rsso_dspy.report.inspect_log import ExportedRun
    from rsso_dspy.store.run_folder import RUN_FILE

    played = collect_played(pool)
    first = pool.stores[0]
    identity, _ = first.read_identity()
    made = datetime.fromtimestamp((first.folder / RUN_FILE).stat().st_mtime, UTC).date().isoformat()
    day = played.dates[0] if played.dates else made
    benchmark = identity.get("config", {}).get("benchmark", DEFAULT)
    name = first.folder.resolve().name
    created = f"{day}T00:00:00+00:00"
    return ExportedRun(name, benchmark, played.records, analyze(played, price_of).rule_based_note, created)


def _name_target(folder: Path, ending: str) -> Path:
    """Return the default target, beside the folder."""
    whole = folder.resolve()
    return (whole if folder.name in ("", "..") else folder).with_name(f"{whole.name}{ending}")
