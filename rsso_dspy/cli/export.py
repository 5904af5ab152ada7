"""`rsso-dspy export`: write one or several runs in a format that other tools read."""

from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rsso_dspy.cli.options import format_plural, load_prices, print_status
from rsso_dspy.cli.report import open_runs
from rsso_dspy.cli.show import print_left_out_files
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.files import check_output_path

if TYPE_CHECKING:
    from rsso_dspy.pricing import PriceOf
    from rsso_dspy.report.inspect_log import ExportedRun
    from rsso_dspy.store.pooled_runs import PooledRuns


def export_runs(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folder of the run; several if they differ in seeds or arms.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="File or folder (default: beside the first DIR, named after it).")
    ] = None,
    format_: Annotated[
        Literal["trials", "steps", "inspect"],
        typer.Option(
            "--format",
            help="trials, steps: Parquet for pandas, R or DuckDB, one row per trial, or per step with its texts; "
            "inspect: a folder of .eval logs for Inspect.",
        ),
    ] = "trials",
) -> None:
    """Write a run in a format that other tools read: Parquet, or logs of Inspect.

    Scores of errored trials and units are absent, never 0. Unfinished units are left out.
    """
    from rsso_dspy.report.frame import check_parquet_target, write_parquet
    from rsso_dspy.report.inspect_log import write_inspect_logs

    pool, price_of = open_runs(folders), load_prices(None, None, folders)
    whole = folders[0].resolve()
    beside = whole if folders[0].name in ("", "..") else folders[0]
    target = out or beside.with_name(f"{whole.name}-{format_}{'' if format_ == 'inspect' else '.parquet'}")
    try:
        if format_ == "inspect":
            check_output_path(target, "-o")
            written = format_plural(range(write_inspect_logs(target, _collect_run(pool, price_of))), "file")
        else:
            check_parquet_target(target)
            rows = write_parquet(target, format_, chain(pool.trainings(), pool.units()), price_of)
            written = format_plural(range(rows), format_.removesuffix("s"))
    finally:
        for store in pool.stores:
            print_left_out_files(store)
    if left := sum(len(store.load_begun()) for store in pool.stores):
        print_status(f"{left} unfinished left out")
    echo(f"{target}: {written}")


def _collect_run(pool: "PooledRuns", price_of: "PriceOf") -> "ExportedRun":
    """Collect what Inspect's logs say of a run."""
    from rsso_dspy.api import collect_played
    from rsso_dspy.environments.benchmark import DEFAULT
    from rsso_dspy.report.analysis import analyze
    from rsso_dspy.report.inspect_log import ExportedRun
    from rsso_dspy.store.run_folder import RUN_FILE

    played, first = collect_played(pool), pool.stores[0]
    identity, _ = first.read_identity()
    made = datetime.fromtimestamp((first.folder / RUN_FILE).stat().st_mtime, UTC).date().isoformat()
    benchmark = identity.get("config", {}).get("benchmark", DEFAULT)
    created = f"{played.dates[0] if played.dates else made}T00:00:00+00:00"
    note = analyze(played, price_of).rule_based_note
    return ExportedRun(first.folder.resolve().name, benchmark, played.records, note, created)
