"""`rsso-dspy export`: a run, or several, as a Parquet file."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.folders import Separate, opened, say_left_out
from rsso_dspy.cli.options import ConfigFile, Overrides, say
from rsso_dspy.cli.prose import echo
from rsso_dspy.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rsso_dspy.trajectory import TrainingRecord, UnitRecord


def export(
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

    from rsso_dspy.config import load, prices
    from rsso_dspy.report.export import Rows, check_target, write_parquet

    chosen = next((each for each in get_args(Rows) if each == rows), None)
    if chosen is None:
        raise UnknownName("kind of rows", rows, get_args(Rows))
    pool = opened(folders, separate)
    first, whole = folders[0], folders[0].resolve()
    target = out or (whole if first.name in ("", "..") else first).with_name(f"{whole.name}-{rows}.parquet")
    check_target(target)
    price_of = prices(load(config, set_ or ()).prices)
    records: Iterator[UnitRecord | TrainingRecord] = chain(pool.trainings(), pool.units())
    try:
        written = write_parquet(target, chosen, records, price_of)
    finally:
        for store in pool.stores:
            say_left_out(store)
    if left := sum(len(store.begun()) for store in pool.stores):
        say(f"{left} that are not finished are left out")
    echo(f"{target}: {written:,} {rows if written != 1 else rows.removesuffix('s')}")
