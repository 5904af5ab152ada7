"""Analysis of a run's records, computed once. Tables, headline, figures, pages and data are functions of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from rsso_dspy.pricing import CostEntry, PriceOf, itemize_costs
from rsso_dspy.records import RULE_BASED_NOTE, RoleUsage, TrainingRecord, TrialsRecord, UnitRecord
from rsso_dspy.report import compare, cost, metrics
from rsso_dspy.report.statistics import MeanEstimate, estimate_mean


@dataclass(frozen=True, slots=True)
class RunRecords:
    """Everything read from the folder of a run."""

    records: Sequence[UnitRecord]
    trainings: Sequence[TrainingRecord] = ()
    begun: Sequence[TrialsRecord] = ()  # unfinished units and trainings
    abandoned: Sequence[RoleUsage] = ()  # usage of trials that are in no record
    dates: tuple[str, ...] = ()  # first and last day of play
    missing: int = 0  # number of planned units without a record
    missing_shards: Sequence[str] = ()  # parts `i/n` of the run that are not here
    under_way: Sequence[RoleUsage] = ()  # usage so far of the trials being played now
    models: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by arm and role, where no record names it
    answers: tuple[str, ...] = ()  # where those of an arm came from, if not from its own requests


@dataclass(frozen=True, slots=True)
class ScoreEstimates:
    """Scores of one arm with intervals, for figures."""

    scores: tuple[float, ...]  # best accumulator of each unit, ascending
    best_of_t: tuple[MeanEstimate, ...]  # after 1, 2, ... trials; a unit that stopped early keeps its best
    success: MeanEstimate  # percent of units that some trial solved


@dataclass(frozen=True, slots=True)
class TaskMeans:
    """Means of one task type: arm to the mean best accumulator of its finished units."""

    name: str
    units: int  # number of (variant, seed) pairs that any arm finished
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ErroredUnit:
    """A unit or training that ended in an error and has no score."""

    arm: str
    unit: str
    seed: int
    error: str
    is_skipped: bool = False  # refused by the environment: playing it again is of no use


@dataclass(frozen=True, slots=True)
class Analysis:
    arms: tuple[metrics.ArmMetrics, ...]
    estimates: Mapping[str, ScoreEstimates]  # of each arm that has a score
    spent: Mapping[str, tuple[CostEntry, ...]]  # arm to the costs of its scored units, without interrupted trials
    costs: tuple[tuple[str, CostEntry], ...]  # of finished units, then trainings, each with its name in tables
    trainings: tuple[metrics.TrainingMetrics, ...]
    plays: Mapping[str, int]  # arm to the number of trials that its units may play
    tasks: tuple[TaskMeans, ...]
    comparisons: tuple[compare.Comparison, ...]
    squares: Mapping[str, compare.Factorial2x2]  # program to its 2x2 of skills x reflections
    errored: tuple[ErroredUnit, ...]
    bill: cost.CostReport
    facts: Mapping[str, tuple[str, ...]]  # what the results depend on: name to all its values
    rule_based: bool
    alike: bool  # whether all scored arms have scores for the same units
    missing: int  # number of planned units without a record
    missing_shards: tuple[str, ...]  # parts `i/n` of the run that are not here, whose number of units is unknown
    repeated: Mapping[str, tuple[int, int]]  # see `count_repeated_units`

    @property
    def main_result(self) -> compare.Comparison | None:
        """The main comparison: reflections beside skills if the run has it, as in the paper, otherwise the first."""
        beside = [each for each in self.comparisons if each.asks == compare.BESIDE_SKILLS]
        return next(iter([*beside, *self.comparisons]), None)

    def describe_gaps(self) -> Iterator[str]:
        """Yield sentences on what is missing."""
        if self.missing:
            units = f"{self.missing:,} planned units have" if self.missing > 1 else "1 planned unit has"
            yield f"The run is incomplete: {units} no record."
        if shards := self.missing_shards:
            yield f"This is without shard{'s' * (len(shards) > 1)} {', '.join(shards)} of the run."

    @property
    def rule_based_note(self) -> str:
        """The note shown with results of the rule-based model; empty when a language model acted."""
        return RULE_BASED_NOTE if self.rule_based else ""


def analyze(
    units: RunRecords | Sequence[UnitRecord],
    price_of: PriceOf = cost.return_no_price,
    against: str | None = None,
    every: bool = False,
) -> Analysis:
    """Analyze a run. `against` and `every` select the comparisons as in `select_contrasts`, which may raise
    `UnknownName`."""
    played = units if isinstance(units, RunRecords) else RunRecords(units)
    arms = metrics.group_by_arm(played.records)
    plays = dict(zip(arms, metrics.list_allowed_trials(list(arms.values())), strict=True))
    everything: list[UnitRecord | TrainingRecord] = [*played.records, *played.trainings]
    scored = {arm: metrics.select_scored_units(records) for arm, records in arms.items()}
    return Analysis(
        arms=tuple(metrics.compute_arm_metrics(arm, records) for arm, records in arms.items()),
        estimates={arm: _estimate_scores(records, plays[arm]) for arm, records in scored.items() if records},
        spent={arm: tuple(itemize_costs(records, price_of)) for arm, records in scored.items()},
        costs=(
            *((entry.arm, entry) for entry in _sort_costs(played.records, price_of)),
            *((f"{entry.arm} (training)", entry) for entry in _sort_costs(played.trainings, price_of)),
        ),
        trainings=tuple(metrics.compute_training_metrics(played.trainings)),
        plays=plays,
        tasks=_compute_task_means(arms),
        comparisons=compare.compare_all(arms, against, every),
        squares=compare.compute_factorials(arms),
        errored=tuple(_describe_unscored(record) for record in everything if record.has_errors),
        bill=cost.build_cost_report(
            everything, played.begun, played.abandoned, price_of, played.under_way, played.models
        ),
        facts=collect_run_facts(everything) | {"played": played.dates, "answers": played.answers},
        rule_based=any(record.rule_based for record in everything),
        alike=metrics.have_same_units(arms.values()),
        missing=played.missing,
        missing_shards=tuple(played.missing_shards),
        repeated=metrics.count_repeated_units(arms),
    )


def _sort_costs(records: Sequence[TrialsRecord], price_of: PriceOf) -> list[CostEntry]:
    """Return costs by arm, in order of first appearance, then by role and model."""
    arms = list(metrics.group_by_arm(records))
    found = itemize_costs(records, price_of)
    return sorted(found, key=lambda entry: (arms.index(entry.arm), entry.role, entry.model))


def _estimate_scores(scored: Sequence[UnitRecord], trials: int) -> ScoreEstimates:
    tasks = [record.variant.task for record in scored]
    best = [[metrics.get_best_accumulator(record, trial) for record in scored] for trial in range(1, trials + 1)]
    solved = [100.0 * any(trial.solved for trial in record.trajectories) for record in scored]
    return ScoreEstimates(
        tuple(sorted(map(metrics.get_best_accumulator, scored))),
        tuple(estimate_mean(list(zip(tasks, scores, strict=True))) for scores in best),
        estimate_mean(list(zip(tasks, solved, strict=True))),
    )


def _describe_unscored(record: UnitRecord | TrainingRecord) -> ErroredUnit:
    skipped = isinstance(record, UnitRecord) and record.is_refused
    return ErroredUnit(record.arm, record.key, record.seed, record.trials[-1].error or "", skipped)


PROVENANCE = (
    {"rsso_dspy": "rsso-dspy"}
    | {name: name for name in ("dspy", "scienceworld", "benchmark", "python", "commit")}
    | {"config_hash": "configuration", "prompts": "prompts"}
)
"""Key of a record's provenance to its name in reports."""


