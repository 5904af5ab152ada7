"""The columns of an exported run: what each is called, holds and is counted in.

COLUMNS["trials"]["accumulator"]      # Column(type="int32", description="sum of positive rewards, ...", unit=...)
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal, NamedTuple

from rsso_dspy.trajectory import Usage

Rows = Literal["trials", "steps"]
"""What a row is."""

ROLES = ("actor", "reflector", "verbalizer", "advisor")
"""Roles that play."""

PROVENANCE = (
    "config_hash", "prompts", "program", "rsso_dspy", "scienceworld", "benchmark", "dspy", "python", "commit",
    "forked_from"
)  # fmt: skip


class Column(NamedTuple):
    """One column: Arrow type by name, what it holds, and its unit."""

    type: str
    description: str
    unit: str = ""


POINTS = "points of 100"

OF_BOTH = {
    "kind": Column("string", "unit (a held-out variant, which is compared) or training (of the transfer setting)"),
    "arm": Column("string", "row of the comparison: method and program"),
    "method": Column("string", "method"),
    "program": Column("string", "zero-shot, or the name of the compiled program"),
    "task": Column("string", "task type"),
    "variant": Column("string", "task::index; null of a training's trial that errored"),
    "index": Column("int32", "index of the variant in its task"),
    "seed": Column("int64", "seed of the unit"),
    "trial": Column("int32", "number of the trial, from 1"),
}
"""Where a row belongs."""

TRIAL = {
    **OF_BOTH,
    "protocol": Column("string", "protocol; scores compare under one of them only"),
    "backend": Column("string", "name of the backend"),
    "model": Column("string", "model that acted, provider/model"),
    "rule_based": Column("bool", "whether the offline rule-based model answered in some role"),
    "outcome": Column("string", "solved, failed, budget, stalled, repeated or error"),
    "accumulator": Column("int32", "sum of positive rewards, the paper's score", POINTS),
    "points_at_reset": Column("int32", "points that the variant holds after reset, not in the accumulator", POINTS),
    "environment_score": Column("int32", "the environment's own score at the end, -100 to 100", POINTS),
    "solved": Column("bool", "whether the environment's score reached 100"),
    "best_so_far": Column("int32", "best accumulator of the unit's trials up to this one; null in trainings", POINTS),
    "trials_allowed": Column(
        "int32", "trials that the unit may play, null where an older version did not say; of a training, its episodes"
    ),
    "budget": Column("int32", "steps allowed", "steps"),
    "steps": Column("int32", "steps taken", "steps"),
    "invalid": Column("int32", "steps that were malformed or that the environment did not understand", "steps"),
    "malformed": Column("int32", "steps at which the model's answer held no action", "steps"),
    "asked_back": Column("int32", "steps that the environment answered by asking which action was meant", "steps"),
    "no_effect": Column("int32", "steps whose action was understood and did nothing", "steps"),
    "error": Column("string", "what failed, when infrastructure did; may quote what a server said"),
    "unit_errored": Column("bool", "whether any trial of the unit errored; the report leaves such units out"),
    "unit_stalled": Column("int32", "trials of the unit that stalled; the report's means include them"),
    "replayed": Column("int32", "how often the trial was played again because the simulator died"),
    "failed_requests": Column("int64", "requests that failed, of all kinds", "requests"),
    "reflections_held": Column("int32", "reflections at the start; null without that memory, or when not known"),
    "library_size": Column("int32", "skills in the library at the start; null likewise"),
    "skills_shown": Column("int32", "distinct skills that stood in its prompts"),
    "calls": Column("int64", "answers of all roles", "calls"),
    "tokens_in": Column("int64", "tokens sent, all roles", "tokens"),
    "tokens_out": Column("int64", "tokens answered, all roles", "tokens"),
    "usd": Column("double", "cost at known prices; null when a price is not known or an answer not metered", "USD"),
    **{
        f"{role}_{name}": Column("int64", f"{name} of the {role}, as the ledger counts")
        for role in ROLES
        for name in (each.name for each in fields(Usage))
    },
    "start": Column("string", "what the memories held before the first trial"),
    "learnt_on": Column("strings", "variants that this was learnt on"),
    **{f"provenance_{name}": Column("string", f"{name} of the record's provenance") for name in PROVENANCE},
}

STEP = {
    **OF_BOTH,
    "step": Column("int32", "number of the step, from 1"),
    "proposed": Column("string", "the action as the actor wrote it"),
    "action": Column("string", "what was sent; empty when the answer was malformed"),
    "observation": Column("string", "what the action produced"),
    "look": Column("string", "the surroundings after it"),
    "inventory": Column("string", "the inventory after it"),
    "reward": Column("int32", "change of the environment's score", POINTS),
    "score": Column("int32", "the environment's score after it", POINTS),
    "accumulator": Column("int32", "sum of positive rewards up to it", POINTS),
    "understood": Column("bool", "whether the environment understood it"),
    "malformed": Column("bool", "whether the model's answer held no action"),
    "asked_back": Column("bool", "whether the environment asked which action was meant"),
    "no_effect": Column("bool", "whether the action was understood and did nothing"),
    "unread": Column("string", "what the model said, when that could not be read"),
    "reasoning": Column("string", "what the actor said it thinks"),
    "subgoal": Column("string", "target of the skill that the actor said it pursues"),
    "rejected": Column("string", "what it gave as its subgoal, when that was not offered"),
    "recalled": Column("strings", "ids of the skills in the prompt of this step"),
}

COLUMNS: Mapping[Rows, Mapping[str, Column]] = {"trials": TRIAL, "steps": STEP}
