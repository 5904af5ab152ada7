"""What a comparison says, in one word with its reasons: tables, headline, page and exports take it from here.

    evidence = Evidence(pairs=56, interval=interval, flips=flips, p=0.012, tests=4)
    judge_difference(evidence, margin=10)               # Verdict("better", ...)

A winner needs both an exact test, corrected for all tests of the report, and an interval without 0: the interval alone
calls up to 12% of equal arms different where task types are few.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rsso_dspy.report.doses import Dose, is_untested
from rsso_dspy.report.intervals import Cluster, MeanInterval
from rsso_dspy.report.statistics import FlipTest
from rsso_dspy.sign_flips import SIGNIFICANT, count_needed_differences

Word = Literal["better", "worse", "no difference", "undecided", "not tested"]
Reading = Literal["compose", "redundant", "adversarial", "undecided", "not tested"]
"""compose: both memories together beat each alone. adversarial: together they are worse than each alone. redundant:
together they gain less than the sum of both, and are not worse than either alone by the margin. undecided: none of
these. not tested: a memory stood in the prompts of fewer than two units of an arm that has it."""

MARGIN = 10.0  # points from which a difference matters, unless the user says another number


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of one difference, ``second - first``."""

    pairs: int  # units that both arms finished
    interval: MeanInterval | None
    flips: FlipTest
    p: float | None  # of the flips, corrected for the tests of the report
    tests: int  # number of these
    unplayed: int = 0  # units of one of the arms that are not played, or that errored
    missing_shards: Sequence[str] = ()  # parts of the run that are not here, whose units are unknown
    doses: Sequence[Dose] = ()
    over: Cluster = "task types"  # the question: about other task types, or about other variants of these

    @property
    def is_significant(self) -> bool:
        return self.p is not None and self.p <= SIGNIFICANT

    @property
    def is_better(self) -> bool:
        return self.is_significant and self.interval is not None and self.interval.low > 0

    @property
    def is_worse(self) -> bool:
        return self.is_significant and self.interval is not None and self.interval.high < 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The word on ``second - first``: the second arm is better, is worse, or does not differ by the margin or more."""

    word: Word
    margin: float
    reasons: tuple[str, ...]
    is_hindered: bool = False  # whether nothing could be said, whatever the numbers are

    def __str__(self) -> str:
        return describe_equivalence(self.margin) if self.word == "no difference" else self.word

    @property
    def has_winner(self) -> bool:
        return self.word in ("better", "worse")


def describe_equivalence(margin: float) -> str:
    return f"no difference of {margin:g} points or more"


def judge_difference(evidence: Evidence, margin: float = MARGIN) -> Verdict:
    """Return the verdict. `margin` is in points."""
    if is_untested(evidence.doses):
        shown = ", ".join(f"{dose.memory} in {dose.units}" for dose in evidence.doses)
        return Verdict("not tested", margin, (f"units in whose prompts the memory stood: {shown}",))
    if hindrance := _find_hindrance(evidence):
        return Verdict("undecided", margin, (hindrance,), is_hindered=True)

    interval = evidence.interval
    assert interval is not None
    holds = f"the interval reaches from {interval.low:+.1f} to {interval.high:+.1f}"
    if evidence.is_better or evidence.is_worse:
        return Verdict("better" if evidence.is_better else "worse", margin, (holds, f"corrected p {evidence.p:.4f}"))
    if -margin < interval.low and interval.high < margin:
        return Verdict("no difference", margin, (holds,))
    return Verdict("undecided", margin, tuple(_list_doubts(evidence)))


def _find_hindrance(evidence: Evidence) -> str:
    """Return why nothing can be said, whatever the numbers are."""
    if not evidence.pairs:
        return "no unit is finished in both arms"
    if evidence.unplayed:
        units = "1 unit is" if evidence.unplayed == 1 else f"{evidence.unplayed:,} units are"
        return f"{units} not played, or ended in an error"
    if shards := evidence.missing_shards:
        return f"without shard{'s' * (len(shards) > 1)} {', '.join(shards)} of the run"
    if evidence.interval is None:
        return "a task type of one variant does not show how much others would differ"
    if evidence.interval.over != evidence.over:
        return "one task type says nothing of others"
    if evidence.flips.clusters < count_needed_differences(evidence.tests) and evidence.interval.is_hopeless:
        return f"too few {evidence.over}: {_find_few(evidence)}"
    return ""


def _list_doubts(evidence: Evidence) -> list[str]:
    assert evidence.interval is not None
    doubts = []
    if doubt := _find_few(evidence):
        doubts.append(doubt)
    elif not evidence.is_significant:
        doubts.append(f"corrected p {evidence.p:.2g}")
    if not evidence.interval.is_decided:
        doubts.append("the interval holds 0")
    return doubts


def _find_few(evidence: Evidence) -> str:
    """Return that too few clusters differ for any p of the report to be significant."""
    flips, needed = evidence.flips, count_needed_differences(evidence.tests)
    return (
        f"{flips.unlike} of {flips.clusters} {evidence.over} differ, and a test needs {needed}"
        if flips.unlike < needed
        else ""
    )


def read_factorial(interaction: Evidence, over_one: Evidence, over_other: Evidence, margin: float = MARGIN) -> Reading:
    """Read a 2x2 from its interaction and from what both memories together gain over each alone."""
    over = (over_one, over_other)
    if any(_find_hindrance(evidence) for evidence in (interaction, *over)):
        return "undecided"
    if all(evidence.is_better for evidence in over):
        return "compose"
    if all(evidence.is_worse for evidence in over):
        return "adversarial"
    is_harmless = all(evidence.interval is not None and evidence.interval.low > -margin for evidence in over)
    return "redundant" if interaction.is_worse and is_harmless else "undecided"
