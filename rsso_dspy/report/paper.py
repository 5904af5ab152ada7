"""The paper's tables, and statistics recomputed from them.

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

from rsso_dspy.errors import UnknownName
from rsso_dspy.report.statistical_tests import (
    BootstrapInterval,
    SignTestResult,
    WilcoxonResult,
    bootstrap_mean,
    run_sign_test,
    run_wilcoxon_test,
)

METHODS = ("react", "reflexion", "sso", "rsso")

PAPERS = ("rsso", "omnireflect", "reflexion")
"""Papers whose tables are here, each a file in ``data``."""


@dataclass(frozen=True, slots=True)
class Table2Row:
    """One task type of Table 2."""

    task: str
    variants: int
    means: Mapping[str, float]
    """Method to its Mean."""


@dataclass(frozen=True, slots=True)
class RecomputedStatistics:
    """The statistics of rSSO against SSO, recomputed from Table 2."""

    wilcoxon: WilcoxonResult
    sign: SignTestResult
    interval: BootstrapInterval
    """Interval of the mean difference over variants, clustered by task type. It needs only the sums and sizes of task
    types, which Table 2 gives."""
    micro: Mapping[str, float]
    """Method to the mean over variants."""
    macro: Mapping[str, float]
    """Method to the mean over task types."""


@cache
def load_published_tables(paper: str = "rsso") -> dict[str, Any]:
    """Load the tables of a paper: rsso (Tables 1 and 2, Figure 2; Claude Sonnet 4.6), omnireflect (success rates in
    percent), or reflexion (`tables` with `title`, `columns` and `rows` of texts). Raises `UnknownName`."""
    if paper not in PAPERS:
        raise UnknownName("paper", paper, PAPERS)
    text = resources.files(__package__).joinpath(f"data/{paper}.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def list_table2_rows() -> tuple[Table2Row, ...]:
    """Return the rows of Table 2, one per task type."""
    return tuple(
        Table2Row(row["task"], row["n"], {method: row[method] for method in METHODS})
        for row in load_published_tables()["table2"]
    )


def recompute_statistics() -> RecomputedStatistics:
    """Recompute the statistics of rSSO against SSO from Table 2."""
    rows = list_table2_rows()
    by_task = {row.task: [row.means["rsso"] - row.means["sso"]] * row.variants for row in rows}
    differences = [round(values[0], 6) for values in by_task.values()]
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
