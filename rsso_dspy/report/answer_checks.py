"""What the records tell of requests and answers: trials that repeat each other, and models that answered under other
names than were asked for."""

from collections.abc import Mapping, Sequence

from rsso_dspy.records import TrialsRecord, UnitRecord


def count_repeated_units(arms: Mapping[str, Sequence[UnitRecord]]) -> dict[str, tuple[int, int]]:
    """Arm to the units in which all trials, of two or more, are equal action by action, and to the units of two trials
    or more. Arms without such a unit are left out, and units of the rule-based model."""
    found = {}
    for arm, records in arms.items():
        played = [record.trajectories for record in records if not record.rule_based]
        again = [trials for trials in played if len(trials) > 1]
        equal = sum(len({tuple(step.action for step in trial.steps) for trial in trials}) == 1 for trials in again)
        if equal:
            found[arm] = (equal, len(again))
    return found


def describe_repeated_units(found: Mapping[str, tuple[int, int]]) -> list[str]:
    """In words."""
    if not found:
        return []
    counts = ", ".join(f"{arm} {equal} of {units}" for arm, (equal, units) in found.items())
    return [
        f"Units whose trials are all equal, action by action, of those with several: {counts}. Trials that repeat each "
        "other add nothing to the best of them, and are no control of retries; see protocol.retry_temperature."
    ]


def find_unexpected_models(record: TrialsRecord) -> dict[str, set[str]]:
    """Role to the names under which its models answered, where they are not the one that was asked for."""
    found: dict[str, set[str]] = {}
    for trial in record.trials:
        for role, names in trial.answered.items():
            asked = record.models.get(role, record.model)
            others = {name for name in names if name not in (asked, asked.partition("/")[2])}
            if others or len(names) > 1:
                found.setdefault(role, set()).update(names if len(names) > 1 else others)
    return found


def describe_mixed_models(records: Sequence[TrialsRecord]) -> list[str]:
    """What is to be said of a role that several models answered in, of which its arms' scores are a mixture."""
    names: dict[tuple[str, str], set[str]] = {}
    for record in records:
        for trial in record.trials:
            for role, said in trial.answered.items():
                names.setdefault((role, record.models.get(role, record.model)), set()).update(said)
    return [
        f"{asked} answered as {role} under {len(said)} names: {', '.join(sorted(said))}. Scores mix them."
        for (role, asked), said in names.items()
        if len(said) > 1
    ]
