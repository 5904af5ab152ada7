"""Analysis of a run's records and costs, computed once. Tables, headline, figures, pages and data are made of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from statistics import fmean
from typing import Any

from rsso_dspy.errors import UnknownName
from rsso_dspy.power import MARGIN
from rsso_dspy.pricing import CostEntry, PriceOf, format_dollars, itemize_costs, price_usage, sum_amounts
from rsso_dspy.records import (
    RULE_BASED_NOTE,
    ZERO_SHOT,
    Announcement,
    RoleUsage,
    TrainingRecord,
    TrialsRecord,
    UnitRecord,
    Usage,
)
from rsso_dspy.report import compare, metrics
from rsso_dspy.report.intervals import MeanEstimate, UnitValue, estimate_mean
from rsso_dspy.report.limits import describe_limits
from rsso_dspy.report.repeats import find_dependence
from rsso_dspy.report.room import Room, measure_room
from rsso_dspy.report.rounds import compare_rounds
from rsso_dspy.sign_flips import SIGNIFICANT


@dataclass(frozen=True, slots=True)
class RunRecords:
    """Everything read from the folder of a run."""

    records: Sequence[UnitRecord]
    trainings: Sequence[TrainingRecord] = ()
    begun: Sequence[TrialsRecord] = ()  # unfinished units and trainings
    abandoned: Sequence[RoleUsage] = ()  # usage of trials that are in no record
    dates: tuple[str, ...] = ()  # first and last day of play
    missing: Mapping[str, int] = field(default_factory=dict)  # arm to its planned units without a record
    missing_shards: Sequence[str] = ()  # parts `i/n` of the run that are not here
    under_way: Sequence[RoleUsage] = ()  # usage so far of the trials being played now
    models: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by arm and role, where no record names it
    answers: tuple[str, ...] = ()  # where those of an arm came from, if not from its own requests
    advisors: Mapping[str, str] = field(default_factory=dict)  # arm to who wrote the constitution that it starts from
    success_only: bool = False  # whether nothing is known of a trial but whether it was solved
    remarks: Sequence[str] = ()  # sentences of who read the records, on what was left out or could not be known
    set_aside: Sequence[RoleUsage] = ()  # usage that can still be read of damaged logs
    unreadable_lines: int = 0  # lines of damaged logs whose usage is unknown
    announced: Announcement | None = None  # of a run in rounds


# Costs, as billed, and as they would be without the provider's cache.


def total_usage(entries: Iterable[CostEntry]) -> Usage:
    return sum((entry.usage for entry in entries), Usage())


def total_billed(entries: Iterable[CostEntry]) -> float | None:
    return sum_amounts(entry.billed for entry in entries)


@dataclass(frozen=True, slots=True)
class CostReport:
    """Cost of everything in a run's folder in US dollars; None if a price is unknown."""

    entries: tuple[CostEntry, ...]  # by arm, role and model
    free: bool  # whether all models are free
    abandoned: tuple[CostEntry, ...]  # of trials in no record
    begun: Usage  # usage of unfinished units and trainings, also included in the entries
    under_way: tuple[CostEntry, ...]  # of trials being played now, which are neither in a record nor abandoned
    billed: float | None  # for the entries
    without_cache: float | None
    answered: Usage  # of all answers that this run received, also of interrupted trials and those being played now
    spent: float | None  # for these
    set_aside: tuple[CostEntry, ...] = ()  # of damaged logs
    unreadable_lines: int = 0  # lines of damaged logs whose cost is unknown


