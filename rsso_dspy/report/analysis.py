"""What the records of a run say, computed once. Tables, data and pages are made from it and compute nothing.

found = analyze_run(RunRecords(records), price_of)
found.arms, found.comparisons, found.squares
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from rsso_dspy.pricing import PriceOf
from rsso_dspy.records import RULE_BASED_NOTE, TrainingRecord, TrialsRecord, UnitRecord
from rsso_dspy.report.answer_checks import count_repeated_units, describe_mixed_models, find_unexpected_models
from rsso_dspy.report.comparison import (
    Comparison,
    Factorial2x2,
    StratumGain,
    compare_arms,
    compute_factorial,
    compute_stratum_gains,
    correct_p_values,
)
from rsso_dspy.report.contrasts import (
    BESIDE_SKILLS,
    OVER_NONE,
    OVER_RETRIES,
    Contrast,
    find_factorials,
    select_contrasts,
)
from rsso_dspy.report.cost_report import (
    CostReport,
    RoleUsage,
    build_cost_report,
    return_no_price,
    serialize_cost_report,
)
from rsso_dspy.report.learning_curves import LearningCurve, compute_learning_curve
from rsso_dspy.report.metrics import (
    ArmMetrics,
    TrainingMetrics,
    compute_arm_metrics,
    compute_training_metrics,
    get_best_accumulator,
    group_by_arm,
    have_same_units,
    map_allowed_trials,
    select_scored_units,
)
from rsso_dspy.report.running_totals import TokenCost, sum_record_cost


@dataclass(frozen=True, slots=True)
class RunRecords:
    """What the folder of a run tells."""

    records: Sequence[UnitRecord]
    trainings: Sequence[TrainingRecord] = ()
    begun: Sequence[TrialsRecord] = ()
    """Units and trainings that are not finished."""
    abandoned: Sequence[RoleUsage] = ()
    """What was spent that no record tells of."""
    dates: tuple[str, ...] = ()
    """When it was played: first and last day."""
    missing: int = 0
    """Units that were to be played and have no record."""
    under_way: Sequence[RoleUsage] = ()
    """What trials cost so far that are played now."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Role to model, where no record says it."""


@dataclass(frozen=True, slots=True)
class ContrastResult:
    """One comparison of the run."""

    question: Contrast
    comparison: Comparison
    holm: float | None
    """P value of its signed-rank test, corrected for all that the run asks."""
    gains: tuple[StratumGain, ...]
    """By what became of the unit in the first arm."""


@dataclass(frozen=True, slots=True)
class TaskMeans:
    """One task type: arm to its mean best accumulator over the units that it finished."""

    name: str
    units: int
    """Variants and seeds that any arm finished."""
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ErroredUnit:
    """A unit or training that ended in an error, and has no score."""

    arm: str
    unit: str
    seed: int
    error: str
    kind: str = ""
    """Kind of the failure, which quotes nothing."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """A run as numbers."""

    arms: tuple[ArmMetrics, ...]
    learning: tuple[LearningCurve, ...]
    spent: Mapping[str, TokenCost]
    """Arm to what its units with a score took, whoever paid for them; trials that were cut short are left out."""
    trainings: tuple[TrainingMetrics, ...]
    plays: Mapping[str, int]
    """Arm to the trials that its units may play."""
    tasks: tuple[TaskMeans, ...]
    findings: tuple[ContrastResult, ...]
    squares: Mapping[str, Factorial2x2]
    """Program to its 2x2 of skills and reflections."""
    errored: tuple[ErroredUnit, ...]
    bill: CostReport
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the results depend on: name to every value that occurs."""
    rule_based: bool = False
    alike: bool = True
    """All arms with a score have one for the same units."""
    missing: int = 0
    """Units that were to be played and have no record."""
    repeated: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Arm to its units whose trials are all equal, and to those of several trials; see `answers.repeated`."""
    mixed: tuple[str, ...] = ()
    """What is to be said of roles in which several models answered."""

    @property
    def main_pair(self) -> tuple[str, str] | None:
        """The two arms shown against each other where there is room for two."""
        return (self.main_result.question.first, self.main_result.question.second) if self.main_result else None

    @property
    def main_result(self) -> ContrastResult | None:
        """The comparison that is shown where there is room for one: reflections beside skills where that was asked, as
        in the paper, else the first."""
        beside = [each for each in self.findings if each.question.asks == BESIDE_SKILLS]
        return next(iter([*beside, *self.findings]), None)

    @property
    def rule_based_note(self) -> str:
        """What stands beside results of the rule-based model; empty when a language model acted."""
        return RULE_BASED_NOTE if self.rule_based else ""


def analyze_run(
    played: RunRecords, price_of: PriceOf = return_no_price, against: str | None = None, every: bool = False
) -> Analysis:
    """Everything that is said of a run. `against` and `every` choose the comparisons, as in `questions`, whose errors
    pass through."""
    arms = group_by_arm(played.records)
    wanted = select_contrasts(arms, against, every)
    compared = [compare_arms(q.first, arms[q.first], q.second, arms[q.second]) for q in wanted]
    found = {program: compute_factorial(corners) for program, corners in find_factorials(arms).items()}
    everything: list[UnitRecord | TrainingRecord] = [*played.records, *played.trainings]
    return Analysis(
        arms=tuple(compute_arm_metrics(arm, units) for arm, units in arms.items()),
        learning=tuple(compute_learning_curve(arm, units) for arm, units in arms.items()),
        spent={
            arm: sum((sum_record_cost(u, price_of) for u in units if not u.has_errors), TokenCost())
            for arm, units in arms.items()
        },
        trainings=tuple(compute_training_metrics(played.trainings)),
        plays=map_allowed_trials(arms),
        tasks=_compute_task_means(arms),
        findings=tuple(
            ContrastResult(
                _relabel_single_trial_contrast(question, comparison),
                comparison,
                holm,
                tuple(compute_stratum_gains(arms[question.first], arms[question.second])),
            )
            for question, comparison, holm in zip(wanted, compared, correct_p_values(compared), strict=True)
        ),
        squares={program: each for program, each in found.items() if each},
        errored=tuple(map(_unscored, filter(lambda record: record.has_errors, everything))),
        bill=build_cost_report(everything, played.begun, played.abandoned, price_of, played.under_way, played.models),
        facts={**collect_run_facts(everything), **({"played": played.dates} if played.dates else {})},
        rule_based=any(record.rule_based for record in everything),
        alike=have_same_units(arms.values()),
        missing=played.missing,
        repeated=count_repeated_units(arms),
        mixed=tuple(describe_mixed_models(everything)),
    )


def _unscored(record: UnitRecord | TrainingRecord) -> ErroredUnit:
    last = record.trials[-1]
    kind = last.failure.kind if last.failure else ""
    return ErroredUnit(record.arm, record.key, record.seed, last.error or "", kind)


def _relabel_single_trial_contrast(question: Contrast, comparison: Comparison) -> Contrast:
    """The question as it could be asked: over one trial there are no retries."""
    return replace(question, asks=OVER_NONE) if question.asks == OVER_RETRIES and comparison.trials == 1 else question


PROVENANCE = {
    "rsso_dspy": "rsso-dspy",
    "dspy": "dspy",
    "scienceworld": "scienceworld",
    "benchmark": "benchmark",
    "python": "python",
    "commit": "commit",
    "config_hash": "configuration",
    "prompts": "prompts",
    "forked_from": "taken over from",
}
"""Key of a record's provenance to what it is called."""


