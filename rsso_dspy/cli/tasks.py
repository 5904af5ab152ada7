"""`rsso-dspy tasks`: what can be played."""

from typing import get_args

from rsso_dspy.cli.prose import echo


def tasks() -> None:
    """List the 18 task types with their splits and held-out variants."""
    from rich.table import Table

    from rsso_dspy.environments.scienceworld.golds import gold_length
    from rsso_dspy.environments.scienceworld.tasks import held_out, indices
    from rsso_dspy.environments.scienceworld.tasks import tasks as names
    from rsso_dspy.report.terminal import SafeConsole
    from rsso_dspy.trajectory import Split

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("task", "train", "dev", "test", "held-out", "steps"):
        text = column.startswith(("task", "held"))
        table.add_column(column, no_wrap=not column.startswith("held"), justify="left" if text else "right")
    for task in names():
        variants = held_out(task, "sso")
        budgets = [int(1.5 * gold_length(variant)) for variant in variants]
        table.add_row(
            task,
            *(str(len(indices(task, split))) for split in get_args(Split)),
            " ".join(str(variant.index) for variant in variants),
            f"{min(budgets)}-{max(budgets)}",
        )
    SafeConsole().print(table)
    echo("Held-out: the paper's sample. Steps: floor(1.5 x gold length) per trial, smallest to largest of these.")
