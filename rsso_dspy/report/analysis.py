"""Analysis of a run's records, computed once. Tables, headline, figures, pages and data are functions of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any

from rsso_dspy.pricing import CostEntry, PriceOf, itemize_costs
from rsso_dspy.records import RULE_BASED_NOTE, RoleUsage, TrainingRecord, TrialsRecord, UnitRecord
from rsso_dspy.report import compare, cost, metrics
from rsso_dspy.report.statistics import MeanEstimate, apply_holm_correction, estimate_mean


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
class ContrastResult:
    asks: str  # the question
    comparison: compare.Comparison
    holm: float | None  # p value of its signed-rank test, corrected for the number of comparisons of the run
    gains: tuple[compare.StratumGain, ...]  # by stratum of the first arm

    @property
    def name(self) -> str:
        return f"{self.comparison.second} - {self.comparison.first}"


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
    learning: tuple[metrics.Learning, ...]
    estimates: Mapping[str, ScoreEstimates]  # of each arm that has a score
    measures: Mapping[str, metrics.TaskMeasures]  # arm to what AgentBoard and OmniReflect report of a task
    spent: Mapping[str, tuple[CostEntry, ...]]  # arm to the costs of its scored units, without interrupted trials
    costs: tuple[tuple[str, CostEntry], ...]  # of finished units, then trainings, each with its name in tables
    trainings: tuple[metrics.TrainingMetrics, ...]
    plays: Mapping[str, int]  # arm to the number of trials that its units may play
    tasks: tuple[TaskMeans, ...]
    findings: tuple[ContrastResult, ...]  # the main comparisons, by as many trials as the protocol allows
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
    def main_result(self) -> ContrastResult | None:
        """The main comparison: reflections beside skills if the run has it, as in the paper, otherwise the first."""
        beside = [each for each in self.findings if each.asks == compare.BESIDE_SKILLS]
        return next(iter([*beside, *self.findings]), None)

    def describe_errored(self) -> Iterator[str]:
        """Yield sentences on the units without a score: those that errored, and those that were skipped."""
        if count := sum(not each.is_skipped for each in self.errored):
            units, count_them = ("unit", "counts") if count == 1 else ("units", "count")
            yield f"{count} {units} ended in an error and {count_them} nowhere."
        if skipped := [f"{each.unit} of {each.arm}" for each in self.errored if each.is_skipped]:
            yield f"Skipped, as the environment refuses them: {', '.join(skipped)}."

    def name_missing_shards(self) -> str:
        return f"shard{'s' if len(self.missing_shards) > 1 else ''} {', '.join(self.missing_shards)}"

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
    plays = metrics.map_allowed_trials(arms)
    findings = tuple(_compare_all(arms, compare.select_contrasts(arms, against, every)))
    everything: list[UnitRecord | TrainingRecord] = [*played.records, *played.trainings]
    scored = {arm: metrics.select_scored_units(records) for arm, records in arms.items()}
    return Analysis(
        arms=tuple(metrics.compute_arm_metrics(arm, records) for arm, records in arms.items()),
        learning=tuple(metrics.compute_learning(arm, records) for arm, records in arms.items()),
        estimates={arm: _estimate_scores(records, plays[arm]) for arm, records in scored.items() if records},
        measures={arm: metrics.measure_tasks(records) for arm, records in arms.items()},
        spent={arm: tuple(itemize_costs(records, price_of)) for arm, records in scored.items()},
        costs=(
            *((entry.arm, entry) for entry in _sort_costs(played.records, price_of)),
            *((f"{entry.arm} (training)", entry) for entry in _sort_costs(played.trainings, price_of)),
        ),
        trainings=tuple(metrics.compute_training_metrics(played.trainings)),
        plays=plays,
        tasks=_compute_task_means(arms),
        findings=findings,
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


def _compare_all(
    arms: Mapping[str, Sequence[UnitRecord]], questions: Sequence[compare.Contrast]
) -> Iterator[ContrastResult]:
    compared = [
        compare.compare_arms(each.first, arms[each.first], each.second, arms[each.second]) for each in questions
    ]
    corrected = apply_holm_correction([each.wilcoxon.p for each in compared])
    for question, comparison, holm in zip(questions, compared, corrected, strict=True):
        first, second = arms[question.first], arms[question.second]
        one_trial = question.asks == compare.OVER_RETRIES and comparison.trials == 1  # which has no retries
        asks = compare.OVER_NONE if one_trial else question.asks
        gains = tuple(compare.compute_stratum_gains(first, second))
        yield ContrastResult(asks, comparison, holm, gains)


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
        "arms": [_serialize_arm(found, *rows) for rows in zip(found.arms, found.learning, strict=True)],
        "tasks": [asdict(task) for task in found.tasks],
        "measures": {arm: asdict(row) for arm, row in found.measures.items()},
        "bill": cost.serialize_cost_report(found.bill),
        "trainings": [asdict(row) for row in found.trainings],
        "comparisons": [_serialize_contrast_result(each) for each in found.findings],
        "squares": {program: asdict(each) for program, each in found.squares.items()},
        "errored": [asdict(each) for each in found.errored],
    }


def _serialize_arm(found: Analysis, row: metrics.ArmMetrics, learnt: metrics.Learning) -> dict[str, Any]:
    trials, held = ([asdict(each) for each in part] for part in (learnt.success, learnt.held))
    by_task = {task: {"solved": solved, "units": units} for task, (solved, units) in learnt.by_task.items()}
    newly = [trial.additional for trial in learnt.success]
    return {
        **asdict(row),
        "learning": {"newly_solved": newly, "trials_to": learnt.trials_to, "held": held},
        "cost": cost.total_billed(found.spent[row.arm]),
        "paid": found.bill.sum_arm(row.arm),
        "success": {"trials": trials, "by_task": by_task, "failures": dict(learnt.failures)},
    }


def _serialize_contrast_result(finding: ContrastResult) -> dict[str, Any]:
    data = {"asks": finding.asks, **asdict(finding.comparison), "holm": finding.holm}
    if interval := finding.comparison.interval:
        data["interval"]["detectable"] = interval.detectable_difference
    return data | {"gains": [asdict(gain) for gain in finding.gains]}
