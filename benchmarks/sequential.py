"""Are the verdicts of a run in rounds right however often one looks, and what do looks save? By simulation.

    python -m benchmarks.sequential [--draws 2000] [--margin 10]

A draw is a run of some task types and announced rounds that stops once it is decided, as `run --until-decided` does:
through the code of the report, with differences from dice. Units of equal arms tie in 40% of cases and differ by 20 to
100 points in the others (a standard deviation of 47, as two first trials of a small model on BabyAI have). An effect is
a surplus of units that the second arm wins; where task types differ, each has an effect of its own, with a standard
deviation of 15 points around the mean.

`better`, `worse`, `no gain`: the first verdict of the run. `one look`: the share of the same runs that a single exact
test at their end calls better. `rounds`: how many were played on average. `interval`: the share of runs whose always
valid interval held the true mean after every round. `gain denied`: the share of runs that said, falsely, that there is
no gain of as many points as there are.
"""

import json
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from benchmarks.script import make_parser, parse_options, print_head, print_row
from rsso_dspy.power import MARGIN
from rsso_dspy.report.sequential import Array, bet_on_no_gain, check_no_gain, find_crossing
from rsso_dspy.sign_flips import SIGNIFICANT, compute_two_sided_p

SIZES = np.array([20.0, 33.0, 50.0, 66.0, 100.0])  # points by which a unit differs
UNLIKE = 0.6  # share of units that differ
MOST_EFFECT = UNLIKE * float(SIZES.mean())  # points that an arm gains which wins every unit that differs
SPREAD = 15.0  # standard deviation of the effects of task types, in points
DESIGNS = ((14, 4), (14, 10), (18, 4), (8, 4))  # task types, announced rounds
EFFECTS = ((0.0, 0.0), (0.0, SPREAD), (9.0, 0.0), (9.0, SPREAD), (20.0, 0.0))  # mean in points, spread


@dataclass(frozen=True, slots=True)
class Ending:
    """How a simulated run ended."""

    word: str
    rounds: int  # that were played
    is_better_at_the_end: bool  # by one look, had all rounds been played
    holds_mean: bool  # whether the interval held the true mean after every round
    denies_gain: bool  # whether a gain of the true mean was ruled out


def draw_differences(rng: np.random.Generator, types: int, rounds: int, mean: float, spread: float) -> Array:
    """Return differences in points, task types by rounds, whose expected mean is `mean`."""
    effects = np.clip(rng.normal(mean, spread, size=types) if spread else np.full(types, mean), -32.0, 32.0)
    is_up = rng.random((types, rounds)) < (0.5 + effects / MOST_EFFECT / 2)[:, None]
    is_unlike = rng.random((types, rounds)) < UNLIKE
    sizes = rng.choice(SIZES, size=(types, rounds))
    return np.where(is_unlike, np.where(is_up, sizes, -sizes), 0.0)


def play_until_decided(differences: Array, mean: float, margin: float) -> Ending:
    rounds = differences.shape[1]
    crossed = find_crossing(differences, rounds)
    wins = crossed > 0 and differences[:, :crossed].sum() > 0
    no_gain = _find_first(_rule_out(differences, margin, rounds))

    word, played = "undecided", rounds
    if crossed and wins and (not no_gain or crossed <= no_gain):
        word, played = "better", crossed
    elif no_gain and (not crossed or no_gain < crossed):
        word, played = "no gain", no_gain
    elif crossed:
        word, played = "worse", crossed

    sums = differences.sum(axis=1)
    denies_gain = bool(_rule_out(differences, mean, rounds).any())
    denies_loss = bool(_rule_out(-differences, -mean, rounds).any())
    is_better = sums.sum() > 0 and compute_two_sided_p(sums.tolist()) <= SIGNIFICANT
    return Ending(word, played, is_better, not denies_gain and not denies_loss, denies_gain)


def _rule_out(differences: Array, margin: float, rounds: int) -> Array:
    margins, level = np.array([margin]), SIGNIFICANT / 2
    is_bet = bet_on_no_gain(differences, margins, level)
    return (is_bet & check_no_gain(differences, margins, rounds, level))[:, 0]


def _find_first(ruled_out: Array) -> int:
    return int(np.argmax(ruled_out)) + 1 if ruled_out.any() else 0


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="simulated runs of each row")
    parser.add_argument("--margin", type=float, default=MARGIN, help="points of a gain that is ruled out")
    options = parse_options(parser, draws=20)

    begun = perf_counter()
    rows = []
    words = ("better", "worse", "no gain")
    print_head("types x rounds", "effect", "spread", *words, "one look", "rounds", "interval", "gain denied")
    for types, rounds in DESIGNS:
        for mean, spread in EFFECTS:
            rng = np.random.default_rng([types, rounds, int(mean), int(spread)])
            draws = (draw_differences(rng, types, rounds, mean, spread) for _ in range(options.draws))
            endings = [play_until_decided(differences, mean, options.margin) for differences in draws]
            row = {word.replace(" ", "_"): np.mean([ending.word == word for ending in endings]) for word in words}
            row["one_look"] = np.mean([ending.is_better_at_the_end for ending in endings])
            row["rounds_played"] = np.mean([ending.rounds for ending in endings])
            row["interval"] = np.mean([ending.holds_mean for ending in endings])
            row["gain_denied"] = np.mean([ending.denies_gain for ending in endings])
            shares = {name: round(float(value), 4) for name, value in row.items()}
            rows.append({"types": types, "rounds": rounds, "effect": mean, "spread": spread, **shares})
            print_row(f"{types} x {rounds}", f"{mean:+g}", f"{spread:g}", *shares.values())

    at_no_effect = [row for row in rows if row["effect"] == 0]
    result = {
        "benchmark": "sequential",
        "draws": options.draws,
        "margin": options.margin,
        "most_false_better": max(row["better"] for row in at_no_effect),
        "most_gain_denied": max(row["gain_denied"] for row in rows),
        "least_interval": min(row["interval"] for row in rows),
        "rows": rows,
        "seconds": round(perf_counter() - begun, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
