"""Several run folders as one: those of an experiment that differ in seeds or arms."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import print_status

if TYPE_CHECKING:
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.run_folder import Store

Separate = Annotated[bool, typer.Option("--separate", help="Keep the arms of each folder apart, as ARM (DIR).")]


def print_left_out_files(store: "Store") -> None:
    """Print a line on stderr for every unreadable file."""
    for file in store.set_aside:
        print_status(f"{store.describe_quarantined(file)}: left out; the next run quarantines it")


def open_runs(folders: Sequence[Path], separate: bool = False) -> "PooledRuns":
    """Open the runs of these folders for reading. Raises what `Pool` raises."""
    from rsso_dspy.store.pooled_runs import PooledRuns
    from rsso_dspy.store.run_folder import Store

    return PooledRuns([Store(folder, read_only=True) for folder in dict.fromkeys(folders)], separate)
