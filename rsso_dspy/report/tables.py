"""The tables of a run, built from its `Analysis`. Nothing is computed here except ratios of its numbers.

for sheet in build_tables(analyze(units)):
    print(to_markdown(sheet))
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

from rich.console import Group, RenderableType
from rich.text import Text

from rsso_dspy.records import REFUSED, Usage
from rsso_dspy.report.analysis import Analysis, ContrastResult
from rsso_dspy.report.compare import Factorial2x2
from rsso_dspy.report.cost import CostReport, describe_unreported_costs
from rsso_dspy.report.metrics import CATEGORIES, FAILURES, UNEVEN, ArmMetrics, TaskMeasures, describe_repeated_units
from rsso_dspy.report.published import METHODS, load_published_tables
from rsso_dspy.report.sheets import (
    FORMS,
    NOTHING,
    Cell,
    Sheet,
    Tone,
    format_count,
    format_difference,
    format_dollar_amount,
    format_interval,
    format_p_value,
    format_percent,
    format_points,
    format_share,
    format_sign_counts,
    format_text,
    to_rich_table,
)
from rsso_dspy.report.statistics import FEW, LEVEL, MOST_POINTS, NO_INTERVAL, POWER, BootstrapInterval
from rsso_dspy.report.terminal import replace_controls

MAIN = ("methods", "learning", "differences", "trainings", "tokens", "bill")
"""Names of the tables that are printed at the end of a run."""

NOTED = ("methods", "learning", "differences")
"""Those whose notes are printed then."""

AGAIN = "(no score; repeat the command to play them again)"
NEVER = "(no score; the environment refuses these variants, as it would again)"

TROUBLES = ("malformed", "repaired", "truncated", "failed", "unmetered")
"""Counts of problems with answers; all but the first are shown only if they occurred."""

INTERVAL = (f"{LEVEL:.0%} from", "to")

DETECTABLE = "min. detectable difference"

READINGS = {
    "compose": "compose: both together score higher than each alone",
    "redundant": "redundant: together they gain less than the sum of both, and are not shown to beat each alone",
    "adversarial": "adversarial: both together score lower than each alone",
    "undecided": "no result: too few {clusters} to tell",
}

SOLVED_BELOW_100 = (
    "Solve above Acc100: a solved variant scores less than 100 if it holds points at reset, which no action earns. "
    "Mean leaves these points out; Solve, +reset and env count them."
)

PAPER_NOTE = (
    "Published rows are from Tables 1 and 2 of rSSO, with another model (Claude Sonnet 4.6, 164 variants, 5 trials): "
    "use them for orientation, not for comparison. The published react is trial 1 of its Reflexion run."
)


def build_tables(found: Analysis, with_paper: bool = False) -> list[Sheet]:
    """Build all tables that have rows, in reading order; with the published rows if `with_paper`."""
    sheets = [
        build_methods_table(found, with_paper),
        build_learning_table(found),
        build_success_table(found),
        build_reflections_table(found),
        build_failures_table(found),
        build_differences_table(found),
        build_strata_table(found.findings),
        *(
            build_factorial_table(square, program, number)
            for number, (program, square) in enumerate(found.squares.items(), start=1)
        ),
        build_tasks_table(found, with_paper),
        build_trainings_table(found),
        build_measures_table(found),
        build_tokens_table(found),
        build_cost_table(found.bill),
    ]
    return [sheet for sheet in sheets if sheet.rows]


def build_table_files(found: Analysis, with_paper: bool = False) -> Mapping[Path, str]:
    """Return file name to content of every table as Markdown, LaTeX and CSV."""
    return {
        Path(f"{sheet.name}.{ending}"): form(sheet)
        for sheet in build_tables(found, with_paper)
        for ending, form in FORMS.items()
    }


def build_methods_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 1 of rSSO from this run, with the published rows if `with_paper`."""
    rows = [_build_method_row(row) for row in found.arms]
    notes = ["Mean, +reset and env are micro means, over variants; macro is Mean averaged over task types."]
    if len(set(found.plays.values())) > 1:
        allowed = ", ".join(f"{arm} {trials}" for arm, trials in found.plays.items())
        notes.append(f"The best of more trials is higher by chance alone. Trials that a unit may play: {allowed}.")
    notes += _note_uneven(found)
    if any(row.solve > row.acc100 for row in found.arms):
        notes.append(SOLVED_BELOW_100)
    notes += describe_stalled_trials([(row.arm, row.stalled, row.trials_played) for row in found.arms])
    if found.missing:
        units = f"{found.missing:,} planned units have" if found.missing > 1 else "1 planned unit has"
        notes.append(f"The run is incomplete: {units} no record.")
    if found.missing_shards:
        notes.append(f"The run is incomplete: without {found.name_missing_shards()}.")
    notes += [*describe_repeated_units(found.repeated), *found.mixed]
    if with_paper:
        rows += [_build_published_row(row) for row in load_published_tables()["table1"]]
        notes.append(PAPER_NOTE)
    columns = ("arm", "units", "Mean", "+reset", "env", "macro", "Solve", "Acc100")
    return Sheet("methods", "Best of t", columns, tuple(rows), tuple(notes))


