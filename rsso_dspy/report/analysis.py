"""What the records of a run say, computed once. Tables, data and pages are made from it and compute nothing.

found = analyse(Played(records), price_of)
found.arms, found.comparisons, found.squares
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean
from typing import Any

from rsso_dspy.money import PriceOf
from rsso_dspy.report.answers import answered, answered_notes, repeated
from rsso_dspy.report.bills import Abandoned, Bill, bill_json, bill_of, unpriced
from rsso_dspy.report.comparison import Comparison, Gain, Square, compare, corrected, gains, square
from rsso_dspy.report.learning import Learning, learning
from rsso_dspy.report.metrics import (
    ArmMetrics,
    TrainingMetrics,
    alike,
    best_accumulator,
    by_arm,
    finished,
    metrics,
    plays,
    training_metrics,
)
from rsso_dspy.report.questions import BESIDE_SKILLS, OVER_NONE, OVER_RETRIES, Question, questions, squares
from rsso_dspy.report.tally import Spent, taken
from rsso_dspy.trajectory import RULE_BASED_NOTE, Record, TrainingRecord, UnitRecord


@dataclass(frozen=True, slots=True)
class Played:
    """What the folder of a run tells."""

    records: Sequence[UnitRecord]
    trainings: Sequence[TrainingRecord] = ()
    begun: Sequence[Record] = ()
    """Units and trainings that are not finished."""
    abandoned: Sequence[Abandoned] = ()
    """What was spent that no record tells of."""
    dates: tuple[str, ...] = ()
    """When it was played: first and last day."""
    missing: int = 0
    """Units that were to be played and have no record."""
    under_way: Sequence[Abandoned] = ()
    """What trials cost so far that are played now."""
    models: Mapping[str, str] = field(default_factory=dict)
    """Role to model, where no record says it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison of the run."""

    question: Question
    comparison: Comparison
    holm: float | None
    """P value of its signed-rank test, corrected for all that the run asks."""
    gains: tuple[Gain, ...]
    """By what became of the unit in the first arm."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task type: arm to its mean best accumulator over the units that it finished."""

    name: str
    units: int
    """Variants and seeds that any arm finished."""
    means: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Unscored:
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
    learning: tuple[Learning, ...]
    spent: Mapping[str, Spent]
    """Arm to what its units with a score took, whoever paid for them; trials that were cut short are left out."""
    trainings: tuple[TrainingMetrics, ...]
    plays: Mapping[str, int]
    """Arm to the trials that its units may play."""
    tasks: tuple[Task, ...]
    findings: tuple[Finding, ...]
    squares: Mapping[str, Square]
    """Program to its 2x2 of skills and reflections."""
    errored: tuple[Unscored, ...]
    bill: Bill
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
    def pair(self) -> tuple[str, str] | None:
        """The two arms shown against each other where there is room for two."""
        return (self.shown.question.first, self.shown.question.second) if self.shown else None

    @property
    def shown(self) -> Finding | None:
        """The comparison that is shown where there is room for one: reflections beside skills where that was asked, as
        in the paper, else the first."""
        beside = [each for each in self.findings if each.question.asks == BESIDE_SKILLS]
        return next(iter([*beside, *self.findings]), None)

    @property
    def note(self) -> str:
        """What stands beside results of the rule-based model; empty when a language model acted."""
        return RULE_BASED_NOTE if self.rule_based else ""


def analyse(played: Played, price_of: PriceOf = unpriced, against: str | None = None, every: bool = False) -> Analysis:
    """Everything that is said of a run. `against` and `every` choose the comparisons, as in `questions`, whose errors
    pass through."""
    arms = by_arm(played.records)
    wanted = questions(arms, against, every)
    compared = [compare(q.first, arms[q.first], q.second, arms[q.second]) for q in wanted]
    found = {program: square(corners) for program, corners in squares(arms).items()}
    everything: list[UnitRecord | TrainingRecord] = [*played.records, *played.trainings]
    return Analysis(
        arms=tuple(metrics(arm, units) for arm, units in arms.items()),
        learning=tuple(learning(arm, units) for arm, units in arms.items()),
        spent={arm: sum((taken(u, price_of) for u in units if not u.errored), Spent()) for arm, units in arms.items()},
        trainings=tuple(training_metrics(played.trainings)),
        plays=plays(arms),
        tasks=_tasks(arms),
        findings=tuple(
            Finding(
                _put(question, comparison), comparison, holm, tuple(gains(arms[question.first], arms[question.second]))
            )
            for question, comparison, holm in zip(wanted, compared, corrected(compared), strict=True)
        ),
        squares={program: each for program, each in found.items() if each},
        errored=tuple(map(_unscored, filter(lambda record: record.errored, everything))),
        bill=bill_of(everything, played.begun, played.abandoned, price_of, played.under_way, played.models),
        facts={**facts(everything), **({"played": played.dates} if played.dates else {})},
        rule_based=any(record.rule_based for record in everything),
        alike=alike(arms.values()),
        missing=played.missing,
        repeated=repeated(arms),
        mixed=tuple(answered_notes(everything)),
    )


