"""`rsso-dspy report`: the numbers of a finished or unfinished run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import ConfigFile
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.money import PriceOf
    from rsso_dspy.report.bills import Abandoned
    from rsso_dspy.trajectory import TrainingRecord, UnitRecord


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the run.")],
    json_: Annotated[bool, typer.Option("--json", help="JSON data instead of tables.")] = False,
    config: ConfigFile = None,
) -> None:
    """Print what each arm achieved, what it cost, and the paired differences."""
    import json

    from rsso_dspy.config import load, prices
    from rsso_dspy.protocol.store import Store
    from rsso_dspy.report.tables import report_json

    price_of = prices(load(config).prices)
    store = Store(folder)
    records, trainings = list(store.units()), list(store.trainings())
    for file in store.set_aside:
        typer.echo(f"cannot be read, set aside as {file}", err=True)
    if not records:
        raise UsageError(f"{folder} holds no finished unit yet; run it on with the command that made it")
    if json_:
        typer.echo(json.dumps(report_json(records, trainings, price_of, store.abandoned()), indent=1))
    else:
        print_report(records, trainings, price_of, store.abandoned())


def print_report(
    records: "Sequence[UnitRecord]",
    trainings: "Sequence[TrainingRecord]",
    price_of: "PriceOf",
    abandoned: "Sequence[Abandoned]",
) -> None:
    """The tables, on stdout."""
    from rich.console import Console

    from rsso_dspy.report.tables import report_tables
    from rsso_dspy.report.terminal import width_needed

    console, tables = Console(), report_tables(records, trainings, price_of, abandoned)
    Console(width=max(console.width, width_needed(console, tables))).print(tables)
