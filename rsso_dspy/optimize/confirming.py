"""Is one DSPy program better than another? The question that a compile asks of its candidate, for any two programs and
any metric.

    from rsso_dspy.optimize import confirm

    found = confirm(before, after, examples, metric, seeds=3)
    print(found)        # confirmed: +12.0 points on 40 examples, 90% interval +4.1 to +20.3, one-sided p 0.008
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import isfinite
from statistics import fmean
from typing import Any

import dspy
from dspy.utils.parallelizer import ParallelExecutor

from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.paired_test import LEVEL, PairedTest, Verdict, compare_pairs

MOST_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Comparison:
    """What paired scores of two programs say."""

    test: PairedTest
    """Second program minus first, on the metric's own scale."""
    seeds: int
    scores_a: tuple[float, ...]
    """By example; of several seeds the mean."""
    scores_b: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        """`confirmed`, `unconfirmed` or `not better`: of the second program."""
        return self.test.verdict

    @property
    def difference(self) -> float:
        return self.test.difference

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of 1 - 2 `level`; None when so few examples exclude nothing."""
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
    """Whether `program_b` is better than `program_a` by `metric(example, prediction)` on these examples, which neither
    was made from or chosen by: only then is `p` what it says.

    Both play every example, `seeds` times each, and the test is over examples, for repetitions of one are alike. A
    program whose `forward` takes a ``seed`` is given 0, 1, ...; of another, the language model of `dspy.settings` is
    asked with that ``rollout_id``, which with a temperature above 0 gives other answers.

    Raises `UsageError` for no examples, seeds or a level out of range, or a metric that gives no number; and whatever a
    program or the metric raises: an error is no score.
    """
    if not examples:
        raise UsageError("there are no examples to confirm by")
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"cannot play an example {seeds} times; ask for 1 to {MOST_SEEDS} seeds")
    if not 0 < level < 0.5:
        raise UsageError(f"a level of {level} confirms nothing or everything; take one between 0 and 0.5, e.g. {LEVEL}")
    jobs = [(program, example, n) for example in examples for n in range(seeds) for program in (program_a, program_b)]
    failed: list[BaseException] = []

    def score_one(job: tuple[dspy.Module, dspy.Example, int]) -> float:
        if failed:
            return 0.0
        try:
            return _read_number(metric(job[1], _play(*job)))
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


def _play(program: dspy.Module, example: dspy.Example, seed: int) -> Any:
    inputs: Mapping[str, Any] = example.inputs()
    forward = getattr(type(program), "forward", None)
    if forward is not None and "seed" in signature(forward).parameters and "seed" not in inputs:
        return program(**inputs, seed=seed)
    if seed == 0 or dspy.settings.lm is None:
        return program(**inputs)
    with dspy.context(lm=dspy.settings.lm.copy(rollout_id=seed)):
        return program(**inputs)


def _read_number(said: Any) -> float:
    """What a metric said, which may be a truth value or a prediction with a ``score``."""
    value = said.score if isinstance(said, dspy.Prediction) and "score" in said else said
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise UsageError(f"the metric gave {value!r}, which is no number") from None
    if not isfinite(number):
        raise UsageError(f"the metric gave {number}, which is no number to compare")
    return number
