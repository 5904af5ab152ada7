"""The published tables, and what follows from them.

load_published_tables().table2[0]               # boil: means of the four methods over its variants
recompute_statistics()                        # the paper's statistics, from its Table 2
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any

from rsso_dspy.report.statistical_tests import (
    BootstrapInterval,
    SignTestResult,
    WilcoxonResult,
    bootstrap_mean,
    run_sign_test,
    run_wilcoxon_test,
)

METHODS = ("react", "reflexion", "sso", "rsso")

CEILING_TASK = "find-plant"
CEILING = 92
"""Highest accumulator that can be reached on it: 8 points are held at reset and are no reward."""


@dataclass(frozen=True, slots=True)
class Table2Row:
    """A task type of Table 2."""

    task: str
    variants: int
    means: Mapping[str, float]
    """Method to Mean."""


@dataclass(frozen=True, slots=True)
class RecomputedStatistics:
    """The statistics of rSSO against SSO, recomputed from Table 2."""

    wilcoxon: WilcoxonResult
    sign: SignTestResult
    interval: BootstrapInterval
    """Of the mean difference over variants, clustered by task type: it takes the sums of task types and their sizes,
    which Table 2 gives."""
    micro: Mapping[str, float]
    """Method to the mean over variants."""
    macro: Mapping[str, float]
    """Method to the mean over task types."""


@cache
def load_published_tables() -> dict[str, Any]:
    """The tables of rSSO as data (Tables 1 and 2, Figure 2; Claude Sonnet 4.6)."""
    text = resources.files(__package__).joinpath("data/paper.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def list_table2_rows() -> tuple[Table2Row, ...]:
    """Table 2: a row for each task type."""
    return tuple(
        Table2Row(row["task"], row["n"], {method: row[method] for method in METHODS})
        for row in load_published_tables()["table2"]
    )


def recompute_statistics(first: str = "sso", second: str = "rsso") -> RecomputedStatistics:
    """What Table 2 says about two of its methods."""
    rows = list_table2_rows()
    differences = [round(row.means[second] - row.means[first], 6) for row in rows]
    by_task = {row.task: [row.means[second] - row.means[first]] * row.variants for row in rows}
    interval = bootstrap_mean(by_task)
    assert interval is not None
    total = sum(row.variants for row in rows)
    return RecomputedStatistics(
        run_wilcoxon_test(differences),
        run_sign_test(differences),
        interval,
        {method: sum(row.means[method] * row.variants for row in rows) / total for method in METHODS},
        {method: fmean(row.means[method] for row in rows) for method in METHODS},
    )
