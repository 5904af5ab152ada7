"""`rsso-dspy paper`: the published tables, with their statistics recomputed, and our runs beside them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rsso_dspy.cli.options import Json
from rsso_dspy.cli.report import open_runs
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.report.published import OwnArm
    from rsso_dspy.report.sheets import Sheet


def print_paper(
    name: Annotated[Literal["rsso", "omnireflect", "reflexion"], typer.Argument(metavar="[PAPER]")] = "rsso",
    beside: Annotated[
        list[Path] | None,
        typer.Option("--with", help="omnireflect, reflexion: add a run folder's rows; repeatable.", metavar="DIR"),
    ] = None,
    json_: Json = False,
) -> None:
    """Print the tables of a paper: rsso, omnireflect or reflexion.

    rsso: its tables (Claude Sonnet 4.6) and statistics recomputed from Table 2. omnireflect: Tables 1 to 5 and our runs
    beside them. reflexion: example figures of its memory, likewise.
    """
    from rsso_dspy.report import published

    if name == "rsso":
        if beside:
            raise UsageError("--with needs `rsso-dspy paper omnireflect` or `rsso-dspy paper reflexion`")
        if json_:
            recomputed = asdict(published.recompute_statistics())
            echo(json.dumps({**published.load_published_tables(), "recomputed": recomputed}, indent=1))
            return
        _print_sheets(published.build_rsso_tables())
        echo("\n".join(published.describe_rsso_statistics()))
        return
    tables, ours = published.load_published_tables(name), list(_measure_arms(beside or []))
    if json_:
        echo(json.dumps({**tables, "ours": [published.serialize_own_arm(name, arm) for arm in ours]}, indent=1))
        return
    if name == "omnireflect":
        _print_sheets(map(published.build_omnireflect_table, published.OMNIREFLECT_TABLES))
        _print_sheets(published.build_own_omnireflect_tables(ours))
        echo(published.describe_omnireflect_cost())
    else:
        _print_sheets(published.build_example_tables(tables))
        _print_sheets(published.build_own_reflexion_tables(ours))
    echo(f"{tables['source']}.")
    echo(
        f"The files in examples/{name}/ of the repository play them: rsso-dspy run --config FILE --out DIR, then "
        f"rsso-dspy paper {name} --with DIR"
    )


def _print_sheets(sheets: "Iterable[Sheet]") -> None:
    """Print the tables that have rows."""
    from rsso_dspy.report.sheets import to_rich_table
    from rsso_dspy.report.terminal import print_renderable

    for sheet in sheets:
        if sheet.rows:
            echo(sheet.title)
            print_renderable(to_rich_table(sheet))
            echo("\n".join((*sheet.notes, "")))


def _measure_arms(folders: "Sequence[Path]") -> "Iterator[OwnArm]":
    """Yield the measures of each arm of these runs, pooled as `report` does, benchmark by benchmark."""
    from rsso_dspy.environments.benchmark import named_in
    from rsso_dspy.report.metrics import group_by_arm
    from rsso_dspy.report.published import measure_own_arm
    from rsso_dspy.store.run_folder import read_run_file

    by_benchmark: dict[str, list[Path]] = {}
    for folder in folders:
        if not (folder / "run.json").exists():
            raise UsageError(f"{folder} is no folder of a run")
        benchmark = named_in(read_run_file(folder / "run.json")["identity"]) or ""
        by_benchmark.setdefault(benchmark, []).append(folder)
    for benchmark, same in by_benchmark.items():
        arms = group_by_arm(open_runs(same).units())
        if not arms:
            raise UsageError(f"{', '.join(map(str, same))}: no finished unit")
        yield from (measure_own_arm(benchmark, records) for records in arms.values())
