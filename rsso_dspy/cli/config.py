"""`rsso-dspy config`: what is in force, and a file to start from."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.atomic import check_output_path
from rsso_dspy.cli.options import BackendName, BaseUrl, ConfigFile, ModelName, Overrides, build_config
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError

app = typer.Typer(help="Show the configuration in force, or write a file to start from.", no_args_is_help=True)


@app.command()
def show(
    config: ConfigFile = None,
    set_: Overrides = None,
    model: ModelName = None,
    base_url: BaseUrl = None,
    backend: BackendName = None,
) -> None:
    """Print the configuration in force as JSON, every key of it: of the backends the one in use. With it, the hash over
    what results depend on, and the proxies of the environment that requests would go through."""
    import json

    from rsso_dspy.lm import list_backend_proxies

    settings = build_config(config, set_, backend, model=model, base_url=base_url)
    ways = {"proxies": through} if (through := list_backend_proxies(settings)) else {}
    echo(json.dumps({"hash": settings.hash(), **settings.shown(), **ways}, indent=1))


@app.command()
def init(
    path: Annotated[Path, typer.Argument(help="File to write.")] = Path("rsso.toml"),
) -> None:
    """Write a configuration file with every default and what each key means."""
    from rsso_dspy.atomic import atomic_write_text
    from rsso_dspy.config import render_config_template

    if path.exists():
        raise UsageError(f"{path} exists; name another file or move it away")
    check_output_path(path, "file")
    atomic_write_text(path, render_config_template())
    echo(f"wrote {path}; it is read from this folder, or with {shlex.join(['--config', str(path)])}")