def build_cost_report(played: RunRecords, price_of: PriceOf) -> CostReport:
    records = [*played.records, *played.trainings, *played.begun]
    entries = tuple(itemize_costs(records, price_of))
    prices = [price_of(entry.model) for entry in entries]
    models = {arm: dict(roles) for arm, roles in played.models.items()}
    for record in records:
        models.setdefault(record.arm, {}).update(record.models)

    def price(spent: Sequence[RoleUsage]) -> tuple[CostEntry, ...]:
        priced = []
        for arm, role, usage in spent:
            model = models.get(arm, {}).get(role, "")
            priced.append(price_usage(arm, role, model, usage, price_of))
        return tuple(priced)

    abandoned = price(played.abandoned)
    under_way = price(played.under_way)
    set_aside = price(played.set_aside)
    everything = (*entries, *abandoned, *under_way, *set_aside)
    return CostReport(
        entries=entries,
        free=all(price is not None and price.is_free for price in prices),
        abandoned=abandoned,
        begun=total_usage(itemize_costs(played.begun, price_of)),
        under_way=under_way,
        billed=total_billed(entries),
        without_cache=sum_amounts(entry.without_cache for entry in entries),
        answered=total_usage(everything),
        spent=total_billed(everything),
        set_aside=set_aside,
        unreadable_lines=played.unreadable_lines,
    )


def describe_unreported_costs(bill: CostReport) -> list[str]:
    lines = []
    if bill.begun.calls:
        usage = _describe_usage(bill.begun)
        lines.append(f"Unfinished units and trainings took {usage}; costs include them, scores do not.")
    interrupted = "trials that were interrupted, or ended in an error and were played again"
    lines += _describe_left_out(bill.abandoned, interrupted)
    lines += _describe_left_out(bill.under_way, "trials being played now")
    lines += _describe_left_out(bill.set_aside, "damaged logs")
    if bill.unreadable_lines:
        count = "1 line" if bill.unreadable_lines == 1 else f"{bill.unreadable_lines:,} lines"
        lines.append(f"{count} of damaged logs cannot be read, so the bill may be short.")
    return lines


def _describe_left_out(entries: Sequence[CostEntry], source: str) -> Iterator[str]:
    usage = total_usage(entries)
    if usage.calls:
        paid = format_dollars(total_billed(entries))
        yield f"The tables leave out {_describe_usage(usage)}, {paid}, of {source}."


def _describe_usage(usage: Usage) -> str:
    calls = "1 call" if usage.calls == 1 else f"{usage.calls:,} calls"
    return f"{calls}, {usage.input:,} tokens in and {usage.output:,} out"


def serialize_cost_report(bill: CostReport) -> dict[str, Any]:
    data: dict[str, Any] = {
        "currency": "USD",
        "entries": [asdict(entry) for entry in bill.entries],
        "billed": bill.billed,
        "without_cache": bill.without_cache,
    }
    left_out = {"abandoned": bill.abandoned, "under_way": bill.under_way}
    if bill.set_aside or bill.unreadable_lines:
        left_out["set_aside"] = bill.set_aside
        data["unreadable_lines"] = bill.unreadable_lines
    for name, entries in left_out.items():
        data[name] = [{"arm": entry.arm, "role": entry.role, "usage": asdict(entry.usage)} for entry in entries]
        data[f"{name}_billed"] = total_billed(entries)
    return data


@dataclass(frozen=True, slots=True)
class ScoreEstimates:
    """Scores of one arm with intervals, for figures."""

    scores: tuple[float, ...]  # best accumulator of each unit, ascending
    best_of_t: tuple[MeanEstimate, ...]  # after 1, 2, ... trials; a unit that stopped early keeps its best
    success: tuple[MeanEstimate, ...]  # percent of units that 1, 2, ... trials solved


