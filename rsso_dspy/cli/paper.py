"""`rsso-dspy paper`: the published tables, with their statistics recomputed."""

from typing import Annotated

import typer

from rsso_dspy.cli.prose import echo


def paper(json_: Annotated[bool, typer.Option("--json", help="JSON data instead of tables.")] = False) -> None:
    """Print the tables of the rSSO paper, and what follows from them.

    The figures are the paper's (Claude Sonnet 4.6). The statistics are recomputed from its Table 2.
    """
    import json
    from dataclasses import asdict

    from rsso_dspy.report.paper import published, recomputed
    from rsso_dspy.report.paper_tables import paper_tables
    from rsso_dspy.report.terminal import show

    if json_:
        echo(json.dumps({**published(), "recomputed": asdict(recomputed())}, indent=1))
        return
    show(paper_tables())
