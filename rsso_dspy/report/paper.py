"""The published tables, and what follows from them.

published().table2[0]               # boil: means of the four methods over its variants
recomputed()                        # the paper's statistics, from its Table 2
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from statistics import fmean
from typing import Any

from rsso_dspy.report.inference import Interval, Sign, Wilcoxon, clustered, sign_test, wilcoxon

METHODS = ("react", "reflexion", "sso", "rsso")

CEILING_TASK = "find-plant"
CEILING = 92
"""Highest accumulator that can be reached on it: 8 points are held at reset and are no reward."""


@dataclass(frozen=True, slots=True)
class Row:
    """A task type of Table 2."""

    task: str
    variants: int
    means: Mapping[str, float]
    """Method to Mean."""


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The statistics of rSSO against SSO, recomputed from Table 2."""

    wilcoxon: Wilcoxon
    sign: Sign
    interval: Interval
    """Of the mean difference over variants, clustered by task type: it takes the sums of task types and their sizes,
    which Table 2 gives."""
    micro: Mapping[str, float]
    """Method to the mean over variants."""
    macro: Mapping[str, float]
    """Method to the mean over task types."""


@cache
def published() -> dict[str, Any]:
    """The tables of rSSO as data (Tables 1 and 2, Figure 2; Claude Sonnet 4.6)."""
    text = resources.files(__package__).joinpath("data/paper.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def table2() -> tuple[Row, ...]:
    """Table 2: a row for each task type."""
    return tuple(
        Row(row["task"], row["n"], {method: row[method] for method in METHODS}) for row in published()["table2"]
    )


def recomputed(first: str = "sso", second: str = "rsso") -> Recomputed:
    """What Table 2 says about two of its methods."""
    rows = table2()
    differences = [round(row.means[second] - row.means[first], 6) for row in rows]
    by_task = {row.task: [row.means[second] - row.means[first]] * row.variants for row in rows}
    interval = clustered(by_task)
    assert interval is not None
    total = sum(row.variants for row in rows)
    return Recomputed(
        wilcoxon(differences),
        sign_test(differences),
        interval,
        {method: sum(row.means[method] * row.variants for row in rows) / total for method in METHODS},
        {method: fmean(row.means[method] for row in rows) for method in METHODS},
    )
