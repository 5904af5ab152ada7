"""`rsso-dspy paper`: the published tables, with their statistics recomputed."""

from typing import Annotated

import typer

from rsso_dspy.cli.terminal_text import echo


def print_paper(json_: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False) -> None:
    """Print the tables of the rSSO paper and statistics derived from them.

    The figures are the paper's (Claude Sonnet 4.6). The statistics are recomputed from its Table 2.
    """
    import json
    from dataclasses import asdict

    from rsso_dspy.report.paper import load_published_tables, recompute_statistics
    from rsso_dspy.report.paper_tables import build_paper_tables
    from rsso_dspy.report.terminal import print_renderable

    if json_:
        echo(json.dumps({**load_published_tables(), "recomputed": asdict(recompute_statistics())}, indent=1))
        return
    print_renderable(build_paper_tables())