@dataclass(frozen=True, slots=True)
class Advice:
    """The constitution that the units of an arm start from."""

    advisor: str  # who wrote it; empty if unknown
    learnt_on: int  # calibration variants
    factor: float | None  # calibration variants per task type among them


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
    question: compare.Question
    comparisons: tuple[compare.Comparison, ...]
    squares: Mapping[str, compare.Factorial2x2]  # program to its 2x2 of skills x reflections
    tests: int  # number of tests that p values are corrected for
    room: Room | None  # where the question names a ceiling
    errored: tuple[ErroredUnit, ...]
    bill: CostReport
    facts: Mapping[str, tuple[str, ...]]  # what the results depend on: name to all its values
    rule_based: bool
    alike: bool  # whether all scored arms have scores for the same units; otherwise their means are not comparable
    announced: Announcement | None  # of a run in rounds
    missing: Mapping[str, int]  # arm to its planned units without a record
    missing_shards: tuple[str, ...]  # parts `i/n` of the run that are not here, whose number of units is unknown
    repeated: Mapping[str, tuple[int, int]]  # see `count_repeated_units`
    advice: Mapping[str, Advice]  # of each arm that starts from a constitution
    success_only: bool  # see `RunRecords`
    remarks: tuple[str, ...]  # likewise
    first_trials: Mapping[str, metrics.ArmMetrics]
    """Each arm of Reflexion to the metrics of its first trials alone, which rSSO prints as ReAct (Table 1, note)."""
    unreadable: Mapping[str, int]  # arm to its steps, where the actor's answer could be read at none of them
    limits: tuple[str, ...]  # sentences on answers and prompts that were cut
    dependence: Mapping[str, str]  # arm of several trials to why these are no independent repeats

    @property
    def missing_units(self) -> int:
        return sum(self.missing.values())

    @property
    def main_result(self) -> compare.Comparison | None:
        """The main comparison: reflections beside skills if the run has it, as in the paper, otherwise the first."""
        for pair in self.comparisons:
            if pair.asks == compare.BESIDE_SKILLS:
                return pair
        return self.comparisons[0] if self.comparisons else None

    @property
    def compared_by_task(self) -> list[compare.Comparison]:
        """The comparisons shown by task type: the main one, and what reflections add without skills (rSSO, Table 2)."""
        main = self.main_result
        if main is None:
            return []
        pairs = [main]
        for pair in self.comparisons:
            if pair is main or pair.asks != compare.OVER_RETRIES:
                continue
            if "reflexion" in pair.second:
                pairs.append(pair)
        return pairs

    def describe_gaps(self) -> Iterator[str]:
        """Yield sentences on what is missing, unread or cut off."""
        missing = self.missing_units
        if missing:
            units = f"{missing:,} planned units have" if missing > 1 else "1 planned unit has"
            yield f"The run is incomplete: {units} no record."

        shards = self.missing_shards
        if shards:
            noun = "shards" if len(shards) > 1 else "shard"
            yield f"This is without {noun} {', '.join(shards)} of the run."

        for arm, steps in self.unreadable.items():
            answers = f"none of the actor's answers at {steps:,} steps" if steps > 1 else "not the actor's one answer"
            yield f"WARNING: {arm} is scored for doing nothing: {answers} could be read."
        yield from self.limits

    @property
    def rule_based_note(self) -> str:
        """The note shown with results of the rule-based model; empty when a language model acted."""
        return RULE_BASED_NOTE if self.rule_based else ""


def analyze(
    units: RunRecords | Sequence[UnitRecord],
    price_of: PriceOf = lambda _: None,
    question: compare.Question | None = None,
) -> Analysis:
    """Analyze a run. The question may name an arm that is not there, which raises `UnknownName`."""
    run = units if isinstance(units, RunRecords) else RunRecords(units)
    question = question or compare.Question(margin=find_margin(run))
    arms = metrics.group_by_arm(run.records)
    plays = dict(zip(arms, metrics.list_allowed_trials(list(arms.values())), strict=True))
    everything: list[UnitRecord | TrainingRecord] = [*run.records, *run.trainings]
    scored = {arm: metrics.select_scored_units(records) for arm, records in arms.items()}
    compared = compare_played(arms, question, run)

    advice: dict[str, Advice] = {}
    for arm, records in arms.items():
        constitution = _find_advice(records, run.advisors.get(arm, ""))
        if constitution:
            advice[arm] = constitution

    return Analysis(
        arms=tuple(metrics.compute_arm_metrics(arm, records) for arm, records in arms.items()),
        estimates={arm: _estimate_scores(records, plays[arm]) for arm, records in scored.items() if records},
        spent={arm: tuple(itemize_costs(records, price_of)) for arm, records in scored.items()},
        costs=(*_sort_costs(run.records, price_of), *_sort_costs(run.trainings, price_of, " (training)")),
        trainings=tuple(metrics.compute_training_metrics(run.trainings)),
        plays=plays,
        tasks=tuple(_compute_task_means(scored)),
        question=question,
        comparisons=compared.comparisons,
        squares=compared.squares,
        tests=compared.tests,
        room=_measure_room(arms, question.ceiling, compared.comparisons),
        errored=tuple(_describe_unscored(record) for record in everything if record.has_errors),
        bill=build_cost_report(run, price_of),
        facts=collect_run_facts(everything) | {"played": run.dates, "answers": run.answers},
        rule_based=any(record.rule_based for record in everything),
        alike=_are_alike(scored),
        announced=run.announced,
        missing=run.missing,
        missing_shards=tuple(run.missing_shards),
        repeated=metrics.count_repeated_units(arms),
        advice=advice,
        success_only=run.success_only,
        remarks=tuple(run.remarks),
        first_trials=_compute_first_trials(scored),
        unreadable=_count_unreadable(scored),
        limits=tuple(describe_limits(chain.from_iterable(scored.values()))),
        dependence=_find_dependence(scored),
    )


