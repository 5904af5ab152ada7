"""Two references for the scores of a run, played on its variants without an agent: random actions and gold paths.

    play_references(config, budgets)        # ReferenceScores(trials=3, first=(("boil", 3.0), ...), best=..., gold=...)

Neither asks a model. A gold path is played here and its points are kept; the path reaches no prompt, memory or record.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

from rsso_dspy.config import Config
from rsso_dspy.environments import Environment, choose_interface
from rsso_dspy.errors import GoldUnknown
from rsso_dspy.experiment.protocols import resolve_protocol
from rsso_dspy.records import Variant
from rsso_dspy.report.reference_scores import ReferenceScores

Scores = list[tuple[str, float]]


def play_references(
    config: Config, budgets: Mapping[Variant, int], say: Callable[[str], None] = lambda _: None
) -> ReferenceScores:
    """Play random actions and the gold path on each variant, within its steps, under the protocol of the configuration.

    `budgets` maps variant to the steps of a trial; `say` hears of every variant. Raises what environments raise.
    """
    rules, of = resolve_protocol(config).rules, config.active_benchmark
    first, best, gold = Scores(), Scores(), Scores()
    environment = of.environment(config.environment, lambda: False)
    try:
        choose_interface(environment, rules.interface)
        for number, (variant, steps) in enumerate(budgets.items(), start=1):
            say(f"[{number}/{len(budgets)}] {variant.key}: random actions and the gold path")
            if of.admissible != "none":
                points = play_randomly(environment, variant, steps, rules.trials, config.seed)
                first.append((variant.task, points[0]))
                best.append((variant.task, max(points)))
            with suppress(GoldUnknown):
                path = of.find_ceiling_path(variant, of.locate_data(config.environment.data), rules.interface)
                gold.append((variant.task, play_gold_path(environment, variant, steps, path)))
    finally:
        environment.close()
    return ReferenceScores(len(budgets), rules.trials, tuple(first), tuple(best), tuple(gold))


def play_randomly(environment: Any, variant: Variant, steps: int, trials: int, seed: int) -> list[float]:
    """Return the points of each trial of actions drawn uniformly from those that the environment lists."""
    points = []
    for trial in range(1, trials + 1):
        environment.reset(variant)
        draw, gained = Random(f"random actions {seed} {variant.key} {trial}"), 0
        for _ in range(steps):
            listed = environment.admissible_actions()
            if not listed:
                break
            move = environment.step(draw.choice(listed))
            gained += max(0, move.reward)
            if move.done or move.stalled:
                break
        points.append(float(gained))
    return points


def play_gold_path(environment: Environment, variant: Variant, steps: int, path: Sequence[str]) -> float:
    """Return the points of a gold path. A number in it answers a question, and is left out where none is asked."""
    environment.reset(variant)
    gained, taken, asked = 0, 0, False
    for action in path:
        if action.isdigit() and not asked:
            continue
        for each in ("0", action) if asked and not action.isdigit() else (action,):
            if taken == steps:
                return float(gained)
            move = environment.step(each)
            taken, gained, asked = taken + 1, gained + max(0, move.reward), move.asked_back
            if move.done or move.stalled:
                return float(gained)
    return float(gained)
