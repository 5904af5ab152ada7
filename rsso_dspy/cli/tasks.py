"""`rsso-dspy tasks`: list tasks and variants."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, get_args

from rsso_dspy.cli.options import BenchmarkName, ConfigFile, build_config
from rsso_dspy.cli.terminal_text import echo

if TYPE_CHECKING:
    from rsso_dspy.environments.benchmark import Benchmark


def print_tasks(benchmark: BenchmarkName = None, config: ConfigFile = None) -> None:
    """List the task types of the benchmark with their splits and held-out variants, and the benchmarks installed."""
    from rich.table import Table

    from rsso_dspy.environments.splits import FIRST
    from rsso_dspy.records import Split
    from rsso_dspy.report.terminal import SafeConsole

    of = build_config(config, None, None, benchmark=benchmark).active_benchmark
    selection = of.table.selections[0]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("task", "train", "dev", "test", "held-out", "steps"):
        text = column.startswith(("task", "held"))
        table.add_column(column, no_wrap=not column.startswith("held"), justify="left" if text else "right")
    for task in of.table.tasks():
        variants = of.table.held_out(task, selection)
        budgets = [of.limit_steps(int(1.5 * of.gold_length(variant))) for variant in variants]
        table.add_row(
            task,
            *(str(len(of.table.indices(task, split))) for split in get_args(Split)),
            " ".join(str(variant.index) for variant in variants),
            f"{min(budgets)}-{max(budgets)}",
        )
    SafeConsole().print(table)
    sample = "the first of the test split" if selection == FIRST else f"selection {selection}"
    steps = f"floor(1.5 x gold length) per trial, smallest to largest of these.{_describe_limits(of)}"
    echo(f"Held-out: {sample}. Steps: {steps}")
    echo("Installed benchmarks, for --benchmark:")
    for line in _describe_benchmarks():
        echo(line)


def _describe_benchmarks() -> Iterator[str]:
    """Yield a line for each installed benchmark: name and version, or why it cannot be loaded."""
    from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
    from rsso_dspy.errors import UsageError

    for name in list_benchmarks():
        try:
            yield f"{name} {get_benchmark(name).version}"
        except UsageError as error:
            yield f"{name}: {error}"


def _describe_limits(of: "Benchmark") -> str:
    """Say whether environments end an episode by themselves; empty if not."""
    return f" {of.name} ends a trial after {of.most_steps}." if of.most_steps else ""
