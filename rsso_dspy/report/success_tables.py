"""Tables of Reflexion's own measures, each within 80 columns for a few arms."""

from collections.abc import Sequence

from rsso_dspy.report import cells
from rsso_dspy.report.cells import Cell
from rsso_dspy.report.success import FAILURES, Success
from rsso_dspy.report.table_data import Sheet


def build_success_table(found: Sequence[Success]) -> Sheet:
    """Solved so far, additional and accuracy of every trial; arms that played several."""
    rows = []
    for arm in (each for each in found if len(each.trials) > 1):
        for place, trial in enumerate(arm.trials):
            rows.append(
                (
                    cells.format_text("" if place else arm.arm),
                    cells.format_count(trial.trial),
                    cells.format_count(trial.solved),
                    cells.format_count(trial.additional),
                    cells.format_count(arm.units - trial.solved),
                    cells.format_percent(trial.accuracy),
                )
            )
    return Sheet(
        "success",
        "Success, trial by trial",
        ("arm", "trial", "solved", "additional", "fail", "accuracy"),
        tuple(rows),
        ("solved: variants solved in this trial or before; additional: for the first time in it. When no more are "
         "added, the memory teaches nothing more. Reflexion's own measures.",),
    )  # fmt: skip


def build_success_by_task_table(found: Sequence[Success]) -> Sheet:
    """Variants solved, per task type; nothing for a single type."""
    tasks = sorted({task for arm in found for task in arm.by_task})
    rows = []
    for task in tasks if len(tasks) > 1 else ():
        shares = (cells.format_share(*arm.by_task[task]) if task in arm.by_task else Cell("") for arm in found)
        rows.append((cells.format_text(task, task=task), *shares))
    columns = ("task", *(arm.arm for arm in found))
    return Sheet("solved_by_task", "Variants solved, by task type", columns, tuple(rows))


def build_failures_table(found: Sequence[Success]) -> Sheet:
    """Why trials were not solved."""
    rows = []
    for arm in found:
        if total := sum(arm.failures.values()):
            counts = (cells.format_count(arm.failures[why]) for why in FAILURES)
            rows.append((cells.format_text(arm.arm), cells.format_count(total), *counts))
    return Sheet(
        "failures",
        "Trials that were not solved, and why",
        ("arm", "trials", *FAILURES),
        tuple(rows),
        ("Each trial counts once. wrong answer: its last action ended it at a loss. loops: it ended as repeated or "
         "exhausted, or with ten actions of at most three kinds. not found: its steps were used up and nothing was "
         "earned. out of steps: used up after something was.",),
    )  # fmt: skip
