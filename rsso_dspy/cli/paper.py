"""`rsso-dspy paper`: the published tables, with their statistics recomputed, and our runs beside them."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import Json, complete_words
from rsso_dspy.cli.report import open_runs
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.records import UnitRecord
    from rsso_dspy.report.published import OwnArm
    from rsso_dspy.report.sheets import Sheet

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
    from rsso_dspy.report import published

    found = published.load_published_tables(name)
    ours = _measure_arms(_read_arms(folders))
    if json_:
        echo(json.dumps({**found, "ours": [published.serialize_own_arm(name, row) for row in ours]}, indent=1))
        return
    _print_sheets(published.build_example_tables(found))
    echo(f"{found['source']}.")
    _print_sheets(published.build_own_reflexion_tables(ours))
    echo(_describe_examples(name, EXAMPLES[name][0]))


def _print_sheets(sheets: "Iterable[Sheet]") -> None:
    """Print the tables that have rows."""
    from rsso_dspy.report.sheets import to_rich_table
    from rsso_dspy.report.terminal import print_renderable

    for sheet in sheets:
        if sheet.rows:
            echo(sheet.title)
            print_renderable(to_rich_table(sheet))
            echo("\n".join((*sheet.notes, "")))


def _print_rsso(json_: bool) -> None:
    from rsso_dspy.report import published

    if json_:
        recomputed = asdict(published.recompute_statistics())
        echo(json.dumps({**published.load_published_tables(), "recomputed": recomputed}, indent=1))
        return
    _print_sheets(published.build_rsso_tables())
    echo("\n".join(published.describe_rsso_statistics()))


def _print_omnireflect(table: int | None, folders: list[Path], json_: bool) -> None:
    from rsso_dspy.report import published

    found = published.load_published_tables("omnireflect")
    ours = _measure_arms(_read_arms(folders))
    if json_:
        echo(json.dumps({**found, "ours": [published.serialize_own_arm("omnireflect", row) for row in ours]}, indent=1))
        return
    for number in published.OMNIREFLECT_TABLES if table is None else (table,):
        _print_sheets([published.build_omnireflect_table(number)])
        echo(f"  {_describe_examples('omnireflect', EXAMPLES['omnireflect'][number - 1])}\n")
    _print_sheets(published.build_own_omnireflect_tables(ours))
    echo(published.describe_omnireflect_cost())
    echo(found["source"] + ".")


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


def _measure_arms(arms: "Iterable[list[UnitRecord]]") -> "list[OwnArm]":
    from rsso_dspy.environments.benchmark import named_in
    from rsso_dspy.report.published import measure_own_arm

    return [measure_own_arm(named_in(records[0].provenance) or "", records) for records in arms]
