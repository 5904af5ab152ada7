"""Comparison of two logs of Inspect on the samples that both have, with the statistics of this package.

    first, second = read_log(Path("a.eval")), read_log(Path("b.eval"))
    compare_logs(first, second, "accuracy").interval

Logs are read by Inspect's own reader, whoever wrote them. Epochs of a sample are averaged, so that it counts once.
Samples of logs that this package wrote are clustered by task type, as in a report; others are drawn one by one.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from rsso_dspy.bounds import check_score
from rsso_dspy.errors import DamagedFile, UsageError, require_extra
from rsso_dspy.report.exported_run import POINTS
from rsso_dspy.report.statistical_tests import (
    BootstrapInterval,
    McNemarResult,
    SignTestResult,
    WilcoxonResult,
    bootstrap_mean,
    run_mcnemar_test,
    run_sign_test,
    run_wilcoxon_test,
)

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's grades as numbers, as its own `value_to_float` reads them."""
MOST_RANKED = 400
"""Number of differences up to which the exact signed-rank test is fast; more get the sign test alone."""


@dataclass(frozen=True, slots=True)
class SampleScores:
    """A log, reduced to its scores."""

    path: Path
    task: str
    model: str
    scores: Mapping[str, Mapping[str, list[float]]]
    """Scorer to sample id to the scores of its epochs."""
    tasks: Mapping[str, str]
    """Sample id to its task type, in logs of this package."""
    errored: int
    """Number of samples (of any epoch) that ended in an error."""


@dataclass(frozen=True, slots=True)
class LogComparison:
    """``second - first`` on the samples that both logs score."""

    scorer: str
    pairs: int
    only_first: int
    """Samples with a score in the first log alone."""
    only_second: int
    means: tuple[float, float]
    difference: float
    interval: BootstrapInterval | None
    wilcoxon: WilcoxonResult | None
    """Over the means of task types, or over samples; None for too many samples."""
    sign: SignTestResult
    mcnemar: McNemarResult | None
    """Where every score is 0 or 1."""


def read_log(path: Path) -> SampleScores:
    """Read a log. Raises `NotInstalled` without Inspect, and `UsageError` for a file that is no log."""
    require_extra("inspect_ai", "logs of Inspect are read by inspect_ai", "inspect")
    from inspect_ai.log import read_eval_log

    if not path.is_file():
        raise UsageError(f"{path} is not a file; name a log of Inspect, e.g. logs/run.eval")
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # of whatever kind: it is another package's reader
        said = str(error).partition("\n")[0][:200]
        raise DamagedFile(path, f"Inspect cannot read it as a log: {type(error).__name__}: {said}") from None
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    tasks: dict[str, str] = {}
    errored = 0
    for sample in log.samples or ():
        errored += sample.error is not None
        if "rsso-dspy" in log.eval.packages and "task" in (sample.metadata or {}):
            tasks[str(sample.id)] = str(sample.metadata["task"])
        for name, value in _iterate_scores(sample.scores or {}):
            found[name][str(sample.id)].append(value)
    return SampleScores(path, log.eval.task, log.eval.model, found, tasks, errored)


def _iterate_scores(scores: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the name and number of each score; those of a dictionary as ``scorer/key``. Others are no numbers: Inspect
    marks samples without a score by NaN."""
    for name, score in scores.items():
        values = score.value if isinstance(score.value, dict) else {"": score.value}
        for key, value in values.items():
            number = LETTERS.get(value) if isinstance(value, str) else value
            if isinstance(number, int) or (isinstance(number, float) and not math.isnan(number)):
                yield f"{name}/{key}" if key else name, number


def select_scorer(first: SampleScores, second: SampleScores, wanted: str | None = None) -> str:
    """Return the scorer to compare: `wanted`, or the first that both logs have. Raises `UsageError` without one."""
    shared = [name for name in first.scores if name in second.scores]
    if wanted in shared or (shared and wanted is None):
        return wanted or shared[0]
    has = "; ".join(f"{log.path} has {', '.join(log.scores) or 'no numeric scores'}" for log in (first, second))
    if shared:
        raise UsageError(f"the logs share no scorer {wanted!r} ({has}); use --scorer {shared[0]}")
    raise UsageError(f"the logs share no scorer ({has}); score one again with a scorer of the other (inspect score)")


def compare_logs(first: SampleScores, second: SampleScores, scorer: str) -> LogComparison:
    """Compare two logs by one scorer. Raises `UsageError` if no sample has a score in both, or if a score is
    infinite or above a million in size."""
    before, after = (
        {
            key: fmean(check_score(value, "score of sample", key, "in", log.path) for value in values)
            for key, values in log.scores[scorer].items()
        }
        for log in (first, second)
    )
    shared = sorted(before.keys() & after.keys())
    if not shared:
        ids = " and ".join(f"{each.path} has e.g. {next(iter(each.scores[scorer]))!r}" for each in (first, second))
        raise UsageError(f"the logs have no scored sample in common, by id ({ids}): compare logs of the same data set")
    by_task: dict[str, list[float]] = defaultdict(list)
    for key in shared:
        known = first.tasks.get(key) if first.tasks and second.tasks else None
        by_task[known or ""].append(round(after[key] - before[key], 9))
    differences = [round(after[key] - before[key], 9) for key in shared]
    tested = [round(fmean(values), 9) for values in by_task.values()] if len(by_task) > 1 else differences
    values = [each[key] for each in (before, after) for key in shared]
    binary = all(value in (0.0, 1.0) for value in values)
    own = first.tasks and second.tasks and scorer == POINTS
    # Shares differ by 1 at most, points by 100, other scores by nobody knows how much.
    most = 1.0 if min(values) >= 0 and max(values) <= 1 else 100.0 if own else math.inf
    return LogComparison(
        scorer,
        len(shared),
        len(before) - len(shared),
        len(after) - len(shared),
        (fmean(before[key] for key in shared), fmean(after[key] for key in shared)),
        fmean(differences),
        bootstrap_mean(by_task, most=most),
        run_wilcoxon_test(tested) if len(tested) <= MOST_RANKED else None,
        run_sign_test(tested),
        run_mcnemar_test(*([each[key] == 1 for key in shared] for each in (before, after))) if binary else None,
    )
