"""`rsso-dspy export`: write one or several runs to a Parquet file."""

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
        list[Path], typer.Argument(metavar="DIR...", help="Folder of the run; several if they differ in seeds or arms.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="Parquet file (default: DIR-trials.parquet beside the first folder)."),
    ] = None,
    rows: Annotated[
        str, typer.Option(help="One row per trial (trials), or per step with its texts (steps).")
    ] = "trials",
    separate: Separate = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Write every trial or step of a run as a row of a Parquet file, for pandas, R or DuckDB.

    Scores of errored trials are null. The file describes each column in the metadata of its field. Unfinished units
    are left out.
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
        print_status(f"{left} unfinished left out")
    echo(f"{target}: {written:,} {rows if written != 1 else rows.removesuffix('s')}")
