"""`rsso-dspy memory`: show what the memories of a run's units keep, with the trials that wrote it."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.option_groups import complete_units
from rsso_dspy.cli.options import Json
from rsso_dspy.cli.run_folders import print_left_out_files
from rsso_dspy.cli.terminal_text import echo, print_json, print_paragraph
from rsso_dspy.errors import UsageError

app = typer.Typer(help="Memories of a run that keep entries: show them with their lineage.", no_args_is_help=True)


@app.command()
def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the run.")],
    unit: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK::VARIANT]",
            help="Variant (default: the last one of every arm).",
            autocompletion=complete_units,
        ),
    ] = None,
    arm: Annotated[str | None, typer.Option(help="Arm (default: all whose memories keep entries).")] = None,
    json_: Json = False,
) -> None:
    """Print what memories hold after a unit: text, counts, the trials that wrote it and the steps that read it.

    Skills and constitutions have verbs of their own: `skills show`, `constitution show`.
    """
    from rsso_dspy.report.page_records import trace_entries
    from rsso_dspy.store.run_folder import Store

    store = Store(run, read_only=True)
    last = {}
    for record in sorted(store.units(), key=lambda each: each.stream.place if each.stream else 0):
        wanted = unit in (None, record.key) and arm in (None, record.arm)
        if wanted and any(isinstance(each, dict) and "entries" in each for each in record.memories.values()):
            last[record.arm] = record
    print_left_out_files(store)
    if not last:
        raise UsageError(f"no unit of {run} that fits has a memory of entries; `rsso-dspy report {run}` names its arms")
    if json_:
        found = (
            (name, record.key, [asdict(entry) for entry in trace_entries(record)]) for name, record in last.items()
        )
        print_json([{"arm": name, "unit": unit, "entries": entries} for name, unit, entries in found])
        return
    for name, record in last.items():
        entries = trace_entries(record)
        echo(
            f"{name}  {record.key}  seed {record.seed}: {len(entries)} {'entry' if len(entries) == 1 else 'entries'}",
            bold=True,
        )
        for entry in entries:
            counts = "".join(f", {key} {value}" for key, value in entry.data.items() if not isinstance(value, str))
            written = " ".join(f"{variant}#{trial}" for variant, trial in entry.learned)
            print_paragraph(f"{entry.id} from {written}{counts}; read at {_format_reads(entry.reads)}", "  ")
            for key, value in entry.data.items():
                if isinstance(value, str):
                    print_paragraph(f"{key}: {value}", "    ")
            for line in entry.text.splitlines():
                print_paragraph(line, "    ")


def _format_reads(reads: tuple[tuple[int, int, int], ...]) -> str:
    return ", ".join(f"trial {trial} steps {first}-{last}" for trial, first, last in reads) or "no step"