def collect_run_facts(records: Sequence[TrialsRecord]) -> dict[str, tuple[str, ...]]:
    """Return what the results depend on, by name: protocol, models, seeds, versions, commit, configuration."""
    found: dict[str, set[str]] = {"protocol": set(), "actor": set(), "other roles": set(), "seed": set()}
    for record in records:
        found["protocol"].add(record.protocol)
        found["actor"].add(f"{record.model} (backend {record.backend})")
        asked = {role for trial in record.trials for role in trial.usage} & record.models.keys()
        others = {role: record.models[role] for role in asked if record.models[role] != record.model}
        found["other roles"] |= {f"{role} {model}" for role, model in others.items()}
        found["seed"].add(str(record.seed))
        for role, names in metrics.find_unexpected_models(record).items():
            found.setdefault("answered by", set()).update(f"{name} ({role})" for name in names)
        for key, name in PROVENANCE.items():
            if key in record.provenance:
                found.setdefault(name, set()).add(record.provenance[key])
    return {name: tuple(sorted(values)) for name, values in found.items() if values}


def _compute_task_means(arms: Mapping[str, Sequence[UnitRecord]]) -> tuple[TaskMeans, ...]:
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    units: dict[str, set[metrics.UnitKey]] = defaultdict(set)
    for arm, records in arms.items():
        for record in metrics.select_scored_units(records):
            scores[record.variant.task][arm].append(metrics.get_best_accumulator(record))
            units[record.variant.task].add(metrics.get_unit_key(record))
    return tuple(
        TaskMeans(name, len(units[name]), {arm: fmean(values) for arm, values in scores[name].items()})
        for name in sorted(scores)
    )


