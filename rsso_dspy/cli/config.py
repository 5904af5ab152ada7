"""`rsso-dspy config`: show the active configuration, or write a template file."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.options import BackendName, BaseUrl, ConfigFile, ModelName, Overrides, build_config
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError
from rsso_dspy.files import check_output_path

app = typer.Typer(help="Show the active configuration, or write a file to start from.", no_args_is_help=True)


@app.command()
def show(
    config: ConfigFile = None,
    set_: Overrides = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
) -> None:
    """Print the active configuration as JSON, with every key and the selected backend.

    Also prints the hash of everything that results depend on, and the proxies that requests would go through.
    """
    import json

    from rsso_dspy.lm import list_backend_proxies

    settings = build_config(config, set_, backend, model=model, base_url=base_url)
    ways = {"proxies": through} if (through := list_backend_proxies(settings)) else {}
    echo(json.dumps({"hash": settings.hash(), **settings.shown(), **ways}, indent=1))


@app.command()
def init(path: Annotated[Path, typer.Argument(help="File to write.")] = Path("rsso.toml")) -> None:
    """Write a configuration file with every key, its default and its meaning."""
    from rsso_dspy.config import render_config_template
    from rsso_dspy.files import atomic_write_text

    if path.exists():
        raise UsageError(f"{path} already exists; name another file or move it away")
    check_output_path(path, "file")
    atomic_write_text(path, render_config_template())
    echo(f"wrote {path}; commands started in this folder read it, others with {shlex.join(['--config', str(path)])}")
