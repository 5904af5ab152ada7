"""The comparisons of a run in rounds, which hold whenever one looks between them.

    compare_rounds(arms, USUAL, announced).comparisons  # over the complete rounds

What was announced is decided: each memory against equal retries, all of them together at the 5% level. Of other pairs
differences are shown, and nothing is said: a run that stops once the announced ones are decided is no sample for them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rsso_dspy.errors import UsageError
from rsso_dspy.records import Announcement, UnitRecord, sum_usage
from rsso_dspy.report import metrics
from rsso_dspy.report.compare import (
    OVER_RETRIES,
    Compared,
    Comparison,
    Question,
    compare_arms,
    compute_factorials,
    select_contrasts,
)
from rsso_dspy.report.sequential import Array, follow_rounds, list_margins
from rsso_dspy.report.verdicts import RoundEvidence, Verdict, judge_rounds
from rsso_dspy.sign_flips import SIGNIFICANT

NOT_ANNOUNCED = "the rounds of this run decide memories against equal retries alone"
TURNED_ROUND = "the rounds of this run decide it the other way round"

Arms = Mapping[str, Sequence[UnitRecord]]


def compare_rounds(arms: Arms, question: Question, announced: Announcement) -> Compared:
    """Compare arms over the complete rounds of a run. Raises `UnknownName` for an arm that is not there, and
    `UsageError` for a question about other variants, which rounds do not answer."""
    if question.over != "task types":
        raise UsageError("the rounds of this run answer for other task types: leave --over variants out")
    complete = count_complete_rounds(arms, announced)
    selected = select_rounds(arms, announced, complete)

    contrasts = select_contrasts(arms, question.against)
    if question.against is None:
        contrasts = {pair: contrasts.get(pair, OVER_RETRIES) for pair in announced.pairs} | contrasts
    calls_left = _estimate_calls_left(selected, announced, complete)
    comparisons = []
    for (first, second), asks in contrasts.items():
        if first not in selected or second not in selected:
            continue  # announced, and not begun
        pair = _drop_tests(compare_arms(first, selected[first], second, selected[second], asks))
        if (first, second) in announced.pairs:
            comparisons.append(_judge_pair(pair, selected, question, announced, complete, calls_left))
        else:
            reason = TURNED_ROUND if (second, first) in announced.pairs else NOT_ANNOUNCED
            verdict = Verdict("undecided", question.margin, (reason,), is_hindered=True)
            comparisons.append(replace(pair, interval=None, verdict=verdict))

    squares = {}
    with_records = {name: records for name, records in selected.items() if records}
    for program, square in compute_factorials(with_records, question.over, {}).items():
        effects = (square.interaction, square.over_one, square.over_other)
        interaction, over_one, over_other = (
            replace(effect, interval=None, flips=replace(effect.flips, p=None)) for effect in effects
        )
        squares[program] = replace(square, interaction=interaction, over_one=over_one, over_other=over_other)
    return Compared(tuple(comparisons), squares, tests=0)


def _drop_tests(pair: Comparison) -> Comparison:
    """Leave out the tests, and the intervals of strata, that hold for a number of units that results did not choose."""
    return replace(
        pair,
        flips=replace(pair.flips, p=None),
        wilcoxon=replace(pair.wilcoxon, p=None),
        sign=replace(pair.sign, p=None),
        gains=tuple(replace(gain, interval=None) for gain in pair.gains),
    )


def count_complete_rounds(arms: Arms, announced: Announcement) -> int:
    """Return the number of rounds, from the first on, whose units all are finished or refused in the announced arms."""
    names = {name for pair in announced.pairs for name in pair}
    finished = {
        (name, record.key)
        for name in names
        for record in arms.get(name, ())
        if not record.has_errors or record.is_refused
    }
    complete = 0
    for keys in announced.variants:
        if not all((name, key) in finished for name in names for key in keys):
            break
        complete += 1
    return complete


def select_rounds(arms: Arms, announced: Announcement, complete: int) -> dict[str, list[UnitRecord]]:
    """Return the units of the first rounds."""
    round_of = announced.round_of
    return {
        name: [record for record in records if round_of.get(record.key, complete + 1) <= complete]
        for name, records in arms.items()
    }


@dataclass(frozen=True, slots=True)
class RoundsSoFar:
    """The announced pairs of a run, as far as it is played."""

    complete: int  # rounds
    announced: Announcement
    comparisons: tuple[Comparison, ...]  # of the announced pairs

    @property
    def is_decided(self) -> bool:
        """Whether every announced pair has a verdict. A memory that is not tested yet may be, in later rounds."""
        words = [pair.verdict.word for pair in self.comparisons]
        return len(words) == len(self.announced.pairs) and not {"undecided", "not tested"} & {*words}


def judge_so_far(arms: Arms, announced: Announcement) -> RoundsSoFar:
    compared = compare_rounds(arms, Question(margin=announced.margin), announced)
    pairs = tuple(pair for pair in compared.comparisons if (pair.first, pair.second) in announced.pairs)
    return RoundsSoFar(count_complete_rounds(arms, announced), announced, pairs)


def _judge_pair(
    pair: Comparison,
    played: Arms,
    question: Question,
    announced: Announcement,
    complete: int,
    calls_left: int | None,
) -> Comparison:
    differences = _arrange_differences(played[pair.first], played[pair.second], announced, complete, pair.trials)
    level = SIGNIFICANT / len(announced.pairs)
    course = follow_rounds(differences, announced.rounds, level, list_margins(question.margin))
    evidence = RoundEvidence(course, pair.doses, announced.task_types, len(announced.pairs), calls_left)
    interval = None
    if course and pair.interval:
        interval = replace(pair.interval, low=course.low, high=course.high, is_always_valid=True)
    return replace(pair, course=course, interval=interval, verdict=judge_rounds(evidence, question.margin))


def _arrange_differences(
    before: Sequence[UnitRecord],
    after: Sequence[UnitRecord],
    announced: Announcement,
    complete: int,
    trials: int,
) -> Array:
    """Return the differences in points of the best of so many trials: task types by complete rounds, nan of a unit that
    one of the arms was refused."""
    scores = [
        {record.key: metrics.get_best_accumulator(record, trials) for record in metrics.select_scored_units(records)}
        for records in (before, after)
    ]
    rows = zip(*announced.variants[:complete], strict=True) if complete else ()
    missing = float("nan")
    differences = [[scores[1].get(key, missing) - scores[0].get(key, missing) for key in keys] for keys in rows]
    return np.array(differences, dtype=float).reshape(announced.task_types, complete)


def _estimate_calls_left(played: Arms, announced: Announcement, complete: int) -> int | None:
    """Return the model calls of the rounds that are left, at the rate of those that are complete."""
    if not complete:
        return None
    usage = sum_usage(trial for records in played.values() for record in records for trial in record.trials)
    calls = sum(role_usage.calls for role_usage in usage.values())
    return round(calls / complete * (announced.rounds - complete))