def _build_method_row(row: ArmMetrics) -> tuple[Cell, ...]:
    return (
        format_text(row.arm),
        _format_units(row.units, row.errored),
        *map(format_points, (row.mean, row.mean_with_reset, row.environment_score, row.macro_mean)),
        format_share(row.solve, row.units),
        format_share(row.acc100, row.units),
    )


def _build_published_row(row: dict) -> tuple[Cell, ...]:
    macro = fmean(each[row["method"]] for each in load_published_tables()["table2"])
    return (
        format_text(f"published {row['method']}", "dim"),
        format_count(row["solve"][1]),
        format_points(row["mean"]),
        Cell(NOTHING),
        Cell(NOTHING),
        format_points(macro),
        format_share(*row["solve"]),
        format_share(*row["acc100"]),
    )


def _format_units(units: int, errored: int) -> Cell:
    return Cell(f"{units:,} ({errored} err)", units) if errored else format_count(units)


def _note_uneven(found: Analysis) -> list[str]:
    return [] if found.alike else [UNEVEN]


def describe_stalled_trials(counted: Sequence[tuple[str, int, int]]) -> list[str]:
    """Describe stalled trials; no lines if there are none. `counted` holds arm, stalled trials and all trials."""
    units = [f"{arm} {stalled} of {trials} trials" for arm, stalled, trials in counted if stalled]
    if not units:
        return []
    return [
        f"Stalled: {', '.join(units)}. A step of these trials took longer than environment.step_seconds. Means include "
        "them with the points they had, and memories learned from them."
    ]


def build_learning_table(found: Analysis) -> Sheet:
    """Build the table of points from trial to trial (rSSO, Figure 2), and of when variants were solved."""
    longest = max(found.plays.values(), default=0)
    rows = []
    for row, learnt in zip(found.arms, found.learning, strict=True):
        kept = [row.best_of_t[-1]] * (found.plays[row.arm] - len(row.best_of_t)) if row.best_of_t else []
        best = _pad([*row.best_of_t, *kept], longest)
        levels = (Cell("never" if t is None else f"{t}", t) for t in learnt.trials_to.values())
        means = map(format_points, (row.trial_1, row.mean_over_trials, *best))
        rows.append((format_text(row.arm), format_count(row.trials_played), *means, *levels))
    notes = ["mean/trial is a mean of unit means: the mean accumulator of a unit's played trials, averaged over units."]
    if len({row.trials_played / row.units for row in found.arms if row.units}) > 1:
        notes[0] += " Units of these arms played different numbers of trials: do not compare it between arms."
    notes.append("to 50%: number of trials after which half of the variants were solved.")
    best_of = (f"best_of_{number}" for number in range(1, longest + 1))
    levels_to = (f"to {level}%" for level in (found.learning[0].trials_to if found.learning else ()))
    columns = ("arm", "trials", "trial-1", "mean/trial", *best_of, *levels_to)
    return Sheet("learning", "Over trials", columns, tuple(rows), (*notes, *_note_uneven(found)))


