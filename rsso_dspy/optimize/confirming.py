"""Tests whether one DSPy program is better than another, as a compile tests its candidate: for any two programs and any
metric.

    from rsso_dspy.optimize import confirm

    found = confirm(before, after, examples, metric, seeds=3)
    print(found)        # confirmed: +12.0 points on 40 examples, 90% interval +4.1 to +20.3, one-sided p 0.008
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from statistics import fmean
from typing import Any

import dspy
from dspy.utils.parallelizer import ParallelExecutor

from rsso_dspy.bounds import check_score
from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.paired_test import LEVEL, PairedTest, Verdict, compare_pairs

MOST_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of comparing two programs by paired scores."""

    test: PairedTest
    """Second program minus first, on the metric's own scale."""
    seeds: int
    scores_a: tuple[float, ...]
    """Scores of the first program by example; with several seeds, their mean."""
    scores_b: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the second program: `confirmed`, `unconfirmed` or `not better`."""
        return self.test.verdict

    @property
    def difference(self) -> float:
        return self.test.difference

    @property
    def interval(self) -> tuple[float, float] | None:
        """Interval of 1 - 2 `level`; None when there are too few examples to exclude any difference."""
        low, high = self.test.low, self.test.high
        return None if low is None or high is None else (low, high)

    @property
    def p(self) -> float:
        """One-sided, of the sign-flip test over examples."""
        return self.test.p

    def __str__(self) -> str:
        inside = ""
        if self.interval:
            inside = f", {1 - 2 * self.test.level:.0%} interval {self.interval[0]:+.3f} to {self.interval[1]:+.3f}"
        seeds = f" with {self.seeds} seeds each" if self.seeds > 1 else ""
        return (
            f"{self.verdict}: {self.difference:+.3f} on {self.test.pairs} examples{seeds}{inside}, one-sided p "
            f"{self.p:.3f}, level {self.test.level}"
        )


def confirm(
    program_a: dspy.Module,
    program_b: dspy.Module,
    examples: Sequence[dspy.Example],
    metric: Callable[..., Any],
    *,
    seeds: int = 1,
    num_threads: int = 1,
    level: float = LEVEL,
) -> Comparison:
    """Test whether `program_b` is better than `program_a` by `metric(example, prediction)` on these examples. The
    metric may give a number, a truth value or a prediction with a ``score``. `p` is valid only if neither program was
    made from these examples or chosen by them.

    Both play every example `seeds` times. The test is over examples, because repetitions of one example are not
    independent. A program whose `forward` takes a ``seed`` is given 0, 1, ...; for any other, the language models of
    `dspy.settings` and of its predictors get the seed as ``rollout_id``, which changes their answers at a temperature
    above 0.

    Raises `UsageError` for no examples, an example given twice, seeds or a level out of range, or a score that is no
    number, not finite or above a million in size, with its example's number from 1; and what a program or the metric
    raises: an error is no score.
    """
    if not examples:
        raise UsageError("there are no examples to confirm by")
    repeats = len(examples) - sum(example not in examples[:place] for place, example in enumerate(examples))
    if repeats:
        raise UsageError(
            f"{repeats} of the {len(examples)} examples equal an earlier one, and would count as independent: give "
            "each once, and seeds=... to play it several times"
        )
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"cannot play an example {seeds} times; ask for 1 to {MOST_SEEDS} seeds")
    if not 0 < level < 0.5:
        raise UsageError(f"a level of {level} confirms nothing or everything; take one between 0 and 0.5, e.g. {LEVEL}")
    pairs = [tuple(_set_rollout(program, n) for program in (program_a, program_b)) for n in range(seeds)]
    numbered = list(enumerate(examples, 1))
    jobs = [(number, program, each, n) for number, each in numbered for n, pair in enumerate(pairs) for program in pair]
    failed: list[BaseException] = []
    extra = (None,) * (_count_required(metric) - 2)  # trace and the like, as optimizers of DSPy take them

    def score_one(job: tuple[int, dspy.Module, dspy.Example, int]) -> float:
        number, program, example, n = job
        if failed:
            return 0.0
        try:
            said = metric(example, _play(program, example, n), *extra)
            value = said.score if isinstance(said, dspy.Prediction) and "score" in said else said
            return check_score(value, "score of example", number)
        except Exception as error:
            failed.append(error)
            return 0.0

    executor = ParallelExecutor(num_threads=num_threads, disable_progress_bar=True, max_errors=1, timeout=0)
    scores = executor.execute(score_one, jobs)
    if failed:
        raise failed[0]
    wide = 2 * seeds
    rows = [scores[at : at + wide] for at in range(0, len(scores), wide)]
    a, b = (tuple(fmean(row[side::2]) for row in rows) for side in (0, 1))
    return Comparison(compare_pairs([y - x for x, y in zip(a, b, strict=True)], level), seeds, a, b)


def _count_required(metric: Callable[..., Any]) -> int:
    """Return the number of positional parameters without a default; 2 if it cannot be told."""
    try:
        parameters = signature(metric).parameters.values()
    except (TypeError, ValueError):
        return 2
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is Parameter.empty for each in parameters)


def _set_rollout(program: dspy.Module, seed: int) -> dspy.Module:
    """Return the program, or a copy whose predictors' own models answer under this rollout."""
    if seed == 0 or _takes_seed(program) or not any(each.lm for each in _list_predictors(program)):
        return program
    copy = program.deepcopy()
    for predictor in _list_predictors(copy):
        if predictor.lm:
            predictor.lm = predictor.lm.copy(rollout_id=seed)
    return copy


def _list_predictors(program: dspy.Module) -> list[dspy.Predict]:
    """Return all predictors, also those of modules that are marked as compiled."""
    return [each for _, each in program.named_sub_modules(dspy.Predict)]


def _takes_seed(program: dspy.Module) -> bool:
    forward = getattr(type(program), "forward", None)
    return forward is not None and "seed" in signature(forward).parameters


def _play(program: dspy.Module, example: dspy.Example, seed: int) -> Any:
    inputs: Mapping[str, Any] = example.inputs()
    if _takes_seed(program) and "seed" not in inputs:
        return program(**inputs, seed=seed)
    if seed == 0 or dspy.settings.lm is None:
        return program(**inputs)
    with dspy.context(lm=dspy.settings.lm.copy(rollout_id=seed)):
        return program(**inputs)
