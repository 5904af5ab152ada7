"""`rsso-dspy paper`: the published tables, with their statistics recomputed, and our runs beside them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rsso_dspy.cli.options import Json, complete_words
from rsso_dspy.cli.report import open_runs
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.records import UnitRecord
    from rsso_dspy.report.omnireflect import OwnRow
    from rsso_dspy.report.table_data import Sheet

EXAMPLES = {
    "omnireflect": ("table1*.toml", "table2/*.toml", "table3.toml", "table4/*.toml", "table5/*.toml"),
    "reflexion": ("*.toml",),
}
"""Paper to the files of `examples/` that play its tables, in their order."""


def print_paper(
    name: Annotated[
        str,
        typer.Argument(
            help="rsso, omnireflect or reflexion.",
            metavar="[PAPER]",
            autocompletion=complete_words("rsso", "omnireflect", "reflexion"),
        ),
    ] = "rsso",
    table: Annotated[int | None, typer.Option(min=1, max=5, help="omnireflect: only this table.")] = None,
    beside: Annotated[
        list[Path] | None,
        typer.Option("--with", help="omnireflect, reflexion: add a run folder's rows; repeatable.", metavar="DIR"),
    ] = None,
    json_: Json = False,
) -> None:
    """Print the tables of a paper.

    rsso: its tables (Claude Sonnet 4.6) and statistics recomputed from Table 2. omnireflect: Tables 1 to 5, our runs
    beside them, and the example files that play them. reflexion: example figures of its memory, likewise.
    """
    if name == "omnireflect":
        _print_omnireflect(table, beside or [], json_)
    elif table:
        raise UsageError("--table needs `rsso-dspy paper omnireflect`")
    elif name != "rsso":
        _print_examples(name, beside or [], json_)
    elif beside:
        raise UsageError("--with needs `rsso-dspy paper omnireflect` or `rsso-dspy paper reflexion`")
    else:
        _print_rsso(json_)


def _print_examples(name: str, folders: list[Path], json_: bool) -> None:
    from rsso_dspy.environments.benchmark import named_in
    from rsso_dspy.report.paper import load_published_tables
    from rsso_dspy.report.paper_tables import build_example_tables
    from rsso_dspy.report.reflexion import build_own_tables, measure_own_row
    from rsso_dspy.report.terminal import print_renderable

    published = load_published_tables(name)
    ours = [measure_own_row(named_in(records[0].provenance) or "", records) for records in _read_arms(folders)]
    if json_:
        echo(json.dumps({**published, "ours": [asdict(row) for row in ours]}, indent=1))
        return
    print_renderable(build_example_tables(published))
    _print_sheets(build_own_tables(ours))
    echo(_describe_examples(name, EXAMPLES[name][0]))


def _print_sheets(sheets: "Iterable[Sheet]") -> None:
    """Print the tables that have rows."""
    from rsso_dspy.report.table_data import to_rich_table
    from rsso_dspy.report.terminal import print_renderable

    for sheet in sheets:
        if sheet.rows:
            echo(sheet.title)
            print_renderable(to_rich_table(sheet))
            echo("\n".join((*sheet.notes, "")))


def _print_rsso(json_: bool) -> None:
    from rsso_dspy.report.paper import load_published_tables, recompute_statistics
    from rsso_dspy.report.paper_tables import build_paper_tables
    from rsso_dspy.report.terminal import print_renderable

    if json_:
        echo(json.dumps({**load_published_tables(), "recomputed": asdict(recompute_statistics())}, indent=1))
        return
    print_renderable(build_paper_tables())


def _print_omnireflect(table: int | None, folders: list[Path], json_: bool) -> None:
    from rsso_dspy.report import omnireflect
    from rsso_dspy.report.paper import load_published_tables
    from rsso_dspy.report.table_data import to_rich_table
    from rsso_dspy.report.terminal import print_renderable

    published = load_published_tables("omnireflect")
    ours = [_make_row(records) for records in _read_arms(folders)]
    if json_:
        echo(json.dumps({**published, "ours": [_serialize_row(row) for row in ours]}, indent=1))
        return
    for number in omnireflect.TABLES if table is None else (table,):
        sheet = omnireflect.build_published_tables(number)
        echo(sheet.title)
        print_renderable(to_rich_table(sheet))
        echo(f"  {_describe_examples('omnireflect', EXAMPLES['omnireflect'][number - 1])}\n")
    _print_sheets((omnireflect.build_own_table(ours), omnireflect.build_rules_table(ours)))
    echo(omnireflect.describe_published_cost())
    echo(published["source"] + ".")


def _describe_examples(name: str, files: str) -> str:
    return (
        f"examples/{name}/{files} of the repository: rsso-dspy run --config FILE --out DIR plays one, with --dry-run "
        f"says what it takes; then rsso-dspy report DIR ..., rsso-dspy paper {name} --with DIR"
    )


def _read_arms(folders: "Sequence[Path]") -> "Iterator[list[UnitRecord]]":
    """Yield the units of each arm of these runs, pooled as `report` does, benchmark by benchmark."""
    from rsso_dspy.environments.benchmark import named_in
    from rsso_dspy.report.metrics import group_by_arm
    from rsso_dspy.store.run_folder import read_run_file

    by_benchmark: dict[str | None, list[Path]] = {}
    for folder in folders:
        if not (folder / "run.json").exists():
            raise UsageError(f"{folder} is no folder of a run")
        by_benchmark.setdefault(named_in(read_run_file(folder / "run.json")["identity"]), []).append(folder)
    for same in by_benchmark.values():
        arms = group_by_arm(open_runs(same).units())
        if not arms:
            raise UsageError(f"{', '.join(map(str, same))}: no finished unit")
        yield from arms.values()


def _make_row(records: "Sequence[UnitRecord]") -> "OwnRow":
    from rsso_dspy.environments.benchmark import named_in
    from rsso_dspy.report.task_measures import measure_tasks

    first = records[0]
    return named_in(first.provenance) or "", first.protocol, first.model, first.arm, measure_tasks(records)


def _serialize_row(row: "OwnRow") -> dict[str, Any]:
    benchmark, protocol, model, arm, measures = row
    return {"benchmark": benchmark, "protocol": protocol, "model": model, "arm": arm, **asdict(measures)}
