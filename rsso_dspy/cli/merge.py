"""`rsso-dspy merge`: parts of a run become one."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, count, say
from rsso_dspy.cli.prose import echo
from rsso_dspy.whole import check_place


def merge(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of the parts, played with --shard.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder of the whole run; it may hold some of it already.")],
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Put the units of several folders of one run into one folder, and print the report."""
    from rsso_dspy.cli.report import print_report
    from rsso_dspy.config import load, prices
    from rsso_dspy.protocol.merge import merge as put_together
    from rsso_dspy.protocol.store import Store

    check_place(out)
    store = Store(out)
    merged = put_together(folders, store, say)
    print_report(store, prices(load(config, set_ or ()).prices))
    echo(f"\nrun: {out}, {count(range(merged), 'record')} of {count(folders, 'folder')}")