def _pad(values: Sequence[float], length: int) -> list[float | None]:
    return [*values, *[None] * (length - len(values))]


def build_success_table(found: Analysis) -> Sheet:
    """Build the table of variants solved so far, additional and accuracy of every trial; arms that played several."""
    rows = []
    for arm in (each for each in found.learning if len(each.success) > 1):
        for trial in arm.success:
            counts = (trial.trial, trial.solved, trial.additional, arm.units - trial.solved)
            name = format_text(arm.arm if trial.trial == 1 else "")
            rows.append((name, *map(format_count, counts), format_percent(trial.accuracy)))
    notes = (
        "solved: variants solved in this trial or before; additional: for the first time in it. When no more are "
        "added, the memory teaches nothing more. Reflexion's own measures.",
    )
    columns = ("arm", "trial", "solved", "additional", "fail", "accuracy")
    return Sheet("success", "Success, trial by trial", columns, tuple(rows), notes)


def build_reflections_table(found: Analysis) -> Sheet:
    """Build the table of solved trials by the number of reflections held when they began."""
    counts = sorted({held.reflections for learnt in found.learning for held in learnt.held})
    rows = []
    for learnt in (each for each in found.learning if len(each.held) > 1):
        by_count = {held.reflections: format_share(held.solved, held.trials) for held in learnt.held}
        rows.append((format_text(learnt.arm), *(by_count.get(count, Cell("")) for count in counts)))
    notes = (
        "Units hold more reflections when more trials failed: such variants are harder, the reflections not weaker.",
    )
    columns = ("arm", *map(str, counts))
    return Sheet("reflections", "Trials solved, by reflections held", columns, tuple(rows), notes)


def build_failures_table(found: Analysis) -> Sheet:
    """Build the table of why trials were not solved."""
    rows = []
    for arm in found.learning:
        if total := sum(arm.failures.values()):
            rows.append((format_text(arm.arm), *map(format_count, (total, *(arm.failures[why] for why in FAILURES)))))
    notes = (
        "Each trial counts once. wrong answer: its last action ended it at a loss. loops: it ended as repeated or "
        "exhausted, or with ten actions of at most three kinds. not found: its steps were used up and nothing was "
        "earned. out of steps: used up after something was.",
    )
    columns = ("arm", "trials", *FAILURES)
    return Sheet("failures", "Trials that were not solved, and why", columns, tuple(rows), notes)


def build_differences_table(found: Analysis) -> Sheet:
    """Build the table of paired differences with intervals and p: the main ones, then those by the trials of a
    compile."""
    rows = []
    for each in (*found.findings, *found.as_compiled):
        pair = each.comparison
        pairs = Cell(f"{pair.pairs} (-{pair.excluded})", pair.pairs) if pair.excluded else format_count(pair.pairs)
        rows.append(
            (
                format_text(_format_contrast(each)),
                pairs,
                format_difference(pair.difference, tone=_choose_tone(each)),
                *format_interval(pair.interval),
                _format_detectable(pair.interval),
                format_sign_counts(pair.higher, pair.lower),
                format_p_value(pair.wilcoxon.p),
                format_p_value(each.holm),
                format_text(each.question.asks),
            )
        )
    columns = ("second - first", "pairs", "points", *INTERVAL, DETECTABLE, "units +/-", "p", "Holm", "asks")
    return Sheet("differences", "Paired differences", columns, tuple(rows), tuple(_describe_differences(found)))