def collect_run_facts(records: Sequence[TrialsRecord]) -> dict[str, tuple[str, ...]]:
    """What results depend on, by name: protocol, models, seeds, versions, commit, configuration."""
    found: dict[str, set[str]] = {"protocol": set(), "actor": set(), "other roles": set(), "seed": set()}
    for record in records:
        found["protocol"].add(record.protocol)
        found["actor"].add(f"{record.model} (backend {record.backend})")
        asked = {role for trial in record.trials for role in trial.usage} & record.models.keys()
        others = {role: record.models[role] for role in asked if record.models[role] != record.model}
        found["other roles"] |= {f"{role} {model}" for role, model in others.items()}
        found["seed"].add(str(record.seed))
        for role, names in find_unexpected_models(record).items():
            found.setdefault("answered by", set()).update(f"{name} ({role})" for name in names)
        for key, name in PROVENANCE.items():
            if key in record.provenance:
                found.setdefault(name, set()).add(record.provenance[key])
    return {name: tuple(sorted(values)) for name, values in found.items() if values}


def serialize_analysis(found: Analysis) -> dict[str, Any]:
    """The whole as JSON data."""
    return {
        "facts": {name: list(values) for name, values in found.facts.items()},
        "rule_based": found.rule_based,
        "missing": found.missing,
        "alike": found.alike,
        "note": found.rule_based_note,
        "repeated": {arm: {"equal": equal, "units": units} for arm, (equal, units) in found.repeated.items()},
        "arms": [
            {**asdict(row), "learning": _serialize_learning_curve(learnt), "cost": found.spent[row.arm].cost}
            for row, learnt in zip(found.arms, found.learning, strict=True)
        ],
        "tasks": [asdict(task) for task in found.tasks],
        "bill": serialize_cost_report(found.bill),
        "trainings": [asdict(row) for row in found.trainings],
        "comparisons": [_serialize_contrast_result(each) for each in found.findings],
        "squares": {program: asdict(each) for program, each in found.squares.items()},
        "errored": [
            {"arm": each.arm, "unit": each.unit, "seed": each.seed, "error": each.error} for each in found.errored
        ],
    }


def _serialize_contrast_result(finding: ContrastResult) -> dict[str, Any]:
    comparison = asdict(finding.comparison)
    if finding.comparison.interval:
        comparison["interval"]["detectable"] = finding.comparison.interval.detectable_difference
    return {
        "asks": finding.question.asks,
        **comparison,
        "holm": finding.holm,
        "gains": [asdict(g) for g in finding.gains],
    }


def _serialize_learning_curve(learnt: LearningCurve) -> dict[str, Any]:
    data = asdict(learnt)
    del data["arm"], data["units"]
    return data


def _compute_task_means(arms: Mapping[str, Sequence[UnitRecord]]) -> tuple[TaskMeans, ...]:
    scores: dict[str, dict[str, list[float]]] = {}
    units: dict[str, set[tuple[int, int]]] = {}
    for arm, records in arms.items():
        for record in select_scored_units(records):
            scores.setdefault(record.variant.task, {}).setdefault(arm, []).append(get_best_accumulator(record))
            units.setdefault(record.variant.task, set()).add((record.variant.index, record.seed))
    return tuple(
        TaskMeans(name, len(units[name]), {arm: fmean(values) for arm, values in scores[name].items()})
        for name in sorted(scores)
    )