def _unscored(record: UnitRecord | TrainingRecord) -> Unscored:
    last = record.trials[-1]
    kind = last.failure.kind if last.failure else ""
    return Unscored(record.arm, record.key, record.seed, last.error or "", kind)


def _put(question: Question, comparison: Comparison) -> Question:
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


def facts(records: Sequence[Record]) -> dict[str, tuple[str, ...]]:
    """What results depend on, by name: protocol, models, seeds, versions, commit, configuration."""
    found: dict[str, set[str]] = {"protocol": set(), "actor": set(), "other roles": set(), "seed": set()}
    for record in records:
        found["protocol"].add(record.protocol)
        found["actor"].add(f"{record.model} (backend {record.backend})")
        asked = {role for trial in record.trials for role in trial.usage} & record.models.keys()
        others = {role: record.models[role] for role in asked if record.models[role] != record.model}
        found["other roles"] |= {f"{role} {model}" for role, model in others.items()}
        found["seed"].add(str(record.seed))
        for role, names in answered(record).items():
            found.setdefault("answered by", set()).update(f"{name} ({role})" for name in names)
        for key, name in PROVENANCE.items():
            if key in record.provenance:
                found.setdefault(name, set()).add(record.provenance[key])
    return {name: tuple(sorted(values)) for name, values in found.items() if values}


def as_json(found: Analysis) -> dict[str, Any]:
    """The whole as JSON data."""
    return {
        "facts": {name: list(values) for name, values in found.facts.items()},
        "rule_based": found.rule_based,
        "missing": found.missing,
        "alike": found.alike,
        "note": found.note,
        "repeated": {arm: {"equal": equal, "units": units} for arm, (equal, units) in found.repeated.items()},
        "arms": [
            {**asdict(row), "learning": _learning_json(learnt), "cost": found.spent[row.arm].cost}
            for row, learnt in zip(found.arms, found.learning, strict=True)
        ],
        "tasks": [asdict(task) for task in found.tasks],
        "bill": bill_json(found.bill),
        "trainings": [asdict(row) for row in found.trainings],
        "comparisons": [_finding_json(each) for each in found.findings],
        "squares": {program: asdict(each) for program, each in found.squares.items()},
        "errored": [
            {"arm": each.arm, "unit": each.unit, "seed": each.seed, "error": each.error} for each in found.errored
        ],
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    comparison = asdict(finding.comparison)
    if finding.comparison.interval:
        comparison["interval"]["detectable"] = finding.comparison.interval.detectable
    return {
        "asks": finding.question.asks,
        **comparison,
        "holm": finding.holm,
        "gains": [asdict(g) for g in finding.gains],
    }


def _learning_json(learnt: Learning) -> dict[str, Any]:
    data = asdict(learnt)
    del data["arm"], data["units"]
    return data


def _tasks(arms: Mapping[str, Sequence[UnitRecord]]) -> tuple[Task, ...]:
    scores: dict[str, dict[str, list[float]]] = {}
    units: dict[str, set[tuple[int, int]]] = {}
    for arm, records in arms.items():
        for record in finished(records):
            scores.setdefault(record.variant.task, {}).setdefault(arm, []).append(best_accumulator(record))
            units.setdefault(record.variant.task, set()).add((record.variant.index, record.seed))
    return tuple(
        Task(name, len(units[name]), {arm: fmean(values) for arm, values in scores[name].items()})
        for name in sorted(scores)
    )