def _describe_differences(found: Analysis) -> Iterator[str]:
    findings = (*found.findings, *found.as_compiled)
    intervals = [each.comparison.interval for each in findings if each.comparison.interval]
    tested = sum(each.holm is not None for each in found.findings)
    yield (
        f"Intervals ({LEVEL:.0%}) are bootstrapped over task types, because variants of one type are alike. They are "
        f"not corrected for the number of comparisons; Holm's p is. {DETECTABLE}: the smallest difference that a run "
        f"of this size would find in {POWER:.0%} of cases."
    )
    yield (
        "p: Wilcoxon signed-rank test over the means of task types, two-sided, exact, without zeros. Holm: p corrected "
        f"for {tested or 'no'} test{'s' if tested != 1 else ''}."
    )
    if any(each.comparison.pairs and each.comparison.interval is None for each in findings):
        yield f"{NOTHING}: {NO_INTERVAL}."
    for each in findings:
        interval = each.comparison.interval
        if interval and interval.is_hopeless:
            yield (
                f"{_format_contrast(each)}: no result, {interval.clusters_in_words} are too few. A run of this size "
                "may miss even the largest possible difference."
            )
    yield from (f"{_format_contrast(each)}: both are the same program." for each in found.findings if each.same_program)
    if any(each.comparison.excluded for each in findings):
        yield "(-n): number of pairs left out because a unit errored or is missing in one of the two arms."
    if any(interval.over == "task types" and interval.clusters < FEW for interval in intervals):
        yield f"Intervals over fewer than {FEW} task types are rough."
    if any(interval.over == "units" for interval in intervals):
        yield "With one task type, the interval is over its variants and says nothing about other tasks."
    yield from _describe_compile_trials(found)
    for each in found.findings:
        pair = each.comparison
        if pair.pairs and pair.trials < max(pair.may_play):
            yield (
                f"{_format_contrast(each)}: scores are the best of the first {pair.trials}, as many trials as both may "
                "play."
            )


def _describe_compile_trials(found: Analysis) -> Iterator[str]:
    """Say which comparison is the main one, and which programs were scored by more trials than they play here."""
    if found.as_compiled:
        trials = max(each.comparison.trials for each in found.findings)
        yield (
            f"The main comparison is the best of {trials} trials, the protocol's. Rows that end in \"as the compile "
            "scored\" are the same units by the trials that their compile scored candidates by; Holm's p leaves them "
            "out."
        )
    for arm, trials in found.compile_trials.items():
        if trials > found.plays.get(arm, trials):
            yield (
                f"{arm} was compiled by the best of {trials} trials, and its units may play {found.plays[arm]}: "
                "nothing is compared as the compile scored."
            )


def _format_contrast(finding: ContrastResult) -> str:
    return f"{finding.comparison.second} - {finding.comparison.first}"


def _choose_tone(finding: ContrastResult) -> Tone:
    """Return good or bad if the interval excludes 0 and the corrected test agrees, otherwise no tone."""
    interval, p = finding.comparison.interval, finding.holm
    if interval is None or not interval.is_decided or p is None or p > 1 - LEVEL:
        return ""
    return "good" if interval.low > 0 else "bad"


def _format_detectable(interval: BootstrapInterval | None) -> Cell:
    least = None if interval is None else interval.detectable_difference
    if least is None:
        return Cell(NOTHING)
    if least > MOST_POINTS:
        return Cell(f">{MOST_POINTS:.0f}")  # no difference of scores: CSV, too, holds no number for it
    return format_points(least, 1)


def build_strata_table(findings: Sequence[ContrastResult]) -> Sheet:
    """Build the table of gains by stratum of the first arm."""
    rows = [
        (
            format_text(_format_contrast(each)),
            *chain.from_iterable((format_count(gain.units), format_difference(gain.difference)) for gain in each.gains),
        )
        for each in findings
    ]
    names = [gain.stratum for gain in findings[0].gains] if findings else []
    columns = ("second - first", *(column for name in names for column in (f"n {name}", f"{name}")))
    notes = (
        "The first arm decides the stratum of a unit: solved at trial 1, never better than at trial 1 (plateau), or "
        "better later (other). The paper's plateau holds the units of plateau and other whose environment score stays "
        "below 100 in every trial. Units with a bad first arm gain under any second arm, also under equal retries: "
        "check the row over equal retries before you attribute a gain to a memory.",
    )
    return Sheet("strata", "Gains by stratum", columns, tuple(rows), notes)