def find_margin(played: RunRecords) -> float:
    """Return the margin that a run in rounds announced, or the usual one, in points."""
    if played.announced:
        return played.announced.margin
    return MARGIN


def _are_alike(scored: Mapping[str, Sequence[UnitRecord]]) -> bool:
    """Whether all arms that have scores have them for the same units."""
    units = set()
    for records in scored.values():
        if records:
            units.add(frozenset(metrics.get_unit_key(record) for record in records))
    return len(units) <= 1


def _measure_room(
    arms: Mapping[str, Sequence[UnitRecord]], ceiling: str | None, comparisons: Sequence[compare.Comparison]
) -> Room | None:
    """Measure the room below a ceiling: above the arm that the report compares it with. Raises `UnknownName` for an arm
    that is compared with none."""
    if ceiling is None:
        return None
    bottoms = {pair.second: pair.first for pair in comparisons}
    if ceiling not in bottoms:
        raise UnknownName(
            "ceiling", ceiling, bottoms, "A ceiling is an arm that is compared with one without a memory."
        )
    bottom = bottoms[ceiling]
    other_arms = [arm for arm, control in bottoms.items() if control == bottom and arm != ceiling]
    return measure_room(bottom, ceiling, {arm: arms[arm] for arm in (bottom, ceiling, *other_arms)})


def compare_played(
    arms: Mapping[str, Sequence[UnitRecord]], question: compare.Question, played: "RunRecords | Analysis"
) -> compare.Compared:
    if played.announced is not None:
        return compare_rounds(arms, question, played.announced)
    return compare.compare_all(arms, question, played.missing, played.missing_shards)


def _compute_first_trials(scored: Mapping[str, Sequence[UnitRecord]]) -> dict[str, metrics.ArmMetrics]:
    first_trials = {}
    for arm, records in scored.items():
        if records and records[0].method == "reflexion" and records[0].program == ZERO_SHOT:
            alone = [replace(record, trials=record.trials[:1]) for record in records]
            first_trials[arm] = metrics.compute_arm_metrics(arm, alone)
    return first_trials


def _find_dependence(scored: Mapping[str, Sequence[UnitRecord]]) -> dict[str, str]:
    dependence: dict[str, str] = {}
    for arm, records in scored.items():
        if all(len(record.trials) < 2 for record in records):
            continue
        why = find_dependence(records)
        if why:
            dependence[arm] = why
    return dependence


def _count_unreadable(scored: Mapping[str, Sequence[UnitRecord]]) -> dict[str, int]:
    """Return the number of steps of each arm whose actor gave no answer that could be read."""
    counts = {}
    for arm, records in scored.items():
        trajectories = chain.from_iterable(record.trajectories for record in records)
        steps = list(chain.from_iterable(trajectory.steps for trajectory in trajectories))
        if steps and all(step.malformed for step in steps):
            counts[arm] = len(steps)
    return counts


def _find_advice(records: Sequence[UnitRecord], advisor: str) -> Advice | None:
    sources = chain.from_iterable(record.sources for record in records)
    if not any(source.memory == "constitution" and source.kind == "file" for source in sources):
        return None
    learnt_on = min((record.learnt_on for record in records), key=len)  # later units of a stream add their own
    tasks = {key.partition("::")[0] for key in learnt_on}
    factor = len(learnt_on) / len(tasks) if tasks else None
    return Advice(advisor, len(learnt_on), factor)


