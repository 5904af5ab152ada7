"""`rsso-dspy view`: the runs of a folder in a browser, live from disk."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, load_prices, print_status
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError


def view_runs(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run, or of several runs.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Show runs in the browser, also while they play: history, filter, comparison, and every trial step by step.

    Prints an address with a token and serves it on this machine alone until Ctrl-C. It only reads the folder.
    """
    from rsso_dspy.cli.view_pages import RunPages
    from rsso_dspy.cli.view_server import open_server

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; name that of a run, or the one that holds your runs")
    pages = RunPages(folder, load_prices(config, set_, [*sorted(folder.iterdir()), folder]))
    with open_server(pages, port) as server:
        try:
            echo(server.url)
            print_status(
                f"serving {folder} on this machine alone; whoever has the address can read it. Ctrl-C ends it."
            )
            if open_browser:
                typer.launch(server.url)
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            print_status("ended")
