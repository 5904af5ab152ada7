"""`rsso-dspy report`: the numbers of a finished or unfinished run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.trajectory import TrainingRecord, UnitRecord


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the run.")],
    json_: Annotated[bool, typer.Option("--json", help="JSON data instead of tables.")] = False,
) -> None:
    """Print what each arm achieved, what it cost, and the paired differences."""
    import json

    from rsso_dspy.protocol.store import Store
    from rsso_dspy.report.tables import report_json

    store = Store(folder)
    records, trainings = list(store.units()), list(store.trainings())
    for file in store.set_aside:
        typer.echo(f"damaged, set aside as {file}", err=True)
    if not records:
        raise UsageError(f"{folder} holds no finished unit yet; run it on with the command that made it")
    if json_:
        typer.echo(json.dumps(report_json(records, trainings), indent=1))
    else:
        print_report(records, trainings)


def print_report(records: "Sequence[UnitRecord]", trainings: "Sequence[TrainingRecord]" = ()) -> None:
    """The tables, on stdout."""
    from rich.console import Console

    from rsso_dspy.report.tables import report_tables, width_needed

    console, tables = Console(), report_tables(records, trainings)
    Console(width=max(console.width, width_needed(console, tables))).print(tables)
