"""Tables of comparisons between arms, with their notes."""

from collections.abc import Iterator, Sequence

from rsso_dspy.report import cells
from rsso_dspy.report.analysis import Analysis, ContrastResult
from rsso_dspy.report.cells import NOTHING, Cell, Tone
from rsso_dspy.report.comparison import Factorial2x2
from rsso_dspy.report.statistical_tests import FEW, LEVEL, MOST_POINTS, NO_INTERVAL, POWER, BootstrapInterval
from rsso_dspy.report.table_data import Sheet

INTERVAL = (f"{LEVEL:.0%} from", "to")

DETECTABLE = "min. detectable difference"

READINGS = {
    "compose": "compose: both together score higher than each alone",
    "redundant": "redundant: together they gain less than the sum of both, and are not shown to beat each alone",
    "adversarial": "adversarial: both together score lower than each alone",
    "undecided": "no result: too few {clusters} to tell",
}


def build_differences_table(found: Analysis) -> Sheet:
    """Build the table of paired differences with intervals: the main ones, then those by the trials of a compile."""
    rows, fewer = [], []
    findings = [*found.findings, *found.as_compiled]
    for each in findings:
        pair = each.comparison
        pairs = (
            cells.format_count(pair.pairs)
            if not pair.excluded
            else Cell(f"{pair.pairs} (-{pair.excluded})", pair.pairs)
        )
        rows.append(
            (
                cells.format_text(_format_contrast(each)),
                pairs,
                cells.format_difference(pair.difference, tone=_choose_tone(each)),
                *cells.format_interval(pair.interval),
                _make_detectable_cell(pair.interval),
                cells.format_sign_counts(pair.higher, pair.lower),
                cells.format_text(each.question.asks),
            )
        )
        if pair.pairs and each in found.findings and pair.trials < max(pair.may_play):
            fewer.append(
                f"{_format_contrast(each)}: scores are the best of the first {pair.trials}, as many trials as both may "
                "play."
            )
    intervals = [each.comparison.interval for each in findings if each.comparison.interval]
    notes = [
        f"Intervals ({LEVEL:.0%}) are bootstrapped over task types, because variants of one type are alike. They are "
        f"not corrected for the number of comparisons; Holm's p is. {DETECTABLE}: the smallest difference that a run "
        f"of this size would find in {POWER:.0%} of cases."
    ]
    if any(each.comparison.pairs and each.comparison.interval is None for each in findings):
        notes.append(f"{NOTHING}: {NO_INTERVAL}.")
    for each in findings:
        interval = each.comparison.interval
        if interval and interval.is_hopeless:
            notes.append(
                f"{_format_contrast(each)}: no result, {interval.clusters_in_words} are too few. A run of this size "
                "may miss even the largest possible difference."
            )
    notes += [f"{_format_contrast(each)}: both are the same program." for each in found.findings if each.same_program]
    if any(each.comparison.excluded for each in findings):
        notes.append("(-n): number of pairs left out because a unit errored or is missing in one of the two arms.")
    if any(interval.over == "task types" and interval.clusters < FEW for interval in intervals):
        notes.append(f"Intervals over fewer than {FEW} task types are rough.")
    if any(interval.over == "units" for interval in intervals):
        notes.append("With one task type, the interval is over its variants and says nothing about other tasks.")
    notes += _describe_compile_trials(found)
    columns = ("second - first", "pairs", "points", *INTERVAL, DETECTABLE, "units +/-", "asks")
    return Sheet("differences", "Paired differences", columns, tuple(rows), (*notes, *fewer))


def _describe_compile_trials(found: Analysis) -> Iterator[str]:
    """Say which comparison is the main one, and which programs were scored by more trials than they play here."""
    if found.as_compiled:
        trials = max(each.comparison.trials for each in found.findings)
        yield (
            f"The main comparison is the best of {trials} trials, the protocol's. Rows that end in \"as the compile "
            "scored\" are the same units by the trials that their compile scored candidates by; Holm's p leaves them "
            "out."
        )
    for arm, trials in found.compile_trials.items():
        if trials > found.plays.get(arm, trials):
            yield (
                f"{arm} was compiled by the best of {trials} trials, and its units may play {found.plays[arm]}: "
                "nothing is compared as the compile scored."
            )


