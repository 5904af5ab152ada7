"""Arms against each other, as sheets, with what may be said of them in words."""

from collections.abc import Sequence

from rsso_dspy.report.analysis import Finding
from rsso_dspy.report.comparison import Square
from rsso_dspy.report.inference import FEW, LEVEL, NO_INTERVAL, POWER, Interval
from rsso_dspy.report.sheets import NOTHING, Cell, Sheet, Tone, named, points, probability, signed, tally, whole

INTERVAL = (f"{LEVEL:.0%} from", "to")

READINGS = {
    "compose": "compose: both together do better than either alone",
    "redundant": "redundant: together they bring less than the sum of both, and were not seen to beat each alone",
    "adversarial": "adversarial: both together do worse than either alone",
    "undecided": "undecided at this n",
}


def differences(findings: Sequence[Finding]) -> Sheet:
    """Paired differences with their intervals."""
    rows, fewer = [], []
    for each in findings:
        pair = each.comparison
        pairs = whole(pair.pairs) if not pair.excluded else Cell(f"{pair.pairs} (-{pair.excluded})", pair.pairs)
        detectable = pair.interval.detectable if pair.interval else None
        rows.append(
            (
                named(_name(each)),
                pairs,
                signed(pair.difference, tone=_tone(each)),
                *_interval(pair.interval),
                points(detectable, 1),
                tally(pair.higher, pair.lower),
                named(each.question.asks),
            )
        )
        if pair.pairs and pair.trials < max(pair.may_play):
            fewer.append(f"{_name(each)}: best of the first {pair.trials}, as many as both may play.")
    intervals = [each.comparison.interval for each in findings if each.comparison.interval]
    notes = [
        f"Intervals ({LEVEL:.0%}) are bootstrapped over task types, whose variants are alike; they are not corrected "
        "for being several, Holm's p is. detects: the smallest difference that such a run would find in "
        f"{POWER:.0%} of cases."
    ]
    if any(each.comparison.pairs and each.comparison.interval is None for each in findings):
        notes.append(f"{NOTHING}: {NO_INTERVAL}.")
    if any(each.comparison.excluded for each in findings):
        notes.append("(-n): pairs left out because a unit errored or is missing in one of the two.")
    if any(interval.over == "task types" and interval.clusters < FEW for interval in intervals):
        notes.append(f"Fewer than {FEW} task types: such intervals are rough.")
    if any(interval.over == "units" for interval in intervals):
        notes.append("One task type: the interval is over its variants and says nothing about other tasks.")
    columns = ("second - first", "pairs", "points", *INTERVAL, "detects", "units +/-", "asks")
    return Sheet("differences", "Paired differences", columns, tuple(rows), (*notes, *fewer))


def tests(findings: Sequence[Finding]) -> Sheet:
    """The tests over task types, and of who solves more."""
    rows = []
    for each in findings:
        pair = each.comparison
        rank, sign, solve = pair.wilcoxon, pair.sign, pair.mcnemar
        rows.append(
            (
                named(_name(each)),
                Cell(f"{rank.statistic:g}" if rank.used else NOTHING, rank.statistic if rank.used else None),
                probability(rank.p),
                probability(each.holm),
                Cell(NOTHING) if rank.effect is None else signed(rank.effect),
                tally(sign.up, sign.down, sign.ties),
                probability(sign.p),
                tally(solve.gained, solve.lost),
                probability(solve.p),
            )
        )
    tested = sum(each.holm is not None for each in findings)
    columns = ("second - first", "W", "p", "Holm", "effect", "tasks +/-/=", "sign p", "solved +/-", "McNemar p")
    notes = (
        "W, p: Wilcoxon signed-rank over the means of task types, two-sided, zeros dropped, exact. Holm: p "
        f"corrected for {tested or 'no'} test{'s' if tested != 1 else ''}. effect: rank-biserial correlation. "
        "sign p: exact sign test. McNemar p: exact, over variants solved by one of the two alone.",
    )
    return Sheet("tests", "Tests", columns, tuple(rows), notes)


def strata(findings: Sequence[Finding]) -> Sheet:
    """Gains by what became of the unit in the first arm."""
    rows = []
    for each in findings:
        cells = [cell for gain in each.gains for cell in (whole(gain.units), signed(gain.difference))]
        rows.append((named(_name(each)), *cells))
    names = [gain.stratum for gain in findings[0].gains] if findings else []
    columns = ("second - first", *(column for name in names for column in (f"n {name}", f"{name}")))
    notes = (
        "Strata are read off the first arm: solved at trial 1, never better than at trial 1 (plateau), better later "
        "(other). Beside them the paper's plateau: below 100 in every trial, by the environment's score; these units "
        "are among plateau and other. Units with bad luck gain under any second arm, equal retries among them: look at "
        "the row over equal retries before the gain is laid to a memory.",
    )
    return Sheet("strata", "Gains by stratum", columns, tuple(rows), notes)


def square_table(square: Square, program: str, number: int = 1) -> Sheet:
    """Skills x reflections: do they compose?"""
    neither, reflections, skills, both = square.corners
    rows: list[tuple[Cell, ...]] = [
        (named(name), points(mean), Cell(""), Cell("")) for name, mean in zip(square.corners, square.means, strict=True)
    ]
    _, one, other, together = square.means
    for name, difference, interval in (
        (
            f"interaction: {both} - {skills} - {reflections} + {neither}",
            square.difference,
            square.interaction,
        ),
        (f"{both} - {reflections}", together - one, square.over_one),
        (f"{both} - {skills}", together - other, square.over_other),
    ):
        rows.append((named(name), signed(difference), *_interval(interval)))
    rows.append((named(READINGS[square.reading], "total"), *[Cell("")] * 3))
    title = "Skills x reflections" if number == 1 else f"Skills x reflections, {program}"
    columns = (f"over {square.pairs} units", "points", *INTERVAL)
    alone = None in (square.interaction, square.over_one, square.over_other)
    notes = (f"{NOTHING}: {NO_INTERVAL}.",) if alone else ()
    return Sheet("square" if number == 1 else f"square-{number}", title, columns, tuple(rows), notes)


def _name(finding: Finding) -> str:
    return f"{finding.comparison.second} - {finding.comparison.first}"


def _tone(finding: Finding) -> Tone:
    """Good or bad where the interval leaves out 0 and the corrected test agrees, and neither where they do not."""
    interval, p = finding.comparison.interval, finding.holm
    if interval is None or interval.low <= 0 <= interval.high or p is None or p > 1 - LEVEL:
        return ""
    return "good" if interval.low > 0 else "bad"


def _interval(interval: Interval | None) -> tuple[Cell, Cell]:
    if interval is None:
        return Cell(NOTHING), Cell(NOTHING)
    return signed(interval.low, 1), signed(interval.high, 1)
