"""`rsso-dspy reflections`: put the reflections of a run into a vector index."""

from pathlib import Path
from typing import Annotated

import typer

from rsso_dspy.cli.options import ConfigFile, Overrides, print_status

app = typer.Typer(help="Reflections of finished runs, for retrieval by later ones.", no_args_is_help=True)


@app.callback()
def reflections() -> None:
    """Reflections of finished runs, for retrieval by later ones."""


@app.command("index")
def index_run(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Index file; an existing one is added to.")],
    config: ConfigFile = None,
    set_: Overrides = None,
) -> None:
    """Add the reflections of a run to a vector index, for `memory.reflections.index` of other runs.

    A run that reads the index is never shown what was written on the variant it plays.
    """
    from rsso_dspy.cli.options import build_config
    from rsso_dspy.embedders import Embedder
    from rsso_dspy.experiment.reflection_index import index_reflections

    embedder = Embedder(build_config(config, set_, None).embedder)
    embedder.check()
    added = index_reflections(run, out, embedder)
    print_status(f"{out}: {added} new reflections of {run}, by the embedder {embedder.model}")
