"""The columns of an exported run: what each is called, holds and is counted in.

COLUMNS["trials"]["accumulator"]      # ParquetColumn(type="int32", description="sum of positive rewards, ...",
unit=...)
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal, NamedTuple

from rsso_dspy.records import Usage

RowKind = Literal["trials", "steps"]
"""What a row is."""

ROLES = ("actor", "reflector", "verbalizer", "advisor")
"""Roles that play."""

PROVENANCE = (
    "config_hash", "prompts", "program", "rsso_dspy", "scienceworld", "benchmark", "dspy", "python", "commit",
    "forked_from"
)  # fmt: skip


class ParquetColumn(NamedTuple):
    """One column: Arrow type by name, what it holds, and its unit."""

    type: str
    description: str
    unit: str = ""


POINTS = "points of 100"

OF_BOTH = {
    "kind": ParquetColumn(
        "string", "unit (a held-out variant, which is compared) or training (of the transfer setting)"
    ),
    "arm": ParquetColumn("string", "row of the comparison: method and program"),
    "method": ParquetColumn("string", "method"),
    "program": ParquetColumn("string", "zero-shot, or the name of the compiled program"),
    "task": ParquetColumn("string", "task type"),
    "variant": ParquetColumn("string", "task::index; null of a training's trial that errored"),
    "index": ParquetColumn("int32", "index of the variant in its task"),
    "seed": ParquetColumn("int64", "seed of the unit"),
    "trial": ParquetColumn("int32", "number of the trial, from 1"),
}
"""Where a row belongs."""

TRIAL = {
    **OF_BOTH,
    "protocol": ParquetColumn("string", "protocol; scores compare under one of them only"),
    "backend": ParquetColumn("string", "name of the backend"),
    "model": ParquetColumn("string", "model that acted, provider/model"),
    "rule_based": ParquetColumn("bool", "whether the offline rule-based model answered in some role"),
    "outcome": ParquetColumn("string", "solved, failed, budget, stalled, repeated or error"),
    "accumulator": ParquetColumn("int32", "sum of positive rewards, the paper's score", POINTS),
    "points_at_reset": ParquetColumn(
        "int32", "points that the variant holds after reset, not in the accumulator", POINTS
    ),
    "environment_score": ParquetColumn("int32", "the environment's own score at the end, -100 to 100", POINTS),
    "solved": ParquetColumn("bool", "whether the environment's score reached 100"),
    "best_so_far": ParquetColumn(
        "int32", "best accumulator of the unit's trials up to this one; null in trainings", POINTS
    ),
    "trials_allowed": ParquetColumn(
        "int32", "trials that the unit may play, null where an older version did not say; of a training, its episodes"
    ),
    "budget": ParquetColumn("int32", "steps allowed", "steps"),
    "steps": ParquetColumn("int32", "steps taken", "steps"),
    "invalid": ParquetColumn("int32", "steps that were malformed or that the environment did not understand", "steps"),
    "malformed": ParquetColumn("int32", "steps at which the model's answer held no action", "steps"),
    "asked_back": ParquetColumn(
        "int32", "steps that the environment answered by asking which action was meant", "steps"
    ),
    "no_effect": ParquetColumn("int32", "steps whose action was understood and did nothing", "steps"),
    "error": ParquetColumn("string", "what failed, when infrastructure did; may quote what a server said"),
    "unit_errored": ParquetColumn("bool", "whether any trial of the unit errored; the report leaves such units out"),
    "unit_stalled": ParquetColumn("int32", "trials of the unit that stalled; the report's means include them"),
    "replayed": ParquetColumn("int32", "how often the trial was played again because the simulator died"),
    "failed_requests": ParquetColumn("int64", "requests that failed, of all kinds", "requests"),
    "reflections_held": ParquetColumn("int32", "reflections at the start; null without that memory, or when not known"),
    "library_size": ParquetColumn("int32", "skills in the library at the start; null likewise"),
    "skills_shown": ParquetColumn("int32", "distinct skills that stood in its prompts"),
    "calls": ParquetColumn("int64", "answers of all roles", "calls"),
    "tokens_in": ParquetColumn("int64", "tokens sent, all roles", "tokens"),
    "tokens_out": ParquetColumn("int64", "tokens answered, all roles", "tokens"),
    "usd": ParquetColumn(
        "double", "cost at known prices; null when a price is not known or an answer not metered", "USD"
    ),
    **{
        f"{role}_{name}": ParquetColumn("int64", f"{name} of the {role}, as the ledger counts")
        for role in ROLES
        for name in (each.name for each in fields(Usage))
    },
    "start": ParquetColumn("string", "what the memories held before the first trial"),
    "learnt_on": ParquetColumn("strings", "variants that this was learnt on"),
    **{f"provenance_{name}": ParquetColumn("string", f"{name} of the record's provenance") for name in PROVENANCE},
}

STEP = {
    **OF_BOTH,
    "step": ParquetColumn("int32", "number of the step, from 1"),
    "proposed": ParquetColumn("string", "the action as the actor wrote it"),
    "action": ParquetColumn("string", "what was sent; empty when the answer was malformed"),
    "observation": ParquetColumn("string", "what the action produced"),
    "look": ParquetColumn("string", "the surroundings after it"),
    "inventory": ParquetColumn("string", "the inventory after it"),
    "reward": ParquetColumn("int32", "change of the environment's score", POINTS),
    "score": ParquetColumn("int32", "the environment's score after it", POINTS),
    "accumulator": ParquetColumn("int32", "sum of positive rewards up to it", POINTS),
    "understood": ParquetColumn("bool", "whether the environment understood it"),
    "malformed": ParquetColumn("bool", "whether the model's answer held no action"),
    "asked_back": ParquetColumn("bool", "whether the environment asked which action was meant"),
    "no_effect": ParquetColumn("bool", "whether the action was understood and did nothing"),
    "unread": ParquetColumn("string", "what the model said, when that could not be read"),
    "reasoning": ParquetColumn("string", "what the actor said it thinks"),
    "subgoal": ParquetColumn("string", "target of the skill that the actor said it pursues"),
    "rejected": ParquetColumn("string", "what it gave as its subgoal, when that was not offered"),
    "recalled": ParquetColumn("strings", "ids of the skills in the prompt of this step"),
}

COLUMNS: Mapping[RowKind, Mapping[str, ParquetColumn]] = {"trials": TRIAL, "steps": STEP}
