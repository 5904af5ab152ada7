"""`rsso-dspy merge`: join the shards of a run."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, format_plural, load_prices, print_status
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.files import check_output_path


def merge_runs(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders of the shards, played with --shard.")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the whole run; it may already hold some shards.")],
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Merge the units of several folders of one run into one folder, and print the report."""
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.store.pooled_runs import merge_shards
    from rsso_dspy.store.run_folder import Store

    check_output_path(out)
    store = Store(out)
    merged = merge_shards(folders, store, print_status)
    print_report(store, load_prices(config, set_, [*folders, out]))
    echo(f"\nrun: {out}, {format_plural(range(merged), 'record')} of {format_plural(folders, 'folder')}")
