"""How a compile accepts a candidate: candidates race on `val`, the best one is chosen there, and must then beat the
program to improve on `confirm`, which neither has seen.

Here are candidates, their rollouts and what is concluded from them; `Rollouts` plays.

    is_hopeless(candidate, best, met, left)     # blocks of val, dropped when hopeless
    judge_candidate(...).verdict                # confirmed, unconfirmed, or not better

Every optimizer goes through it, however it ranks its candidates itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import NormalDist, fmean
from typing import Any, Literal

from rsso_dspy.environments import Goal
from rsso_dspy.optimize.confirming import DEVIATION, LEVEL, Verdict, compare_pairs
from rsso_dspy.programs.prediction import SOLVED
from rsso_dspy.records import TrialResult, Variant

TracedCall = tuple[str, dict[str, Any], dict[str, Any]]
"""Predictor name, inputs, outputs."""

CompileEnding = Literal["rollouts", "cost", "interrupted", "error"]
"""What cut a compile short: a budget, the user, or infrastructure."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The trials of one candidate on one calibration variant."""

    variant: Variant
    score: float
    """The metric, 0 to 1."""
    trials: tuple[TrialResult, ...]
    progress: tuple[tuple[Goal, ...], ...]
    """The goals at the end of each trial: kinds and states, no texts."""
    calls: tuple[TracedCall, ...]
    """The informative calls, in order."""
    repeat: int = 0
    """Which of its variant's seeds it was played with, from 0."""

    @property
    def accumulator(self) -> int:
        """Best accumulator over the trials, the paper's score."""
        return max(result.trajectory.accumulator for result in self.trials if result.trajectory)


@dataclass
class CandidateProgram:
    """A program that was tried."""

    program: str
    """Fingerprint of the state."""
    state: dict[str, Any]
    """DSPy's state of the program."""
    rollouts: dict[Variant, Rollout] = field(default_factory=dict)
    """Rollouts with the first seed."""
    number: int = 0
    """Number in the order of trying, the same in the file, in progress and on pages; 0 is the program to improve."""
    placebo: bool = False
    """Whether it is a placebo, which shows what luck brings and is never chosen."""
    dropped: bool = False
    """Whether it fell too far behind on `val` to be played on all of it."""
    repeats: dict[tuple[Variant, int], Rollout] = field(default_factory=dict)
    """Rollouts with every further seed."""

    def list_rollouts(self, variant: Variant, seeds: int = 1) -> list[Rollout]:
        """The rollouts on a variant with the first `seeds` seeds, as far as they were played."""
        found = [self.rollouts.get(variant), *(self.repeats.get((variant, n)) for n in range(1, seeds))]
        return [rollout for rollout in found if rollout is not None]

    def mean_on(self, variant: Variant, seeds: int = 1, of: Literal["score", "accumulator"] = "score") -> float | None:
        """Mean over the first `seeds` seeds; None until all of them have been played."""
        played = self.list_rollouts(variant, seeds)
        return fmean(getattr(rollout, of) for rollout in played) if len(played) == seeds else None

    def mean_over(
        self, variants: Sequence[Variant], of: Literal["score", "accumulator"] = "score", seeds: int = 1
    ) -> float | None:
        """Mean over `variants`; None until all of them have been played."""
        means = [self.mean_on(variant, seeds, of) for variant in variants]
        known = [mean for mean in means if mean is not None]
        return fmean(known) if known and len(known) == len(means) else None


HOPE = 0.1
"""A candidate goes on while it would catch up in at least one of ten cases, if it were as good as the best so far on
the variants left."""

