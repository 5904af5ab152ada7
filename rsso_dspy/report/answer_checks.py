"""Checks of requests and answers in records: repeated trials, and models that reported other names."""

from collections.abc import Mapping, Sequence

from rsso_dspy.records import TrialsRecord, UnitRecord


def count_repeated_units(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, tuple[int, int]]:
    """Count per arm the units whose trials are all equal action by action, and the units of two trials or more.

    Leaves out arms without such units, and units of the rule-based model.
    """
    found = {}
    for arm, records in arms.items():
        played = [record.trajectories for record in records if not record.rule_based]
        again = [trials for trials in played if len(trials) > 1]
        equal = sum(len({tuple(step.action for step in trial.steps) for trial in trials}) == 1 for trials in again)
        if equal:
            found[arm] = (equal, len(again))
    return found


def describe_repeated_units(found: Mapping[str, tuple[int, int]]) -> list[str]:
    """Describe the counts of `count_repeated_units`; no lines if there are none."""
    if not found:
        return []
    counts = ", ".join(f"{arm} {equal} of {units}" for arm, (equal, units) in found.items())
    return [
        f"Units of several trials in which every trial took the same actions: {counts}. Such trials cannot raise the "
        "best score and are no control for retries; see protocol.retry_temperature."
    ]


def find_unexpected_models(record: TrialsRecord) -> dict[str, set[str]]:
    """Return the reported model names by role, where they differ from the requested one."""
    found: dict[str, set[str]] = {}
    for trial in record.trials:
        for role, names in trial.answered.items():
            asked = record.models.get(role, record.model)
            others = {name for name in names if name not in (asked, asked.partition("/")[2])}
            if others or len(names) > 1:
                found.setdefault(role, set()).update(names if len(names) > 1 else others)
    return found


def describe_mixed_models(records: Sequence[TrialsRecord]) -> list[str]:
    """Describe roles that several models answered; the scores mix these models."""
    names: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for trial in record.trials:
            for role, said in trial.answered.items():
                names.setdefault((role, record.models.get(role, record.model)), set()).update(said)
    return [
        f"{asked} answered as {role} under {len(said)} names: {', '.join(sorted(said))}. The scores mix them."
        for (role, asked), said in names.items()
        if len(said) > 1
    ]
