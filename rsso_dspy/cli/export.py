"""`rsso-dspy export`: a run, or several, as a Parquet file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, print_status
from rsso_dspy.cli.run_folders import Separate, open_runs, print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rsso_dspy.records import TrainingRecord, UnitRecord


def export_runs(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folder of the run; several that differ in seeds or arms.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Parquet file; DIR-trials.parquet beside the first folder when absent."),
    ] = None,
    rows: Annotated[str, typer.Option(help="What a row is: trials, or steps with their texts.")] = "trials",
    separate: Separate = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Write every trial of a run, or every step, as a row of a Parquet file, for pandas, R or DuckDB.

    Scores of a trial that errored are null. What each column holds stands in the file itself, as metadata of its field.
    Units that are not finished are left out.
    """
    from itertools import chain
    from typing import get_args

    from rsso_dspy.config import load_config, make_price_lookup
    from rsso_dspy.report.parquet_export import RowKind, check_parquet_target, write_parquet

    chosen = next((each for each in get_args(RowKind) if each == rows), None)
    if chosen is None:
        raise UnknownName("kind of rows", rows, get_args(RowKind))
    pool = open_runs(folders, separate)
    first, whole = folders[0], folders[0].resolve()
    target = out or (whole if first.name in ("", "..") else first).with_name(f"{whole.name}-{rows}.parquet")
    check_parquet_target(target)
    price_of = make_price_lookup(load_config(config, set_ or ()).prices)
    records: Iterator[UnitRecord | TrainingRecord] = chain(pool.trainings(), pool.units())
    try:
        written = write_parquet(target, chosen, records, price_of)
    finally:
        for store in pool.stores:
            print_left_out_files(store)
    if left := sum(len(store.load_begun()) for store in pool.stores):
        print_status(f"{left} that are not finished are left out")
    echo(f"{target}: {written:,} {rows if written != 1 else rows.removesuffix('s')}")