def _sort_costs(records: Sequence[TrialsRecord], price_of: PriceOf, of: str = "") -> list[tuple[str, CostEntry]]:
    """Return name and costs by arm, in order of first appearance, then by role and model."""
    arms = list(metrics.group_by_arm(records))
    entries = itemize_costs(records, price_of)
    entries.sort(key=lambda entry: (arms.index(entry.arm), entry.role, entry.model))
    return [(f"{entry.arm}{of}", entry) for entry in entries]


def _estimate_scores(scored: Sequence[UnitRecord], trials: int) -> ScoreEstimates:
    def estimate(score: Callable[[UnitRecord, int], float]) -> tuple[MeanEstimate, ...]:
        estimates = []
        for trial in range(1, trials + 1):
            values = [UnitValue(record.variant.task, record.variant.index, score(record, trial)) for record in scored]
            estimates.append(estimate_mean(values))
        return tuple(estimates)

    return ScoreEstimates(
        scores=tuple(sorted(metrics.get_best_accumulator(record) for record in scored)),
        best_of_t=estimate(metrics.get_best_accumulator),
        success=estimate(lambda record, trial: 100.0 * metrics.is_solved(record, trial)),
    )


def _describe_unscored(record: UnitRecord | TrainingRecord) -> ErroredUnit:
    error = record.trials[-1].error or ""
    is_skipped = isinstance(record, UnitRecord) and record.is_refused
    return ErroredUnit(record.arm, record.key, record.seed, error, is_skipped)


PROVENANCE = {
    "rsso_dspy": "rsso-dspy",
    "dspy": "dspy",
    "scienceworld": "scienceworld",
    "benchmark": "benchmark",
    "python": "python",
    "commit": "commit",
    "config_hash": "configuration",
    "prompts": "prompts",
    "source_unknown": "source unknown",
}
"""Key of a record's provenance to its name in reports."""


def collect_run_facts(records: Sequence[TrialsRecord]) -> dict[str, tuple[str, ...]]:
    """Return what the results depend on, by name: protocol, models, seeds, versions, commit, configuration."""
    facts: dict[str, set[str]] = {"protocol": set(), "actor": set(), "other roles": set(), "seed": set()}
    for record in records:
        facts["protocol"].add(record.protocol)
        facts["actor"].add(f"{record.model} (backend {record.backend})")
        facts["other roles"].update(_name_other_models(record))
        facts["seed"].add(str(record.seed))
        for text in _name_unrequested_models(record):
            facts.setdefault("answered by", set()).add(text)
        for key, name in PROVENANCE.items():
            if key in record.provenance:
                facts.setdefault(name, set()).add(record.provenance[key])
    return {name: tuple(sorted(values)) for name, values in facts.items() if values}


def _name_other_models(record: TrialsRecord) -> Iterator[str]:
    """Yield the roles that another model than the actor's played, each with its model."""
    played_roles = {role for trial in record.trials for role in trial.usage}
    for role in played_roles & record.models.keys():
        model = record.models[role]
        if model != record.model:
            yield f"{role} {model}"


def _name_unrequested_models(record: TrialsRecord) -> Iterator[str]:
    """Yield the models that answered in a role where these were several, or another one than was asked for."""
    for trial in record.trials:
        for role, names in trial.answered.items():
            requested = record.models.get(role, record.model)
            unrequested = set(names) - {requested, requested.partition("/")[2]}
            if unrequested or len(set(names)) > 1:
                for name in names:
                    yield f"{name} ({role})"


def _compute_task_means(scored: Mapping[str, Sequence[UnitRecord]]) -> Iterator[TaskMeans]:
    tasks = {record.variant.task for records in scored.values() for record in records}
    for task in sorted(tasks):
        units: set[metrics.UnitKey] = set()
        means: dict[str, float] = {}
        for arm, records in scored.items():
            of_task = [record for record in records if record.variant.task == task]
            units.update(metrics.get_unit_key(record) for record in of_task)
            if of_task:
                means[arm] = fmean(metrics.get_best_accumulator(record) for record in of_task)
        yield TaskMeans(task, len(units), means)