def serialize_analysis(found: Analysis) -> dict[str, Any]:
    return {
        "facts": {name: list(values) for name, values in found.facts.items() if values},
        "rule_based": found.rule_based,
        "missing": found.missing,
        "missing_shards": list(found.missing_shards),
        "alike": found.alike,
        "note": found.rule_based_note,
        "repeated": {arm: {"equal": equal, "units": units} for arm, (equal, units) in found.repeated.items()},
        "arms": [_serialize_arm(found, row) for row in found.arms],
        "tasks": list(map(asdict, found.tasks)),
        "measures": {row.arm: _serialize_measures(row) for row in found.arms},
        "bill": cost.serialize_cost_report(found.bill),
        "trainings": list(map(asdict, found.trainings)),
        "comparisons": [_serialize_comparison(each) for each in found.comparisons],
        "squares": {program: asdict(each) for program, each in found.squares.items()},
        "errored": list(map(asdict, found.errored)),
    }


MEASURES = ("progress", "grounding", "turns", "most_calls", "rules", "writings")
"""What AgentBoard and OmniReflect report of a task."""


def _serialize_measures(row: metrics.ArmMetrics) -> dict[str, Any]:
    data = asdict(row)
    same = {"units": row.units, "solved": row.solve, "calls": row.calls_per_unit}
    return same | {name: data[name] for name in MEASURES}


def _serialize_arm(found: Analysis, row: metrics.ArmMetrics) -> dict[str, Any]:
    learnt = row.learning
    held = [
        {"reflections": count, "trials": trials, "solved": solved} for count, (solved, trials) in learnt.held.items()
    ]
    by_task = {task: {"solved": solved, "units": units} for task, (solved, units) in learnt.by_task.items()}
    newly = [trial.additional for trial in learnt.success]
    return {
        **{name: value for name, value in asdict(row).items() if name not in MEASURES},
        "learning": {"newly_solved": newly, "trials_to": learnt.trials_to, "held": held},
        "cost": cost.total_billed(found.spent[row.arm]),
        "paid": found.bill.sum_arm(row.arm),
        "success": {"trials": list(map(asdict, learnt.success)), "by_task": by_task, "failures": dict(learnt.failures)},
    }


def _serialize_comparison(pair: compare.Comparison) -> dict[str, Any]:
    data = asdict(pair)
    if pair.interval:
        data["interval"]["detectable"] = pair.interval.detectable_difference
    return data
