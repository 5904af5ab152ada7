"""How a compile accepts a candidate: candidates race on `val`, the best one is chosen there, and must then beat the
program to improve on `confirm`, which neither has seen.

    race_on_val(rollouts, program, jobs)             # blocks of val, dropped when hopeless
    chosen = choose_candidate(rollouts)              # None when nothing beats the program to improve
    confirm_candidate(rollouts, start, chosen, confirm, jobs)
    judge_candidate(...).verdict                     # confirmed, unconfirmed, or not better

Every optimizer goes through it, however it ranks its candidates itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt
from statistics import NormalDist, fmean

from rsso_dspy.optimize.candidates import CandidateProgram, Losses
from rsso_dspy.optimize.paired_test import LEVEL, USUAL, Discordance, Verdict, compare_pairs
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.prediction import SOLVED
from rsso_dspy.records import Variant

BLOCKS = 4
"""Number of blocks that `val` is played in."""

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
    losses: Mapping[str, tuple[Losses, Losses]] = field(default_factory=dict)
    """`val` and `confirm` to what start and candidate lost there. The verdict does not depend on it."""

    def __str__(self) -> str:
        return f"{self.verdict}: {self._describe_test()}{self.why}{self._describe_losses()}"

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

    def _describe_losses(self) -> str:
        if not any(each.lost for pair in self.losses.values() for each in pair):
            return ""
        parts = (
            f"on {part} {own} of the candidate, {start} of the start" for part, (start, own) in self.losses.items()
        )
        return f". Trials that ended below their best score, as by a wrong final answer: {'; '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Noise:
    """What luck brought in this compile: the gains of placebos on `val`."""

    gains: tuple[float, ...] = ()
    """Gain of every placebo over the program to improve."""
    won: bool = False
    """Whether a placebo did better on `val` than every candidate."""
    flipped: float | None = None
    """Share of val variants on which two programs scored differently; None when too few pairs were played."""
    by: float | None = None
    """Root mean square of the difference there."""


def race_on_val(rollouts: Rollouts, program: Agent, jobs: int) -> None:
    """Play a candidate on `val` in blocks, paired with the best so far, until it is hopeless. Nothing is played when
    the budget does not cover all of it."""
    candidate = rollouts.register_candidate(program)
    best = rollouts.best_candidate
    missing = rollouts.count_missing(program, rollouts.val, rollouts.seeds)
    if candidate.dropped or not 0 < missing <= rollouts.rollouts_left:
        return
    order = order_by_contrast(list(rollouts.candidates.values()), rollouts.val)
    size = ceil(len(order) / BLOCKS)
    for begin in range(0, len(order), size):
        rollouts.play_all(program, order[begin : begin + size], jobs, rollouts.seeds)
        met, left = order[: begin + size], order[begin + size :]
        if left and best and best is not candidate and is_hopeless(candidate, best, met, left, rollouts.seeds):
            candidate.dropped = True
            return


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
    return behind < NormalDist().inv_cdf(HOPE) * USUAL.deviation * sqrt(len(left) / seeds)


def estimate_score(candidate: CandidateProgram, best: CandidateProgram, variant: Variant, seeds: int) -> float:
    """Estimate the score of a dropped candidate on a variant that it was not played on: as far behind the best as
    elsewhere."""
    met = [each for each in best.rollouts if each in candidate.rollouts]
    behind = fmean(_subtract(candidate, best, each, seeds) for each in met) if met else 0.0
    return min(1.0, max(0.0, (best.mean_on(variant, seeds) or 0.0) + min(0.0, behind)))


def choose_candidate(rollouts: Rollouts) -> CandidateProgram | None:
    """The candidate that did best on `val`; None when none beat the program to improve by a tenth of a
    point or more."""
    start, best = next(iter(rollouts.candidates.values()), None), rollouts.best_candidate
    return None if best is start else best


def explain_no_choice(candidates: Sequence[CandidateProgram], val: Sequence[Variant], seeds: int = 1) -> str:
    """Why no candidate was chosen. `candidates` begin with the program to improve."""
    others = [each for each in candidates[1:] if not each.placebo]
    if any(each.dropped or each.mean_over(val, seeds=seeds) is not None for each in others):
        return "no candidate did better on val than the program to improve"
    if any(variant in each.rollouts for each in others for variant in val):
        return "no candidate was played on all of val"
    return "no candidate reached val"


def confirm_candidate(
    rollouts: Rollouts, start: Agent, chosen: CandidateProgram, confirm: Sequence[Variant], jobs: int
) -> None:
    """Play the program to improve and the chosen candidate on `confirm`, in pairs, as far as the budget goes."""
    program = Agent(start.method.name)
    program.load_state(chosen.state)
    pairs = [(each, variant, n) for variant in confirm for n in range(rollouts.seeds) for each in (start, program)]
    rollouts.play_each(pairs, jobs)


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
    """What placebos gained, and how often programs differ from the first candidate."""
    if not candidates:
        return Noise()
    start = candidates[0]
    means = {c.program: c.mean_over(val, seeds=seeds) for c in candidates}
    placebos = [c for c in candidates if c.placebo]
    base, placebo_means = means[start.program], [means[c.program] for c in placebos]
    gains = tuple(round(m - base, 4) for m in placebo_means if m is not None and base is not None)
    others = [m for c in candidates if not c.placebo and (m := means[c.program]) is not None]
    best = max((m for m in placebo_means if m is not None), default=None)
    won = best is not None and bool(others) and best - max(others) >= WORTH
    both = [(c, v) for c in (placebos or candidates[1:]) for v in val if v in c.rollouts and v in start.rollouts]
    seen = Discordance.measure([c.rollouts[v].score - start.rollouts[v].score for c, v in both])
    return Noise(gains, won, round(seen.flipped, 4) if seen else None, round(seen.by, 4) if seen else None)


def is_solved(candidate: CandidateProgram, variants: Sequence[Variant]) -> bool:
    """Whether a candidate solved all of these at its first trial."""
    played = [candidate.rollouts.get(variant) for variant in variants]
    return all(rollout is not None and rollout.score >= SOLVED for rollout in played)


def _subtract(candidate: CandidateProgram, best: CandidateProgram, variant: Variant, seeds: int) -> float:
    one, other = candidate.mean_on(variant, seeds), best.mean_on(variant, seeds)
    return 0.0 if one is None or other is None else one - other


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