def build_factorial_table(square: Factorial2x2, program: str, number: int = 1) -> Sheet:
    """Build the table of skills x reflections of one program."""
    neither, reflections, skills, both = square.corners
    rows: list[tuple[Cell, ...]] = [
        (format_text(name), format_points(mean), Cell(""), Cell(""))
        for name, mean in zip(square.corners, square.means, strict=True)
    ]
    _, one, other, together = square.means
    for name, difference, interval in (
        (f"interaction: {both} - {skills} - {reflections} + {neither}", square.difference, square.interaction),
        (f"{both} - {reflections}", together - one, square.over_one),
        (f"{both} - {skills}", together - other, square.over_other),
    ):
        rows.append((format_text(name), format_difference(difference), *format_interval(interval)))
    interval = square.interaction or square.over_one or square.over_other
    clusters = "variants" if interval and interval.over == "units" else "task types"
    rows.append((format_text(READINGS[square.reading].format(clusters=clusters), "total"), *[Cell("")] * 3))
    title = "Skills x reflections" if number == 1 else f"Skills x reflections, {program}"
    columns = (f"over {square.pairs} units", "points", *INTERVAL)
    alone = None in (square.interaction, square.over_one, square.over_other)
    notes = (f"{NOTHING}: {NO_INTERVAL}.",) if alone else ()
    return Sheet("square" if number == 1 else f"square-{number}", title, columns, tuple(rows), notes)


def build_tasks_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 2 of rSSO from this run: means by task type, the paired difference of two arms, variants solved."""
    arms = [row.arm for row in found.arms]
    pair = found.main_result.comparison if found.main_result else None
    paper = {row["task"]: row for row in load_published_tables()["table2"]} if with_paper else {}
    notes = _note_uneven(found)
    if pair:
        notes.append(f"{pair.second} - {pair.first}: paired by unit, best of the first {pair.trials} trials.")
    notes += [PAPER_NOTE] if with_paper else []
    rows = []
    for task in found.tasks:
        made = [format_points(task.means.get(arm), 1) for arm in arms]
        if pair:
            made.append(format_difference(pair.by_task.get(task.name), 1))
        for arm in found.learning:
            made.append(format_share(*arm.by_task[task.name]) if task.name in arm.by_task else Cell(""))
        if with_paper:
            made += [format_points(paper.get(task.name, {}).get(method), 1, "dim") for method in METHODS]
        rows.append((format_text(task.name, task=task.name), format_count(task.units), *made))
    difference = [f"{pair.second} - {pair.first}"] if pair else []
    published = (f"published {method}" for method in METHODS if with_paper)
    columns = ("task", "n", *arms, *difference, *(f"{arm} solved" for arm in arms), *published)
    return Sheet("tasks", "By task type", columns, tuple(rows), tuple(notes))


def build_trainings_table(found: Analysis) -> Sheet:
    """Build the table of the trainings of the transfer setting."""
    rounds = max((len(row.rounds) for row in found.trainings), default=0)
    rows = [
        (
            format_text(row.arm),
            _format_units(row.tasks, row.errored),
            format_count(row.episodes),
            *map(format_points, _pad(row.rounds, rounds)),
        )
        for row in found.trainings
    ]
    columns = ("arm", "tasks", "episodes", *(f"round {number}" for number in range(1, rounds + 1)))
    notes = describe_stalled_trials([(row.arm, row.stalled, row.episodes) for row in found.trainings])
    return Sheet("trainings", "Training", columns, tuple(rows), tuple(notes))


def build_measures_table(found: Analysis) -> Sheet:
    """Build the table of measures per task (AgentBoard, OmniReflect) and of usage per solved variant. Columns about
    rules and the environment's own rule appear where there are any."""
    measures = found.measures
    own = any(row.solved_by_own_rule is not None for row in measures.values())
    ruled = any(row.rules is not None for row in measures.values())
    columns = ["arm", "units", "Success", *(["own rule"] if own else []), "progress", "grounding", "turns/task"]
    columns += ["calls/task", "most calls", "steps/solved", "tokens/solved", "USD/solved"]
    columns += [*CATEGORIES, "rule lists", "malformed", "repaired"] if ruled else []
    rows = []
    for arm in found.arms:
        row = measures[arm.arm]
        made = [format_text(arm.arm), format_count(row.units), format_share(row.solved, row.units)]
        if own:
            verdict = row.solved_by_own_rule
            made.append(Cell(NOTHING) if verdict is None else format_share(verdict, row.judged_by_own_rule))
        made += [format_percent(row.progress), format_percent(row.grounding)]
        made += [format_points(row.turns, 1), format_points(row.calls, 1), format_count(row.most_calls)]
        spent = found.spent[arm.arm]
        amounts = [round(amount / arm.solve) if arm.solve else None for amount in (arm.steps, spent.tokens)]
        price = spent.cost / arm.solve if arm.solve and spent.cost is not None else None
        made += [*map(format_count, amounts), format_dollar_amount(price) if arm.solve else Cell(NOTHING)]
        rows.append((*made, *(_build_rule_cells(row) if ruled else ())))
    notes = _describe_measures(measures, own, ruled)
    return Sheet("measures", "Per task", tuple(columns), tuple(rows), tuple(notes))


