"""Splits a plan into shards.

A shard holds all arms of a variant, under transfer all variants of a task (which share trainings), and whole streams
(whose units depend on one another).
"""

from dataclasses import replace

from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.plan import Plan
from rsso_dspy.store.run_spec import Shard
from rsso_dspy.store.units import Unit


def select_shard(plan: Plan, shard: Shard | None) -> Plan:
    """Return the plan with only the units and trainings of one shard."""
    if shard is None:
        return plan
    groups = list(dict.fromkeys(_get_shard_group(plan, unit) for unit in plan.units))
    mine = set(groups[shard.number - 1 :: shard.of])
    units = tuple(unit for unit in plan.units if _get_shard_group(plan, unit) in mine)
    if not units:
        raise UsageError(f"shard {shard.number}/{shard.of} is empty: this run has at most {len(groups)} parts")
    needed = {training for unit in units if (training := plan.get_training(unit))}
    return replace(plan, units=units, trainings=tuple(each for each in plan.trainings if each in needed))


def _get_shard_group(plan: Plan, unit: Unit) -> str:
    if unit.place:
        return unit.arm.name
    return unit.variant.task if plan.trainings else unit.variant.key
