"""What AgentBoard and OmniReflect report of a task beside its score: progress, grounding, calls, turns and rules.

measure_tasks(records).progress         # 0.61
build_measures_table({"react": measure_tasks(records)})
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from rsso_dspy.records import SOLVED_SCORE, Trajectory, UnitRecord, Usage
from rsso_dspy.report import cells
from rsso_dspy.report.cells import NOTHING, Cell
from rsso_dspy.report.table_data import Sheet

CATEGORIES = ("abstract", "error", "progress")


@dataclass(frozen=True, slots=True)
class TaskMeasures:
    """Measures of one arm over its units without errors. Means are None without units."""

    units: int
    solved: int
    """Units with score 100 on any trial."""
    solved_by_own_rule: int | None
    """The same by the environment's own rule, where records name it because it differs from the score's."""
    judged_by_own_rule: int
    """Units whose records name it."""
    progress: float | None
    """AgentBoard's progress rate, 0 to 1: the highest score of a unit, averaged over units."""
    grounding: float | None
    """AgentBoard's grounding accuracy, 0 to 1: share of a trial's steps that the environment understood, averaged over
    trials."""
    grounding_repeated: float | None
    """The same if a step without effect counts as the step before it did, as in a game of AgentBoard's; None where that
    changes nothing, and for the default benchmark."""
    turns: float | None
    """Steps of all trials of a unit, averaged (OmniReflect, Figure 3)."""
    calls: float | None
    """Model calls of all roles and trials of a unit, averaged (OmniReflect, Figure 3)."""
    most_calls: int
    """Model calls of the unit with the most."""
    rules: Mapping[str, float] | None
    """Category to rules: lasting ones in the constitution after the last unit of a stream, averaged over streams,
    progress ones shown per unit; None without a constitution."""
    writings: Usage
    """Usage of the advisor, who writes and summarizes rules: its ``malformed`` answers could not be parsed, its
    ``repaired`` ones violated the format."""


def measure_tasks(records: Sequence[UnitRecord]) -> TaskMeasures:
    """Measure the units of one arm."""
    kept = [record for record in records if not record.has_errors]
    trials = [trajectory for record in kept for trajectory in record.trajectories]
    calls = [sum(usage.calls for trial in record.trials for usage in trial.usage.values()) for record in kept]
    writings = [trial.usage["advisor"] for r in kept for trial in r.trials if "advisor" in trial.usage]
    played = [each for each in trials if each.steps]
    grounding = _average([1 - each.invalid_actions / len(each.steps) for each in played])
    here = all("benchmark" in record.provenance for record in kept)
    repeated = _average([1 - _count_ungrounded(each) / len(each.steps) for each in played]) if here else None
    own = [verdict for record in kept if (verdict := _find_own_verdict(record)) is not None]
    return TaskMeasures(
        units=len(kept),
        solved=sum(any(trajectory.solved for trajectory in record.trajectories) for record in kept),
        solved_by_own_rule=sum(own) if own else None,
        judged_by_own_rule=len(own),
        progress=_average([max(map(_get_progress, record.trajectories)) for record in kept]),
        grounding=grounding,
        grounding_repeated=None if repeated == grounding else repeated,
        turns=_average([sum(len(each.steps) for each in record.trajectories) for record in kept]),
        calls=_average(calls),
        most_calls=max(calls, default=0),
        rules=_count_rules(kept),
        writings=sum(writings, Usage()),
    )


def build_measures_table(arms: Mapping[str, TaskMeasures]) -> Sheet:
    """Measures per task of every arm. Columns about rules and the environment's own rule appear where there are any."""
    own = any(row.solved_by_own_rule is not None for row in arms.values())
    ruled = any(row.rules is not None for row in arms.values())
    columns = ["arm", "units", "Success", *(["own rule"] if own else []), "progress", "grounding", "turns/task"]
    columns += ["calls/task", "most calls"]
    columns += [*CATEGORIES, "rule lists", "malformed", "repaired"] if ruled else []
    rows = []
    for name, row in arms.items():
        made = [cells.format_text(name), cells.format_count(row.units), cells.format_share(row.solved, row.units)]
        if own:
            verdict = row.solved_by_own_rule
            made.append(Cell(NOTHING) if verdict is None else cells.format_share(verdict, row.judged_by_own_rule))
        made += [cells.format_percent(row.progress), cells.format_percent(row.grounding)]
        made += [
            cells.format_points(row.turns, 1),
            cells.format_points(row.calls, 1),
            cells.format_count(row.most_calls),
        ]
        if ruled:
            known = row.rules
            made += [cells.format_points(None if known is None else known[name], 1) for name in CATEGORIES]
            lists = row.writings.calls
            made.append(cells.format_count(lists))
            bad = (row.writings.malformed, row.writings.repaired)
            made += [cells.format_percent(count / lists if lists else None) for count in bad]
        rows.append(tuple(made))
    notes = [
        "Success: units with score 100 on any trial; progress: the highest score of a unit; grounding: share of a "
        "trial's steps that the environment understood (AgentBoard). Turns and calls are those of all trials of a unit."
    ]
    if own:
        notes.append("own rule: success by the environment's own rule, where the score follows other labels.")
    if other := {name: row.grounding_repeated for name, row in arms.items() if row.grounding_repeated is not None}:
        shares = ", ".join(f"{cells.format_percent(share).text} for {name}" for name, share in other.items())
        notes.append(
            f"grounding is {shares} if a step without effect repeats the verdict of the step before it, as AgentBoard "
            "counts `go to` without a move."
        )
    if ruled:
        notes.append(
            "abstract, error: rules in the constitution after the last unit; progress: rules shown per unit. Rule "
            "lists are a model's answers as rule writer; malformed ones could not be read, repaired ones broke "
            "the format."
        )
    return Sheet("measures", "Per task", tuple(columns), tuple(rows), tuple(notes))


def _get_progress(trajectory: Trajectory) -> float:
    return max((step.score for step in trajectory.steps), default=trajectory.points_at_reset) / SOLVED_SCORE


def _count_ungrounded(trajectory: Trajectory) -> int:
    """Count the steps that are not valid if one without effect counts as the step before it did."""
    count, valid = 0, False
    for step in trajectory.steps:
        valid = valid if step.no_effect else step.understood
        count += not valid
    return count


def _find_own_verdict(record: UnitRecord) -> bool | None:
    """Whether any trial succeeded by the environment's own rule; None where records do not name it."""
    ends = [trajectory.steps[-1].own_success for trajectory in record.trajectories if trajectory.steps]
    return None if all(end is None for end in ends) else any(ends)


def _count_rules(records: Sequence[UnitRecord]) -> dict[str, float] | None:
    held = [record for record in records if "constitution" in record.memories]
    if not held:
        return None
    last: dict[tuple[str, int], UnitRecord] = {}
    for record in sorted(held, key=lambda record: record.stream.place if record.stream else 0):
        stream = record.stream.name.rpartition(" of ")[2] if record.stream else record.key  # "3/36 of 1f0c9a"
        last[stream, record.seed] = record
    books = [record.memories["constitution"].get("rules", ()) for record in last.values()]
    standing = [Counter(rule["category"] for rule in rules) for rules in books]
    noted = [
        {
            line
            for trial in record.trials
            for region, text in trial.shown.items()
            if region.startswith("progress@")
            for line in text.splitlines()
        }
        for record in held
    ]
    lasting = {name: fmean(counts[name] for counts in standing) for name in ("abstract", "error")}
    return {**lasting, "progress": fmean(map(len, noted))}


def _average(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None