WORTH = 0.001
"""How much better a candidate must be on `val`: a tenth of a point."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Result of comparing the chosen candidate with the program to improve on `confirm`."""

    verdict: Verdict
    why: str
    """In words."""
    difference: float | None = None
    """Mean over variants of candidate minus start, each a mean over the seeds; None when `confirm` was not played."""
    low: float | None = None
    high: float | None = None
    """Interval of 1 - 2 `level`; None when there are too few pairs to exclude any difference."""
    p: float | None = None
    """One-sided, of the sign-flip test."""
    level: float = LEVEL
    pairs: int = 0
    seeds: int = 1
    per_variant: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Variant to the scores of start and candidate."""

    def __str__(self) -> str:
        return f"{self.verdict}: {self._describe_test()}{self.why}"

    def _describe_test(self) -> str:
        if self.difference is None or self.p is None:
            return ""
        seeds = f", {self.seeds} seeds each" if self.seeds > 1 else ""
        inside = (
            f"{1 - 2 * self.level:.0%} interval {100 * self.low:+.1f} to {100 * self.high:+.1f}, "
            if self.low is not None and self.high is not None
            else ""
        )
        return (
            f"candidate minus start {100 * self.difference:+.1f} points on {self.pairs} confirm variants{seeds}, "
            f"{inside}one-sided p {self.p:.3f}, level {self.level}; "
        )


@dataclass(frozen=True, slots=True)
class Noise:
    """What luck brought in this compile: the gains of placebos on `val`."""

    gains: tuple[float, ...] = ()
    """Gain of every placebo over the program to improve."""
    won: bool = False
    """Whether a placebo did better on `val` than every candidate."""


def order_by_contrast(candidates: Sequence[CandidateProgram], val: Sequence[Variant]) -> list[Variant]:
    """The val variants, ordered so that those on which candidates differed most come first. Variants on which all
    scored alike come last, so that nothing is spent there on a candidate that is dropped before."""

    def count_scores(variant: Variant) -> int:
        return len({round(c.rollouts[variant].score, 3) for c in candidates if variant in c.rollouts})

    return sorted(val, key=lambda variant: -count_scores(variant))


def is_hopeless(
    candidate: CandidateProgram,
    best: CandidateProgram,
    met: Sequence[Variant],
    left: Sequence[Variant],
    seeds: int = 1,
) -> bool:
    """Whether a candidate is too far behind to catch up on the variants left: not even by solving them all, or in fewer
    than one of ten cases (`HOPE`) if it were as good there as the best so far."""
    behind = sum(_subtract(candidate, best, variant, seeds) for variant in met)
    room = sum(1 - (best.mean_on(variant, seeds) or 0) for variant in left)
    if behind + room < WORTH:
        return True
    return behind < NormalDist().inv_cdf(HOPE) * DEVIATION * sqrt(len(left) / seeds)


def estimate_score(candidate: CandidateProgram, best: CandidateProgram, variant: Variant, seeds: int) -> float:
    """Estimate the score of a dropped candidate on a variant that it was not played on: as far behind the best as
    elsewhere."""
    met = [each for each in best.rollouts if each in candidate.rollouts]
    behind = fmean(_subtract(candidate, best, each, seeds) for each in met) if met else 0.0
    return min(1.0, max(0.0, (best.mean_on(variant, seeds) or 0.0) + min(0.0, behind)))


def explain_no_choice(candidates: Sequence[CandidateProgram], val: Sequence[Variant], seeds: int = 1) -> str:
    """Why no candidate was chosen. `candidates` begin with the program to improve."""
    others = [each for each in candidates[1:] if not each.placebo]
    if any(each.dropped or each.mean_over(val, seeds=seeds) is not None for each in others):
        return "no candidate did better on val than the program to improve"
    if any(variant in each.rollouts for each in others for variant in val):
        return "no candidate was played on all of val"
    return "no candidate reached val"


def judge_candidate(
    start: CandidateProgram,
    chosen: CandidateProgram | None,
    confirm: Sequence[Variant],
    seeds: int = 1,
    unplayed: str = "",
    none_chosen: str = "no candidate did better on val than the program to improve",
) -> Confirmation:
    """The verdict on the chosen candidate. `unplayed` says why `confirm` was not played to its end, if it was not, and
    `none_chosen` why there is no candidate, if there is none."""
    if chosen is None:
        return Confirmation("not better", none_chosen, seeds=seeds)
    if not confirm:
        return Confirmation("unconfirmed", "the calibration has no confirm variants", seeds=seeds)
    scores = {each.key: (start.mean_on(each, seeds), chosen.mean_on(each, seeds)) for each in confirm}
    known = {key: (one, other) for key, (one, other) in scores.items() if one is not None and other is not None}
    if len(known) < len(confirm):
        why = f"{unplayed or 'it was cut short'}: {len(known)} of {len(confirm)} confirm variants were played"
        return Confirmation("unconfirmed", why, seeds=seeds)
    found = compare_pairs([other - one for one, other in known.values()])
    rounded = {key: (round(one, 4), round(other, 4)) for key, (one, other) in known.items()}
    why = {
        "confirmed": f"p below {found.level}",
        "unconfirmed": f"p is not below {found.level}: equally good programs differ as much",
        "not better": "on confirm variants it did not do better",
    }[found.verdict]
    numbers = (round(found.difference, 6), _round(found.low), _round(found.high), round(found.p, 6), found.level)
    return Confirmation(found.verdict, why, *numbers, found.pairs, seeds, rounded)


def measure_noise(candidates: Sequence[CandidateProgram], val: Sequence[Variant], seeds: int = 1) -> Noise:
    """What placebos gained over the first candidate."""
    means = [(each.placebo, mean) for each in candidates if (mean := each.mean_over(val, seeds=seeds)) is not None]
    placebos = [mean for placebo, mean in means if placebo]
    others = [mean for placebo, mean in means if not placebo]
    won = bool(placebos) and bool(others) and max(placebos) - max(others) >= WORTH
    return Noise(tuple(round(mean - others[0], 4) for mean in placebos if others), won)


def is_solved(candidate: CandidateProgram, variants: Sequence[Variant]) -> bool:
    """Whether a candidate solved all of these at its first trial."""
    played = [candidate.rollouts.get(variant) for variant in variants]
    return all(rollout is not None and rollout.score >= SOLVED for rollout in played)


def _subtract(candidate: CandidateProgram, best: CandidateProgram, variant: Variant, seeds: int) -> float:
    one, other = candidate.mean_on(variant, seeds), best.mean_on(variant, seeds)
    return 0.0 if one is None or other is None else one - other


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
