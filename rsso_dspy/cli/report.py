"""`rsso-dspy report`: the numbers of a finished or unfinished run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, say
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.money import PriceOf
    from rsso_dspy.protocol.store import Store


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the run.")],
    json_: Annotated[bool, typer.Option("--json", help="JSON data instead of tables.")] = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Print what each arm achieved, what it cost, and the paired differences."""
    import json

    from rsso_dspy.config import load, prices
    from rsso_dspy.protocol.store import Store
    from rsso_dspy.report.tables import report_json

    price_of = prices(load(config, set_ or ()).prices)
    store = Store(folder)
    store.read_only = True
    records, trainings = list(store.units()), list(store.trainings())
    begun, abandoned = store.begun(), store.abandoned()
    for file in store.set_aside:
        say(f"cannot be read, and is to be set aside by the next run: {file.with_suffix('')}")
    if not (records or trainings or begun or abandoned):
        raise UsageError(f"{folder} holds no finished unit yet; run it on with the command that made it")
    if json_:
        typer.echo(json.dumps(report_json(records, trainings, price_of, abandoned, begun), indent=1))
    else:
        print_report(store, price_of)


def print_report(store: "Store", price_of: "PriceOf") -> None:
    """The tables, on stdout; the bill alone while no unit is finished."""
    from rich.console import Console

    from rsso_dspy.report.tables import report_tables
    from rsso_dspy.report.terminal import width_needed

    tables = report_tables(list(store.units()), list(store.trainings()), price_of, store.abandoned(), store.begun())
    console = Console()
    Console(width=max(console.width, width_needed(console, tables))).print(tables)