def _build_rule_cells(row: TaskMeasures) -> list[Cell]:
    lists = row.writings.calls
    made = [format_points(None if row.rules is None else row.rules[name], 1) for name in CATEGORIES]
    bad = (row.writings.malformed, row.writings.repaired)
    return [*made, format_count(lists), *(format_percent(count / lists if lists else None) for count in bad)]


def _describe_measures(measures: Mapping[str, TaskMeasures], own: bool, ruled: bool) -> Iterator[str]:
    yield (
        "Success: units with score 100 on any trial; progress: the highest score of a unit; grounding: share of a "
        "trial's steps that the environment understood (AgentBoard). Turns and calls are those of all trials of a "
        "unit. Columns per solved variant: steps, tokens and dollars of all scored units, divided by the number of "
        "solved variants, without training, building a constitution and compiling."
    )
    if own:
        yield "own rule: success by the environment's own rule, where the score follows other labels."
    if other := {name: row.grounding_repeated for name, row in measures.items() if row.grounding_repeated is not None}:
        shares = ", ".join(f"{format_percent(share).text} for {name}" for name, share in other.items())
        yield (
            f"grounding is {shares} if a step without effect repeats the verdict of the step before it, as AgentBoard "
            "counts `go to` without a move."
        )
    if ruled:
        yield (
            "abstract, error: rules in the constitution after the last unit; progress: rules shown per unit. Rule "
            "lists are a model's answers as rule writer; malformed ones could not be read, repaired ones broke "
            "the format."
        )


def build_tokens_table(found: Analysis) -> Sheet:
    """Build the table of calls and tokens by role."""
    spent: list[tuple[str, Mapping[str, Usage], tuple[float | None, ...]]] = [
        *((row.arm, row.tokens, (row.invalid_rate, row.asked_rate, row.idle_rate)) for row in found.arms),
        *((f"{row.arm} (training)", row.tokens, (None, None, None)) for row in found.trainings),
    ]
    everything = [usage for _, tokens, _ in spent for usage in tokens.values()]
    troubles = [name for name in TROUBLES if name == "malformed" or any(getattr(u, name) for u in everything)]
    rows = []
    for arm, tokens, rates in spent:
        for role, usage in tokens.items():
            counts = (format_count(getattr(usage, name)) for name in ("calls", "input", "output", *troubles))
            waste = (format_percent(rate) if role == "actor" and rate is not None else Cell("") for rate in rates)
            rows.append((format_text(arm), format_text(role), *counts, *waste))
    notes = (
        "invalid: share of steps whose action was malformed or not understood. asked back: share of steps that the "
        "environment answered by asking which action was meant. no effect: share of steps whose action was "
        "understood and changed nothing.",
    )
    columns = ("arm", "role", "calls", "in", "out", *troubles, "invalid", "asked back", "no effect")
    return Sheet("tokens", "Calls and tokens", columns, tuple(rows), notes)


