"""What a comparison says, in one word with its reasons: tables, headline, page and exports take it from here.

    evidence = Evidence(pairs=56, interval=interval, flips=flips, p=0.012, tests=4)
    judge_difference(evidence, margin=10)               # Verdict("better", ...)

A winner needs both an exact test, corrected for all tests of the report, and an interval without 0: the interval alone
calls up to 12% of equal arms different where task types are few.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from rsso_dspy.power import MARGIN
from rsso_dspy.report.doses import Dose, is_untested
from rsso_dspy.report.intervals import MOST_POINTS, Cluster, MeanInterval
from rsso_dspy.report.sequential import Course
from rsso_dspy.report.statistics import FlipTest
from rsso_dspy.sign_flips import SIGNIFICANT, count_needed_differences

Word = Literal["better", "worse", "no difference", "no gain", "undecided", "not tested"]
"""no difference, no gain: of the margin or more. The latter is said of rounds alone."""

Reading = Literal["compose", "redundant", "adversarial", "undecided", "not tested"]
"""compose: both memories together beat each alone. adversarial: together they are worse than each alone. redundant:
together they gain less than the sum of both, and are not worse than either alone by the margin. undecided: none of
these. not tested: a memory stood in the prompts of fewer than two units of an arm that has it."""


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
        if self.word in ("no difference", "no gain"):
            return f"{self.word} of {self.margin:g} points or more"
        return self.word

    @property
    def has_winner(self) -> bool:
        return self.word in ("better", "worse")


def judge_difference(evidence: Evidence, margin: float = MARGIN) -> Verdict:
    """Return the verdict. `margin` is in points."""
    if is_untested(evidence.doses):
        doses = ", ".join(f"{dose.memory} in {dose.units}" for dose in evidence.doses)
        return Verdict("not tested", margin, (f"units in whose prompts the memory stood: {doses}",))
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


@dataclass(frozen=True, slots=True)
class RoundEvidence:
    """What is known of an announced pair of arms, ``second - first``, after some of its rounds."""

    course: Course | None  # None before the first complete round
    doses: Sequence[Dose] = ()
    task_types: int = 0
    pairs: int = 1  # that the announcement decides
    calls_left: int | None = None  # model calls that the rounds left take, at the rate so far


def judge_rounds(evidence: RoundEvidence, margin: float = MARGIN) -> Verdict:
    """Return the verdict on an announced pair: what was decided first stays, whatever later rounds bring, but that a
    memory without a gain may turn out to be worse, or to make no difference."""
    course = evidence.course
    if course is None:
        return Verdict("undecided", margin, ("no round is complete",), is_hindered=True)
    if is_untested(evidence.doses):
        doses = ", ".join(f"{dose.memory} in {dose.units}" for dose in evidence.doses)
        return Verdict("not tested", margin, (f"units in whose prompts the memory stood: {doses}",))

    ruled_out = course.find_ruled_out(margin)
    is_first = not ruled_out or course.crossed <= ruled_out
    if course.direction == "worse" or (course.direction == "better" and is_first):
        decided = f"decided after round {course.crossed} of {course.announced}"
        flips_alone = ("by sign flips alone: the interval, of other tests, holds 0",) if course.holds_zero else ()
        return Verdict(course.direction, margin, (decided, *flips_alone))
    if ruled_out:
        word: Word = "no difference" if course.rules_out_loss(margin) else "no gain"
        return Verdict(word, margin, (f"decided after round {ruled_out} of {course.announced}",))
    return Verdict("undecided", margin, tuple(_list_open_questions(evidence, course, margin)), is_hindered=True)


def _list_open_questions(evidence: RoundEvidence, course: Course, margin: float) -> Iterator[str]:
    """Yield what is ruled out so far, and what it takes to know more."""
    open_gain = f"a gain of {margin:g} is not ruled out"
    if margin < course.high < MOST_POINTS:
        open_gain = f"a gain of {course.high:g} is ruled out, one of {margin:g} is not"
    yield f"after {course.rounds} of {course.announced} rounds {open_gain}"
    if not course.holds_zero:
        yield "the interval leaves out 0, but sign flips do not rule out equal arms"
    if evidence.task_types < count_needed_differences(evidence.pairs):
        yield f"{evidence.task_types} task types are too few to call a memory better"
    if rounds_left := course.announced - course.rounds:
        calls = "" if evidence.calls_left is None else f", about {evidence.calls_left:,} model calls"
        yield f"at most {rounds_left} round{'s' * (rounds_left > 1)} more{calls}"


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
    flips = evidence.flips
    needed = count_needed_differences(evidence.tests)
    if flips.unlike >= needed:
        return ""
    few = f"{flips.unlike} of {flips.clusters} {evidence.over} differ, and a test needs {needed}"
    if evidence.over == "task types" and flips.clusters < needed:
        few += " (--over variants asks about other variants of these)"
    return few


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
