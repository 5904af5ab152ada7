"""Tables of comparisons between arms, with notes."""

from collections.abc import Sequence

from rsso_dspy.report.analysis import ContrastResult
from rsso_dspy.report.comparison import Factorial2x2
from rsso_dspy.report.statistical_tests import FEW, LEVEL, NO_INTERVAL, POWER, BootstrapInterval
from rsso_dspy.report.table_data import (
    NOTHING,
    Cell,
    Sheet,
    Tone,
    make_count_cell,
    make_difference_cell,
    make_p_value_cell,
    make_points_cell,
    make_sign_counts_cell,
    make_text_cell,
)

INTERVAL = (f"{LEVEL:.0%} from", "to")

READINGS = {
    "compose": "compose: both together do better than either alone",
    "redundant": "redundant: together they bring less than the sum of both, and were not seen to beat each alone",
    "adversarial": "adversarial: both together do worse than either alone",
    "undecided": "undecided at this n",
}


def build_differences_table(findings: Sequence[ContrastResult]) -> Sheet:
    """Build the table of paired differences with intervals."""
    rows, fewer = [], []
    for each in findings:
        pair = each.comparison
        pairs = (
            make_count_cell(pair.pairs) if not pair.excluded else Cell(f"{pair.pairs} (-{pair.excluded})", pair.pairs)
        )
        detectable = pair.interval.detectable_difference if pair.interval else None
        rows.append(
            (
                make_text_cell(_format_contrast(each)),
                pairs,
                make_difference_cell(pair.difference, tone=_choose_tone(each)),
                *_make_interval_cells(pair.interval),
                make_points_cell(detectable, 1),
                make_sign_counts_cell(pair.higher, pair.lower),
                make_text_cell(each.question.asks),
            )
        )
        if pair.pairs and pair.trials < max(pair.may_play):
            fewer.append(f"{_format_contrast(each)}: best of the first {pair.trials}, as many as both may play.")
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


def build_tests_table(findings: Sequence[ContrastResult]) -> Sheet:
    """Build the table of tests over task types and of solved units."""
    rows = []
    for each in findings:
        pair = each.comparison
        rank, sign, solve = pair.wilcoxon, pair.sign, pair.mcnemar
        rows.append(
            (
                make_text_cell(_format_contrast(each)),
                Cell(f"{rank.statistic:g}" if rank.used else NOTHING, rank.statistic if rank.used else None),
                make_p_value_cell(rank.p),
                make_p_value_cell(each.holm),
                Cell(NOTHING) if rank.effect is None else make_difference_cell(rank.effect),
                make_sign_counts_cell(sign.up, sign.down, sign.ties),
                make_p_value_cell(sign.p),
                make_sign_counts_cell(solve.gained, solve.lost),
                make_p_value_cell(solve.p),
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


def build_strata_table(findings: Sequence[ContrastResult]) -> Sheet:
    """Build the table of gains by stratum of the first arm."""
    rows = []
    for each in findings:
        cells = [
            cell for gain in each.gains for cell in (make_count_cell(gain.units), make_difference_cell(gain.difference))
        ]
        rows.append((make_text_cell(_format_contrast(each)), *cells))
    names = [gain.stratum for gain in findings[0].gains] if findings else []
    columns = ("second - first", *(column for name in names for column in (f"n {name}", f"{name}")))
    notes = (
        "Strata are read off the first arm: solved at trial 1, never better than at trial 1 (plateau), better later "
        "(other). Beside them the paper's plateau: below 100 in every trial, by the environment's score; these units "
        "are among plateau and other. Units with bad luck gain under any second arm, equal retries among them: look at "
        "the row over equal retries before the gain is laid to a memory.",
    )
    return Sheet("strata", "Gains by stratum", columns, tuple(rows), notes)


def build_factorial_table(square: Factorial2x2, program: str, number: int = 1) -> Sheet:
    """Build the tables of skills x reflections."""
    neither, reflections, skills, both = square.corners
    rows: list[tuple[Cell, ...]] = [
        (make_text_cell(name), make_points_cell(mean), Cell(""), Cell(""))
        for name, mean in zip(square.corners, square.means, strict=True)
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
        rows.append((make_text_cell(name), make_difference_cell(difference), *_make_interval_cells(interval)))
    rows.append((make_text_cell(READINGS[square.reading], "total"), *[Cell("")] * 3))
    title = "Skills x reflections" if number == 1 else f"Skills x reflections, {program}"
    columns = (f"over {square.pairs} units", "points", *INTERVAL)
    alone = None in (square.interaction, square.over_one, square.over_other)
    notes = (f"{NOTHING}: {NO_INTERVAL}.",) if alone else ()
    return Sheet("square" if number == 1 else f"square-{number}", title, columns, tuple(rows), notes)


def _format_contrast(finding: ContrastResult) -> str:
    return f"{finding.comparison.second} - {finding.comparison.first}"


def _choose_tone(finding: ContrastResult) -> Tone:
    """Return good or bad if the interval excludes 0 and the corrected test agrees, otherwise neither."""
    interval, p = finding.comparison.interval, finding.holm
    if interval is None or interval.low <= 0 <= interval.high or p is None or p > 1 - LEVEL:
        return ""
    return "good" if interval.low > 0 else "bad"


def _make_interval_cells(interval: BootstrapInterval | None) -> tuple[Cell, Cell]:
    if interval is None:
        return Cell(NOTHING), Cell(NOTHING)
    return make_difference_cell(interval.low, 1), make_difference_cell(interval.high, 1)
