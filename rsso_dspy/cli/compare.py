"""`rsso-dspy compare`: two logs of Inspect, sample by sample."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rsso_dspy.cli.options import Json
from rsso_dspy.cli.terminal_text import echo, print_json, print_paragraph

if TYPE_CHECKING:
    from rsso_dspy.report.log_comparison import LogComparison, SampleScores


def compare_log_files(
    first: Annotated[Path, typer.Argument(metavar="A.eval", help="Log of Inspect (.eval or .json), from any source.")],
    second: Annotated[Path, typer.Argument(metavar="B.eval", help="The log to compare with it.")],
    scorer: Annotated[
        str | None, typer.Option(metavar="NAME", help="Scorer to compare (default: the first that both logs have).")
    ] = None,
    json_: Json = False,
) -> None:
    """Compare two logs of Inspect on the samples that both score: B - A with its interval and tests.

    Samples are paired by id, and epochs of a sample are averaged. Needs the extra `inspect`.
    """
    from dataclasses import asdict

    from rsso_dspy.report.log_comparison import compare_logs, read_log, select_scorer

    logs = read_log(first), read_log(second)
    found = compare_logs(*logs, select_scorer(*logs, scorer))
    if json_:
        print_json({"first": str(first), "second": str(second), **asdict(found)})
        return
    for letter, log, mean in zip("AB", logs, found.means, strict=True):
        echo(f"{letter}: {log.path}  ({log.task}, {log.model})  mean {mean:.4g}")
    for line in describe_comparison(found, *logs):
        print_paragraph(line)


def describe_comparison(found: "LogComparison", first: "SampleScores", second: "SampleScores") -> list[str]:
    """Describe the comparison in lines."""
    from rsso_dspy.report.statistical_tests import LEVEL, NO_INTERVAL

    interval = found.interval
    over = f"over {interval.clusters} {interval.over.replace('units', 'samples')}" if interval else ""
    span = f"{LEVEL:.0%} interval {interval.low:+.4g} to {interval.high:+.4g} {over}" if interval else ""
    lines = [
        f"B - A in {found.scorer}: {found.difference:+.4g} on {found.pairs} samples, {span or 'no interval'}",
        f"B scores higher on {found.sign.up}, lower on {found.sign.down}, equal on {found.sign.ties} "
        f"{'task types' if interval and interval.over == 'task types' else 'samples'}; "
        + ", ".join(_describe_p_values(found)),
    ]
    if interval is None:
        lines.append(f"No interval: {NO_INTERVAL}.")
    alone = [f"{found.only_first} only in A"] * bool(found.only_first)
    alone += [f"{found.only_second} only in B"] * bool(found.only_second)
    if alone:
        lines.append(f"Scored samples left out: {', '.join(alone)}.")
    if errored := first.errored + second.errored:
        lines.append(f"Samples that ended in an error: {errored}.")
    return lines


def _describe_p_values(found: "LogComparison") -> list[str]:
    tests = {"signed-rank": found.wilcoxon, "sign test": found.sign, "McNemar": found.mcnemar}
    return [f"{name} p = {test.p:.3g}" for name, test in tests.items() if test and test.p is not None] or ["no test"]
