"""`rsso-dspy tasks`: what can be played."""

from typing import get_args

import typer


def tasks() -> None:
    """List the 18 task types with their splits and held-out variants."""
    from rich.console import Console
    from rich.table import Table

    from rsso_dspy.environments.scienceworld.golds import gold_length
    from rsso_dspy.environments.scienceworld.tasks import held_out, indices
    from rsso_dspy.environments.scienceworld.tasks import tasks as names
    from rsso_dspy.trajectory import Split

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("task", "train", "dev", "test", "held-out (the paper's sample)", "steps at most"):
        justify = "left" if column.startswith(("task", "held")) else "right"
        table.add_column(column, overflow="fold", no_wrap=column == "task", justify=justify)
    for task in names():
        variants = held_out(task, "sso")
        budgets = [int(1.5 * gold_length(variant)) for variant in variants]
        table.add_row(
            task,
            *(str(len(indices(task, split))) for split in get_args(Split)),
            " ".join(str(variant.index) for variant in variants),
            f"{min(budgets)}-{max(budgets)}",
        )
    Console().print(table)
    typer.echo("Steps at most: floor(1.5 x gold length) per trial, smallest and largest of the held-out variants.")
