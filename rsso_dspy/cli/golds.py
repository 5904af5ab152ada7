"""`rsso-dspy golds`: verify the shipped table of gold lengths."""

from typing import Annotated

import typer

from rsso_dspy.bounds import MOST_SEED
from rsso_dspy.cli.options import BenchmarkName
from rsso_dspy.cli.terminal_text import echo
from rsso_dspy.errors import UsageError

app = typer.Typer(help="Verify the shipped gold lengths, which determine step budgets.", no_args_is_help=True)


@app.callback()
def _keep_subcommand() -> None:
    """Keep `verify` a separate command."""


@app.command()
def verify(
    sample: Annotated[int, typer.Option(min=1, help="Number of variants to recompute.")] = 10,
    seed: Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Which sample.")] = 0,
    benchmark: BenchmarkName = None,
) -> None:
    """Recompute a sample of gold lengths, each in a fresh simulator, and compare exactly."""
    from rsso_dspy.config import load_config
    from rsso_dspy.environments.benchmark import get_benchmark as benchmark_called

    name = benchmark or load_config().benchmark
    golds = benchmark_called(name).golds
    if golds is None:
        raise UsageError(f"{name} ships no gold lengths: there is nothing to verify")
    if sample > (there := len(golds.shipped_lengths())):
        raise UsageError(f"--sample {sample} is more than the {there} lengths of the table; use at most {there}")
    checks = []
    for check in golds.recompute_lengths(sample, seed):
        checks.append(check)
        found = "equal" if check.holds else f"DIFFERS: {check.shipped} in the table, {check.computed} now"
        echo(f"[{len(checks)}/{sample}] {check.variant.key}: {check.computed} actions, {found}", err=True)
    if not all(check.holds for check in checks):
        raise typer.Exit(1)
    echo(f"{len(checks)} gold lengths recomputed: all equal the table")