def build_tests_table(findings: Sequence[ContrastResult]) -> Sheet:
    """Build the table of tests over task types and of solved units."""
    rows = []
    for each in findings:
        pair = each.comparison
        rank, sign, solve = pair.wilcoxon, pair.sign, pair.mcnemar
        rows.append(
            (
                cells.format_text(_format_contrast(each)),
                Cell(f"{rank.statistic:g}" if rank.used else NOTHING, rank.statistic if rank.used else None),
                cells.format_p_value(rank.p),
                cells.format_p_value(each.holm),
                Cell(NOTHING) if rank.effect is None else cells.format_difference(rank.effect),
                cells.format_sign_counts(sign.up, sign.down, sign.ties),
                cells.format_p_value(sign.p),
                cells.format_sign_counts(solve.gained, solve.lost),
                cells.format_p_value(solve.p),
            )
        )
    tested = sum(each.holm is not None for each in findings)
    columns = ("second - first", "W", "p", "Holm", "effect", "tasks +/-/=", "sign p", "solved +/-", "McNemar p")
    notes = (
        "W, p: Wilcoxon signed-rank test over the means of task types, two-sided, exact, without zeros. Holm: p "
        f"corrected for {tested or 'no'} test{'s' if tested != 1 else ''}. effect: rank-biserial correlation. "
        "sign p: exact sign test. McNemar p: exact test over variants that only one of the two arms solved.",
    )
    return Sheet("tests", "Tests", columns, tuple(rows), notes)


def build_strata_table(findings: Sequence[ContrastResult]) -> Sheet:
    """Build the table of gains by stratum of the first arm."""
    rows = []
    for each in findings:
        made = [
            cell
            for gain in each.gains
            for cell in (cells.format_count(gain.units), cells.format_difference(gain.difference))
        ]
        rows.append((cells.format_text(_format_contrast(each)), *made))
    names = [gain.stratum for gain in findings[0].gains] if findings else []
    columns = ("second - first", *(column for name in names for column in (f"n {name}", f"{name}")))
    notes = (
        "The first arm decides the stratum of a unit: solved at trial 1, never better than at trial 1 (plateau), or "
        "better later (other). The paper's plateau holds the units of plateau and other whose environment score stays "
        "below 100 in every trial. Units with a bad first arm gain under any second arm, also under equal retries: "
        "check the row over equal retries before you attribute a gain to a memory.",
    )
    return Sheet("strata", "Gains by stratum", columns, tuple(rows), notes)


def build_factorial_table(square: Factorial2x2, program: str, number: int = 1) -> Sheet:
    """Build the table of skills x reflections of one program."""
    neither, reflections, skills, both = square.corners
    rows: list[tuple[Cell, ...]] = [
        (cells.format_text(name), cells.format_points(mean), Cell(""), Cell(""))
        for name, mean in zip(square.corners, square.means, strict=True)
    ]
    _, one, other, together = square.means
    for name, difference, interval in (
        (f"interaction: {both} - {skills} - {reflections} + {neither}", square.difference, square.interaction),
        (f"{both} - {reflections}", together - one, square.over_one),
        (f"{both} - {skills}", together - other, square.over_other),
    ):
        rows.append((cells.format_text(name), cells.format_difference(difference), *cells.format_interval(interval)))
    interval = square.interaction or square.over_one or square.over_other
    clusters = "variants" if interval and interval.over == "units" else "task types"
    rows.append((cells.format_text(READINGS[square.reading].format(clusters=clusters), "total"), *[Cell("")] * 3))
    title = "Skills x reflections" if number == 1 else f"Skills x reflections, {program}"
    columns = (f"over {square.pairs} units", "points", *INTERVAL)
    alone = None in (square.interaction, square.over_one, square.over_other)
    notes = (f"{NOTHING}: {NO_INTERVAL}.",) if alone else ()
    return Sheet("square" if number == 1 else f"square-{number}", title, columns, tuple(rows), notes)


def _format_contrast(finding: ContrastResult) -> str:
    return f"{finding.comparison.second} - {finding.comparison.first}"


def _choose_tone(finding: ContrastResult) -> Tone:
    """Return good or bad if the interval excludes 0 and the corrected test agrees, otherwise no tone."""
    interval, p = finding.comparison.interval, finding.holm
    if interval is None or interval.low <= 0 <= interval.high or p is None or p > 1 - LEVEL:
        return ""
    return "good" if interval.low > 0 else "bad"


def _make_detectable_cell(interval: BootstrapInterval | None) -> Cell:
    if interval is None or interval.detectable_difference is None:
        return Cell(NOTHING)
    if interval.detectable_difference > MOST_POINTS:
        return Cell(f">{MOST_POINTS:.0f}")  # no difference of scores: CSV, too, holds no number for it
    return cells.format_points(interval.detectable_difference, 1)
