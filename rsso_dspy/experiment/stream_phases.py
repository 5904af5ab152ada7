"""The order of a stream that tests its memories, in phases, equal for all arms.

    order_return(variants, types=2, seed=0)      # variant -> "first visit", "between" or "return", in order of play
    order_repair(variants, seed=0)               # variant -> "before", "during" or "after"

A return has other variants of the first task types: a stream hides what was learned on the very variant, so the same
variants would find nothing of their own. The seed draws which variants are played first, so that neither visit gets the
harder ones by design.
"""

from collections.abc import Sequence
from random import Random

from rsso_dspy.config import Config
from rsso_dspy.errors import UsageError
from rsso_dspy.records import AFTER, BEFORE, BETWEEN, DURING, FIRST_VISIT, RETURN, Variant
from rsso_dspy.store.units import Arm

REPAIR_PHASES = (BEFORE, DURING, AFTER)


def order_stream(config: Config, arms: Sequence[Arm], variants: Sequence[Variant]) -> dict[Variant, str]:
    """Return the phase of every variant, in order of play; empty without a test of memories in the configuration.

    Raises `UsageError` where a test is impossible.
    """
    returns, wrong = config.protocol.stream_returns, config.protocol.wrong_rewards
    if returns is None and wrong is None:
        return {}
    name = "protocol.stream_returns" if returns is not None else "protocol.wrong_rewards"
    if returns is not None and wrong is not None:
        raise UsageError(f"{name} and protocol.wrong_rewards are two tests with two orders of play: set one of them")
    if config.protocol.setting == "transfer":
        raise UsageError(f"{name} tests memories in a stream, and the transfer setting has none: leave one of them out")
    stepwise = [arm.name for arm in arms if arm.method.writing]
    if wrong is not None and stepwise:
        raise UsageError(
            f"{name} is told to memories that learn after a trial; {', '.join(stepwise)} writes rules from the rewards "
            "of every step. Leave it out of --methods"
        )
    return order_repair(variants, config.seed) if returns is None else order_return(variants, returns, config.seed)


def order_return(variants: Sequence[Variant], types: int, seed: int) -> dict[Variant, str]:
    """Return the phase of every variant, in order of play: half of the variants of `types` task types, then all
    variants of the other types, then the other half.

    Raises `UsageError` without another type, or for a returning type with one variant.
    """
    draw = Random(f"return {seed}")
    tasks = list(dict.fromkeys(variant.task for variant in variants))
    if types >= len(tasks):
        raise UsageError(
            f"protocol.stream_returns={types}: the run has {len(tasks)} task types, and the stream must play at least "
            f"one other type before it returns. Lower the number, or add task types with --tasks"
        )
    draw.shuffle(tasks)
    halves: dict[str, list[Variant]] = {FIRST_VISIT: [], BETWEEN: [], RETURN: []}
    for task in tasks[:types]:
        drawn = _draw_variants(variants, task, draw, 2, f"protocol.stream_returns={types}")
        later = len(drawn) // 2
        halves[FIRST_VISIT] += drawn[:-later]
        halves[RETURN] += drawn[-later:]
    halves[BETWEEN] = [variant for variant in variants if variant.task in tasks[types:]]
    return _mix(halves, draw)


def order_repair(variants: Sequence[Variant], seed: int) -> dict[Variant, str]:
    """Return the phase of every variant, in order of play: a third of the variants of each task type in each phase.

    Raises `UsageError` for a task type with fewer than three variants.
    """
    draw = Random(f"repair {seed}")
    thirds: dict[str, list[Variant]] = {phase: [] for phase in REPAIR_PHASES}
    for task in dict.fromkeys(variant.task for variant in variants):
        drawn = _draw_variants(variants, task, draw, 3, "protocol.wrong_rewards")
        for place, variant in enumerate(drawn):
            thirds[REPAIR_PHASES[place * 3 // len(drawn)]].append(variant)
    return _mix(thirds, draw)


def _draw_variants(variants: Sequence[Variant], task: str, draw: Random, least: int, setting: str) -> list[Variant]:
    drawn = [variant for variant in variants if variant.task == task]
    if len(drawn) < least:
        raise UsageError(
            f"{setting}: {task} has {len(drawn)} variants in this run and needs {least}, one for each phase that is "
            f"compared. Use --per-task {least} or more"
        )
    draw.shuffle(drawn)
    return drawn


def _mix(phases: dict[str, list[Variant]], draw: Random) -> dict[Variant, str]:
    found: dict[Variant, str] = {}
    for phase, variants in phases.items():
        draw.shuffle(variants)
        found |= dict.fromkeys(variants, phase)
    return found