PLAIN = ("rule_based", "missing_shards", "alike", "tasks", "trainings", "squares", "errored", "advice")
MEASURES = ("progress", "grounding", "turns", "most_calls", "rules", "writings")
"""What AgentBoard and OmniReflect report of a task."""


def serialize_analysis(found: Analysis) -> dict[str, Any]:
    data = asdict(found)
    for square in data["squares"].values():
        del square["trials"]  # it tells the tests of the 2x2 from others, and a reader nothing
    for pair, serialized in zip(found.comparisons, data["comparisons"], strict=True):
        if pair.interval:
            serialized["interval"]["detectable"] = pair.interval.detectable_difference

    measures: dict[str, Any] = {}
    for row, serialized in zip(found.arms, data["arms"], strict=True):
        measures[row.arm] = {"units": row.units, "solved": row.solve, "calls": row.calls_per_unit}
        for name in MEASURES:
            measures[row.arm][name] = serialized.pop(name)
        serialized["cost"] = total_billed(found.spent[row.arm])
        serialized["paid"] = total_billed(entry for entry in found.bill.entries if entry.arm == row.arm)
        serialized["dependence"] = found.dependence.get(row.arm, "")
        serialized |= _serialize_learning(row.learning)

    document: dict[str, Any] = {
        "facts": {name: list(values) for name, values in found.facts.items() if values},
        "note": found.rule_based_note,
        "missing": found.missing_units,
    }
    for name in (*PLAIN, "arms", "comparisons"):
        document[name] = data[name]
    document |= {
        "repeated": {arm: {"equal": equal, "units": units} for arm, (equal, units) in found.repeated.items()},
        "measures": measures,
        "bill": serialize_cost_report(found.bill),
        "question": asdict(found.question),
        "family": _serialize_family(found),
    }
    if found.room:
        document["room"] = data["room"]
    if found.remarks:
        document["remarks"] = list(found.remarks)
    return document


def _serialize_family(found: Analysis) -> dict[str, Any]:
    """Serialize the tests of the report, each once, with p before and after the correction for their number. Those of a
    run in rounds have no p, and share the level."""
    if found.announced is not None:
        return _serialize_announced_tests(found.announced)
    tests: dict[compare.FamilyTest, dict[str, Any]] = {}
    for pair in found.comparisons:
        tests[pair.family_test] = {"test": pair.name, "p": pair.flips.p, "holm": pair.holm}
    for square in found.squares.values():
        for (test, effect), name in zip(square.effects.items(), square.effect_names, strict=True):
            tests.setdefault(test, {"test": name, "p": effect.flips.p, "holm": effect.holm})

    rows = []
    for test, row in tests.items():
        if row["p"] is not None:
            rows.append({**row, "pairs": test.pairs, "trials": test.trials})
    return {"correction": "Holm", "size": found.tests, "tests": rows}


def _serialize_announced_tests(announced: Announcement) -> dict[str, Any]:
    level = SIGNIFICANT / len(announced.pairs)
    tests = [{"test": f"{memory} - {control}", "level": level} for control, memory in announced.pairs]
    return {"correction": "shared level, spent over rounds", "size": len(announced.pairs), "tests": tests}


def _serialize_learning(learnt: metrics.Learning) -> dict[str, Any]:
    by_count = []
    for count, (solved, trials) in learnt.held.items():
        by_count.append({"reflections": count, "solved": solved, "trials": trials})
    learning = {
        "newly_solved": [trial.additional for trial in learnt.success],
        "trials_to": learnt.trials_to,
        "held": by_count,
        "written": learnt.written,
        "repeats": asdict(learnt.repeats),
    }
    success = {
        "trials": [asdict(trial) for trial in learnt.success],
        "by_task": {task: {"solved": solved, "units": units} for task, (solved, units) in learnt.by_task.items()},
        "failures": dict(learnt.failures),
    }
    return {"learning": learning, "success": success}