def build_cost_table(bill: CostReport) -> Sheet:
    """Build the table of costs by arm, role and model; empty if everything is free."""
    rows = []
    for entry in () if bill.free else bill.entries:
        usage = entry.usage
        counts = (usage.input, usage.cached, usage.cache_write, usage.output, usage.reasoning)
        amounts = map(format_dollar_amount, (entry.billed, entry.without_cache))
        rows.append((*map(format_text, (entry.arm, entry.role, entry.model)), *map(format_count, counts), *amounts))
    if not bill.free:
        totals = map(format_dollar_amount, (bill.billed, bill.without_cache))
        rows.append((format_text("all", "total"), *[format_text("")] * 2, *[Cell("")] * 5, *totals))
    columns = ("arm", "role", "model", "in", "cached", "written", "out", "reasoning", "billed", "uncached")
    return Sheet("bill", "Cost in US dollars", columns, tuple(rows))


def build_errored_table(found: Analysis) -> Sheet:
    """Build the table of units that errored, with their errors."""
    rows = tuple(
        (format_text(each.arm, "bad"), format_text(each.unit), format_count(each.seed), format_text(each.error))
        for each in found.errored
    )
    notes = ["Errored units have no score; means and pairs leave them out. Repeat the command to play them again."]
    if any(each.is_skipped for each in found.errored):
        notes.append(
            f"{REFUSED} marks units that were skipped: the environment refuses their variants, as it would again."
        )
    return Sheet("errored", "Errored", ("arm", "unit", "seed", "error"), rows, tuple(notes))


def format_ranges(numbers: Sequence[int], least: int = 3) -> list[str]:
    """Format ascending numbers, `least` or more consecutive ones as a range: 1, 2, 3, 7 are `1-3` and `7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [part for run in runs for part in ([f"{run[0]}-{run[-1]}"] if len(run) >= least else map(str, run))]


def describe_facts(found: Analysis) -> dict[str, str]:
    """Return what the results depend on, by name, with consecutive seeds as ranges."""
    seeds = sorted(int(seed) for seed in found.facts.get("seed", ()))
    listed = {name: format_ranges(seeds) if name == "seed" else values for name, values in found.facts.items()}
    return {name: ", ".join(values) for name, values in listed.items()}


def describe_run(found: Analysis) -> list[str]:
    """Describe in sentences what the numbers are and where they come from."""
    named = describe_facts(found)
    said = f"Protocol {named.get('protocol', NOTHING)}. Actor {named.get('actor', NOTHING)}. "
    said += "Scores are points of 100; best_of_t is the best accumulator of the first t trials."
    return [said, *([found.rule_based_note] if found.rule_based_note else [])]


def render_analysis(found: Analysis, whole: bool = True, with_paper: bool = False) -> Group:
    """Render all tables with their notes for the terminal, or only the main ones."""
    return Group(*_render_parts(found, whole, with_paper))


def _render_parts(found: Analysis, whole: bool, with_paper: bool) -> Iterator[RenderableType]:
    if not found.arms:
        yield Text("No unit is finished yet.")
    shown = [sheet for sheet in build_tables(found, with_paper) if whole or sheet.name in MAIN]
    for place, sheet in enumerate(shown):
        yield from [Text()] * bool(place)
        yield Text(sheet.title, style="bold")
        yield to_rich_table(sheet)
        if whole:
            yield from map(_dim_text, sheet.notes)
    yield Text()
    yield from map(_dim_text, describe_unreported_costs(found.bill))
    for skipped, title in ((False, f"Errored {AGAIN}"), (True, f"Skipped {NEVER}")):
        errored = [each for each in found.errored if each.is_skipped == skipped]
        lines = [replace_controls(f"  {each.arm} {each.unit}: {each.error}") for each in errored]
        if lines:
            yield Text(f"{title}:\n" + "\n".join(lines), style="red")
    if found.arms:
        yield from map(_dim_text, describe_run(found))
    if whole:
        facts = (f"{name} {said}" for name, said in describe_facts(found).items() if name not in ("protocol", "actor"))
        yield _dim_text("; ".join(facts) + ".")
    else:
        yield from map(_dim_text, chain.from_iterable(sheet.notes for sheet in shown if sheet.name in NOTED))
        if found.findings:
            yield _dim_text("`rsso-dspy report` shows the strata, task types and figures.")


def _dim_text(text: str) -> Text:
    return Text(replace_controls(text), style="dim")
