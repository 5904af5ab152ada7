"""The columns of an exported run: names, types, descriptions and units.

COLUMNS["trials"]["accumulator"]      # ParquetColumn(type="int32", description="sum of positive rewards, ...",
unit=...)
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal, NamedTuple

from rsso_dspy.records import Usage

RowKind = Literal["trials", "steps"]
"""Kinds of rows."""

ROLES = ("actor", "reflector", "verbalizer", "advisor")
"""Roles with columns for their usage."""

PROVENANCE = (
    "config_hash", "prompts", "program", "rsso_dspy", "scienceworld", "benchmark", "dspy", "python", "commit"
)  # fmt: skip


class ParquetColumn(NamedTuple):
    """One column: name of its Arrow type, description, and unit."""

    type: str
    description: str
    unit: str = ""


POINTS = "points of 100"

OF_BOTH = {
    "kind": ParquetColumn(
        "string", "unit (on a held-out variant, part of the comparison) or training (of the transfer setting)"
    ),
    "arm": ParquetColumn("string", "method and program, a row of the comparison"),
    "method": ParquetColumn("string", "method"),
    "program": ParquetColumn("string", "zero-shot, or the name of the compiled program"),
    "task": ParquetColumn("string", "task type"),
    "variant": ParquetColumn("string", "task::index; null for a training's trial that errored"),
    "index": ParquetColumn("int32", "index of the variant in its task"),
    "seed": ParquetColumn("int64", "seed of the unit"),
    "trial": ParquetColumn("int32", "number of the trial, from 1"),
}
"""Columns of both kinds of rows: which unit and trial a row belongs to."""

TRIAL = {
    **OF_BOTH,
    "protocol": ParquetColumn("string", "protocol; scores are comparable under one protocol only"),
    "backend": ParquetColumn("string", "name of the backend"),
    "model": ParquetColumn("string", "model that acted, provider/model"),
    "rule_based": ParquetColumn("bool", "whether the offline rule-based model answered in any role"),
    "outcome": ParquetColumn("string", "solved, failed, budget, stalled, repeated, exhausted or error"),
    "accumulator": ParquetColumn("int32", "sum of positive rewards, the paper's score", POINTS),
    "points_at_reset": ParquetColumn(
        "int32", "points that the variant holds after reset, not part of the accumulator", POINTS
    ),
    "environment_score": ParquetColumn("int32", "the environment's own score at the end, -100 to 100", POINTS),
    "solved": ParquetColumn("bool", "whether the environment's score reached 100"),
    "best_so_far": ParquetColumn(
        "int32", "best accumulator of the unit's trials up to this one; null in trainings", POINTS
    ),
    "trials_allowed": ParquetColumn(
        "int32", "trials that the unit may play, null where nobody said; for a training, its episodes"
    ),
    "budget": ParquetColumn("int32", "steps allowed", "steps"),
    "steps": ParquetColumn("int32", "steps taken", "steps"),
    "invalid": ParquetColumn("int32", "steps that were malformed or that the environment did not understand", "steps"),
    "malformed": ParquetColumn("int32", "steps at which the model's answer held no action", "steps"),
    "asked_back": ParquetColumn(
        "int32", "steps that the environment answered by asking which action was meant", "steps"
    ),
    "no_effect": ParquetColumn("int32", "steps whose action was understood and changed nothing", "steps"),
    "error": ParquetColumn("string", "error that ended the trial, if infrastructure failed; may quote a server"),
    "unit_errored": ParquetColumn("bool", "whether any trial of the unit errored; the report leaves such units out"),
    "unit_stalled": ParquetColumn("int32", "trials of the unit that stalled; the report's means include them"),
    "replayed": ParquetColumn("int32", "how often the trial was played again because the simulator died"),
    "failed_requests": ParquetColumn("int64", "failed requests of all kinds", "requests"),
    "reflections_held": ParquetColumn("int32", "reflections at the start; null if unknown or without that memory"),
    "library_size": ParquetColumn(
        "int32", "skills in the library at the start; null if unknown or without that memory"
    ),
    "skills_shown": ParquetColumn("int32", "distinct skills shown in the trial's prompts"),
    "calls": ParquetColumn("int64", "model calls of all roles", "calls"),
    "tokens_in": ParquetColumn("int64", "input tokens of all roles", "tokens"),
    "tokens_out": ParquetColumn("int64", "output tokens of all roles", "tokens"),
    "usd": ParquetColumn(
        "double",
        "cost at known prices; null if a price is unknown or the usage of an answer was not reported",
        "USD",
    ),
    **{
        f"{role}_{name}": ParquetColumn("int64", f"{name} of the {role}, from the ledger of the trial")
        for role in ROLES
        for name in (each.name for each in fields(Usage))
    },
    "start": ParquetColumn("string", "source of the memories before the first trial; empty if they were empty"),
    "learnt_on": ParquetColumn("strings", "variants that these memories were learned on"),
    **{f"provenance_{name}": ParquetColumn("string", f"{name} of the record's provenance") for name in PROVENANCE},
}

STEP = {
    **OF_BOTH,
    "step": ParquetColumn("int32", "number of the step, from 1"),
    "proposed": ParquetColumn("string", "the action as the actor wrote it"),
    "action": ParquetColumn("string", "the action sent to the environment; empty when the answer was malformed"),
    "observation": ParquetColumn("string", "the environment's answer to the action"),
    "look": ParquetColumn("string", "the surroundings after the step"),
    "inventory": ParquetColumn("string", "the inventory after the step"),
    "reward": ParquetColumn("int32", "change of the environment's score", POINTS),
    "score": ParquetColumn("int32", "the environment's score after the step", POINTS),
    "accumulator": ParquetColumn("int32", "sum of positive rewards up to and including the step", POINTS),
    "understood": ParquetColumn("bool", "whether the environment understood the action"),
    "malformed": ParquetColumn("bool", "whether the model's answer held no action"),
    "asked_back": ParquetColumn("bool", "whether the environment asked which action was meant"),
    "no_effect": ParquetColumn("bool", "whether the action was understood and changed nothing"),
    "unread": ParquetColumn("string", "the model's answer, if it could not be read"),
    "reasoning": ParquetColumn("string", "the reasoning in the actor's answer"),
    "subgoal": ParquetColumn("string", "target of the skill that the actor named as its subgoal"),
    "rejected": ParquetColumn("string", "the subgoal in the actor's answer, if it was not offered"),
    "recalled": ParquetColumn("strings", "ids of the skills in the prompt of this step"),
}

COLUMNS: Mapping[RowKind, Mapping[str, ParquetColumn]] = {"trials": TRIAL, "steps": STEP}
