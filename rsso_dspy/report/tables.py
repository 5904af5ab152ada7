"""The tables of a run, built from its `Analysis`. Nothing is computed here except ratios of its numbers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.text import Text

from rsso_dspy.records import REFUSED, ZERO_SHOT
from rsso_dspy.report import sheets
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.compare import Comparison, Factorial2x2
from rsso_dspy.report.cost import describe_unreported_costs, total_billed, total_usage
from rsso_dspy.report.metrics import CATEGORIES, FAILURES, LEVELS, UNEVEN, ArmMetrics, describe_repeated_units
from rsso_dspy.report.published import METHODS, load_published_tables
from rsso_dspy.report.sheets import Cell, Sheet, build_sheet, format_difference, format_number
from rsso_dspy.report.statistics import FEW, LEVEL, NO_INTERVAL, POWER
from rsso_dspy.report.terminal import to_plain_text

MAIN = ("methods", "learning", "differences", "trainings", "tokens", "errored")  # printed at the end of a run
NOTED = ("methods", "learning", "differences", "errored")  # those whose notes are printed then

COUNTS = {"calls": "calls", "input": "in", "cached": "cached", "cache_write": "written", "output": "out"} | {
    name: name for name in ("reasoning", "malformed", "repaired", "truncated", "failed", "unmetered")
}
"""Count of a usage to its column; but for `ALWAYS`, columns are shown only if there is something to count."""

ALWAYS = ("calls", "input", "output", "malformed")
SHARES = {"invalid": "invalid_rate", "asked back": "asked_rate", "no effect": "idle_rate"}
DETECTABLE = "min. detectable difference"

READINGS = {
    "compose": "compose: both together score higher than each alone",
    "redundant": "redundant: together they gain less than the sum of both, and are not shown to beat each alone",
    "adversarial": "adversarial: both together score lower than each alone",
    "undecided": "no result: too few {clusters} to tell",
}

SOLVED_BELOW_100 = "Solve above Acc100: points held at reset count for Solve, +reset and env, and no action earns them."
PAPER_NOTE = (
    "Published rows are from Tables 1 and 2 of rSSO, with another model (Claude Sonnet 4.6, 164 variants, 5 trials): "
    "use them for orientation, not for comparison. The published react is trial 1 of its Reflexion run."
)
SUCCESS = "solved: in this trial or before; additional: in it for the first time. Reflexion's own measures."
HELD = "Units hold more reflections when more trials failed: such variants are harder, the reflections not weaker."
FAILED = (
    "Each trial counts once. wrong answer: its last action ended it at a loss. loops: repeated, exhausted, or ten "
    "actions of at most three kinds. not found: steps used up, nothing earned. out of steps: used up after some was."
)
STRATA = (
    "The first arm decides the stratum of a unit; plateau: never better than at trial 1; the paper's plateau: solved "
    "in no trial. Units with a bad first arm gain under any second one: check the row over equal retries first."
)
PER_TASK = (
    "progress: highest score of a unit; grounding: share of a trial's steps that were understood (AgentBoard). Turns "
    "and calls: of all trials. Per solved variant: all scored units, without training, building and compiling."
)
RULES = (
    "abstract, error: rules after the last unit; progress: rules shown per unit. Rule lists: a model's answers as rule "
    "writer, with the shares that could not be read and that broke the format."
)
STEPS = (
    "Shares of steps. invalid: malformed or not understood; asked back: the environment asked which action was meant; "
    "no effect: understood, and changed nothing."
)


def build_tables(found: Analysis, with_paper: bool = False) -> list[Sheet]:
    """Build all tables that have rows, in reading order; with the published rows if `with_paper`."""
    tables = [
        build_methods_table(found, with_paper),
        build_learning_table(found),
        build_success_table(found),
        build_reflections_table(found),
        build_failures_table(found),
        build_differences_table(found),
        build_strata_table(found),
        build_tasks_table(found, with_paper),
        build_trainings_table(found),
        build_measures_table(found),
        build_tokens_table(found),
        build_errored_table(found),
    ]
    return [sheet for sheet in tables if sheet.rows]


def build_table_files(found: Analysis, with_paper: bool = False) -> Mapping[Path, str]:
    return {
        Path(f"{sheet.name}.{ending}"): form(sheet)
        for sheet in build_tables(found, with_paper)
        for ending, form in sheets.FORMS.items()
    }


def build_methods_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 1 of rSSO from this run, with the published rows if `with_paper`."""
    rows: list[Sequence[Any]] = [
        (
            *(row.arm, _format_units(row.units, row.errored)),
            *(row.mean, row.mean_with_reset, row.environment_score, row.macro_mean),
            *((row.solve, row.units), (row.acc100, row.units)),
        )
        for row in found.arms
    ]
    notes = list(_describe_methods(found))
    if with_paper:
        published = load_published_tables()
        for row in published["table1"]:
            macro = fmean(each[row["method"]] for each in published["table2"])
            shares = tuple(row["solve"]), tuple(row["acc100"])
            name = sheets.format_text(f"published {row['method']}", "dim")
            rows.append((name, row["solve"][1], row["mean"], None, None, macro, *shares))
        notes.append(PAPER_NOTE)
    columns = ("arm", "units", "Mean", "+reset", "env", "macro", "Solve", "Acc100")
    return build_sheet("methods", "Best of t", columns, rows, notes)


def _describe_methods(found: Analysis) -> Iterator[str]:
    yield "Mean, +reset and env are micro means, over variants; macro is Mean averaged over task types."
    if len(set(found.plays.values())) > 1:
        allowed = ", ".join(f"{arm} {trials}" for arm, trials in found.plays.items())
        yield f"The best of more trials is higher by chance alone. Trials that a unit may play: {allowed}."
    yield from _note_uneven(found)
    if any(row.solve > row.acc100 for row in found.arms):
        yield SOLVED_BELOW_100
    yield from _describe_stalled_trials([(row.arm, row.stalled, row.trials_played) for row in found.arms])
    yield from found.describe_gaps()
    yield from describe_repeated_units(found.repeated)


def _format_units(units: int, errored: int) -> Cell:
    return Cell(f"{units:,} ({errored} err)", units) if errored else format_number(units, ",")


def _note_uneven(found: Analysis) -> list[str]:
    return [] if found.alike else [UNEVEN]


def _describe_stalled_trials(counted: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    if units := [f"{arm} {stalled} of {trials} trials" for arm, stalled, trials in counted if stalled]:
        yield (
            f"Stalled: {', '.join(units)}. A step of these trials took longer than environment.step_seconds. Means "
            "include them with the points they had, and memories learned from them."
        )


def build_learning_table(found: Analysis) -> Sheet:
    """Build the table of points from trial to trial (rSSO, Figure 2), and of when variants were solved."""
    longest = max(found.plays.values(), default=0)
    rows = []
    for row in found.arms:
        kept = [row.best_of_t[-1]] * (found.plays[row.arm] - len(row.best_of_t)) if row.best_of_t else []
        levels = (Cell("never" if t is None else f"{t}", t) for t in row.learning.trials_to.values())
        best = _pad([*row.best_of_t, *kept], longest)
        rows.append((row.arm, row.trials_played, row.trial_1, row.mean_over_trials, *best, *levels))
    notes = ["mean/trial is a mean of unit means: the mean accumulator of a unit's played trials, averaged over units."]
    if len({row.trials_played / row.units for row in found.arms if row.units}) > 1:
        notes[0] += " Units of these arms played different numbers of trials: do not compare it between arms."
    notes += ["to 50%: number of trials after which half of the variants were solved.", *_note_uneven(found)]
    best_of = (f"best_of_{number}" for number in range(1, longest + 1))
    columns = ("arm", "trials", "trial-1", "mean/trial", *best_of, *(f"to {level}%" for level in LEVELS))
    return build_sheet("learning", "Over trials", columns, rows, notes)


def _pad(values: Sequence[float], length: int) -> list[float | None]:
    return [*values, *[None] * (length - len(values))]


def build_success_table(found: Analysis) -> Sheet:
    """Build the table of variants solved so far, additional and accuracy of every trial; arms that played several."""
    rows = [
        (
            *(arm.arm if each.trial == 1 else "", each.trial, each.solved, each.additional),
            *(arm.units - each.solved, format_number(each.accuracy, ".1%")),
        )
        for arm in found.arms
        if len(arm.learning.success) > 1
        for each in arm.learning.success
    ]
    columns = ("arm", "trial", "solved", "additional", "fail", "accuracy")
    return build_sheet("success", "Success, trial by trial", columns, rows, [SUCCESS])


def build_reflections_table(found: Analysis) -> Sheet:
    """Build the table of solved trials by the number of reflections held when they began."""
    several = {arm.arm: arm.learning.held for arm in found.arms if len(arm.learning.held) > 1}
    counts = sorted({count for held in several.values() for count in held})
    rows = [(arm, *(held.get(count, "") for count in counts)) for arm, held in several.items()]
    title = "Trials solved, by reflections held"
    return build_sheet("reflections", title, ("arm", *map(str, counts)), rows, [HELD])


def build_failures_table(found: Analysis) -> Sheet:
    failed = ((arm.arm, [arm.learning.failures[why] for why in FAILURES]) for arm in found.arms)
    rows = [(arm, sum(counts), *counts) for arm, counts in failed if any(counts)]
    title = "Trials that were not solved, and why"
    return build_sheet("failures", title, ("arm", "trials", *FAILURES), rows, [FAILED])


def build_differences_table(found: Analysis) -> Sheet:
    """Build the table of paired differences with intervals and p, then the interaction of skills and reflections."""
    rows: list[Sequence[Any]] = [
        (
            pair.name,
            Cell(f"{pair.pairs} (-{pair.excluded})", pair.pairs) if pair.excluded else pair.pairs,
            format_difference(pair.difference, tone=_choose_tone(pair)),
            *sheets.format_interval(pair.interval),
            Cell(signs := f"+{pair.higher} -{pair.lower}", pair.higher - pair.lower, counts=signs),
            *(sheets.format_p_value(pair.wilcoxon.p), sheets.format_p_value(pair.holm)),
            sheets.format_text(pair.asks),
        )
        for pair in found.comparisons
    ]
    rows += chain.from_iterable(_build_square_rows(square, name) for name, square in found.squares.items())
    interval = (f"{LEVEL:.0%} from", "to", DETECTABLE)
    columns = ("second - first", "pairs", "points", *interval, "units +/-", "p", "Holm", "asks")
    return build_sheet("differences", "Paired differences", columns, rows, _describe_differences(found))


def _build_square_rows(square: Factorial2x2, program: str) -> Iterator[Sequence[Any]]:
    """Yield the rows of a 2x2: the interaction with what it says, and both memories over each alone."""
    (neither, reflections, skills, both), (_, one, other, together) = square.corners, square.means
    reading = "no result" if square.reading == "undecided" else square.reading
    for name, difference, interval, asks in (
        (f"{both} - {skills} - {reflections} + {neither}", square.difference, square.interaction, reading),
        (f"{both} - {reflections} (2x2)", together - one, square.over_one, "both over reflections"),
        (f"{both} - {skills} (2x2)", together - other, square.over_other, "both over skills"),
    ):
        asked = f"skills x reflections{_name_program(program)}: {asks}"
        yield (name, square.pairs, format_difference(difference), *sheets.format_interval(interval), "", "", "", asked)


def _name_program(program: str) -> str:
    return "" if program == ZERO_SHOT else f" of {program}"


def _choose_tone(pair: Comparison) -> sheets.Tone:
    """Return good or bad if the interval excludes 0 and the corrected test agrees, otherwise no tone."""
    if pair.interval is None or not pair.interval.is_decided or pair.holm is None or pair.holm > 1 - LEVEL:
        return ""
    return "good" if pair.interval.low > 0 else "bad"


def _describe_differences(found: Analysis) -> Iterator[str]:
    pairs = found.comparisons
    intervals = [pair.interval for pair in pairs if pair.interval]
    tested = sum(pair.holm is not None for pair in pairs)
    yield (
        f"Intervals ({LEVEL:.0%}) are bootstrapped over task types, because variants of one type are alike. They are "
        f"not corrected for the number of comparisons; Holm's p is. {DETECTABLE}: the smallest difference that a run "
        f"of this size would find in {POWER:.0%} of cases."
    )
    yield (
        "p: Wilcoxon signed-rank test over the means of task types, two-sided, exact, without zeros. Holm: p corrected "
        f"for {tested or 'no'} test{'s' if tested != 1 else ''}."
    )
    for program, square in found.squares.items():
        interval = square.interaction or square.over_one or square.over_other
        reading = READINGS[square.reading].format(clusters=interval.noun if interval else "task types")
        yield f"Skills x reflections{_name_program(program)}, over units that all four arms finished: {reading}."
    alone = any(None in (each.interaction, each.over_one, each.over_other) for each in found.squares.values())
    if alone or any(pair.pairs and pair.interval is None for pair in pairs):
        yield f"{sheets.NOTHING}: {NO_INTERVAL}."
    for pair in pairs:
        if pair.interval and pair.interval.is_hopeless:
            yield (
                f"{pair.name}: no result, {pair.interval.clusters_in_words} are too few. A run of this size may miss "
                "even the largest possible difference."
            )
    if any(pair.excluded for pair in pairs):
        yield "(-n): number of pairs left out because a unit errored or is missing in one of the two arms."
    if any(interval.over == "task types" and interval.clusters < FEW for interval in intervals):
        yield f"Intervals over fewer than {FEW} task types are rough."
    if any(interval.over == "units" for interval in intervals):
        yield "With one task type, the interval is over its variants and says nothing about other tasks."
    for pair in pairs:
        if pair.pairs and pair.trials < max(pair.may_play):
            yield f"{pair.name}: scores are the best of the first {pair.trials}, as many trials as both may play."


def build_strata_table(found: Analysis) -> Sheet:
    rows = [
        (pair.name, *(cell for gain in pair.gains for cell in (gain.units, format_difference(gain.difference))))
        for pair in found.comparisons
    ]
    names = [gain.stratum for pair in found.comparisons[:1] for gain in pair.gains]
    columns = ("second - first", *(column for name in names for column in (f"n {name}", name)))
    return build_sheet("strata", "Gains by stratum", columns, rows, [STRATA])


def build_tasks_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 2 of rSSO from this run: means by task type, the paired difference of two arms, variants solved."""
    arms, pair = [row.arm for row in found.arms], found.main_result
    paper = {row["task"]: row for row in load_published_tables()["table2"]} if with_paper else {}
    notes = [*_note_uneven(found), *([PAPER_NOTE] if with_paper else [])]
    if pair:
        notes.append(f"{pair.name}: paired by unit, best of the first {pair.trials} trials.")
    rows = []
    for task in found.tasks:
        means = (format_number(task.means.get(arm), ".1f") for arm in arms)
        difference = [format_difference(pair.by_task.get(task.name), 1)] if pair else []
        solved = (arm.learning.by_task.get(task.name, "") for arm in found.arms)
        theirs = (format_number(paper.get(task.name, {}).get(each), ".1f", "dim") for each in METHODS if with_paper)
        rows.append((sheets.format_text(task.name, task=task.name), task.units, *means, *difference, *solved, *theirs))
    published = (f"published {method}" for method in METHODS if with_paper)
    columns = ("task", "n", *arms, *([pair.name] if pair else []), *(f"{arm} solved" for arm in arms), *published)
    return build_sheet("tasks", "By task type", columns, rows, notes)


def build_trainings_table(found: Analysis) -> Sheet:
    rounds = max((len(row.rounds) for row in found.trainings), default=0)
    rows = [
        (row.arm, _format_units(row.tasks, row.errored), row.episodes, *_pad(row.rounds, rounds))
        for row in found.trainings
    ]
    columns = ("arm", "tasks", "episodes", *(f"round {number}" for number in range(1, rounds + 1)))
    notes = _describe_stalled_trials([(row.arm, row.stalled, row.episodes) for row in found.trainings])
    return build_sheet("trainings", "Training", columns, rows, notes)


def build_measures_table(found: Analysis) -> Sheet:
    """Build the table of measures per task (AgentBoard, OmniReflect) and of usage per solved variant. Columns about
    rules appear where there are any."""
    ruled = any(row.rules is not None for row in found.arms)
    rows = []
    for row in found.arms:
        cells: list[Any] = [row.arm, row.units, (row.solve, row.units)]
        cells += [format_number(row.progress, ".1%"), format_number(row.grounding, ".1%")]
        cells += [format_number(row.turns, ".1f"), format_number(row.calls_per_unit, ".1f"), row.most_calls]
        if row.solve:
            used, billed = total_usage(found.spent[row.arm]), total_billed(found.spent[row.arm])
            cells += [round(amount / row.solve) for amount in (row.steps, used.input + used.output)]
            cells.append(sheets.format_dollar_amount(None if billed is None else billed / row.solve))
        else:
            cells += [None, None, None]
        rows.append([*cells, *(_build_rule_cells(row) if ruled else ())])
    columns = ["arm", "units", "Success", "progress", "grounding", "turns/task", "calls/task", "most calls"]
    columns += ["steps/solved", "tokens/solved", "USD/solved"]
    columns += (*CATEGORIES, "rule lists", "malformed", "repaired") if ruled else ()
    return build_sheet("measures", "Per task", columns, rows, [PER_TASK, *([RULES] if ruled else [])])


def _build_rule_cells(row: ArmMetrics) -> list[Any]:
    """Build the cells of rules by category, and of the shares of a writer's lists that broke the format."""
    lists = row.writings.calls
    bad = (row.writings.malformed, row.writings.repaired)
    counts = (format_number(None if row.rules is None else row.rules[name], ".1f") for name in CATEGORIES)
    return [*counts, lists, *(format_number(count / lists if lists else None, ".1%") for count in bad)]


def build_tokens_table(found: Analysis) -> Sheet:
    """Build the table of calls, tokens and dollars by role. Of what costs nothing, it has no dollars."""
    arms, paid = {row.arm: row for row in found.arms}, not found.bill.free
    several = len({(name, entry.role) for name, entry in found.costs}) < len(found.costs)
    everything = total_usage(entry for _, entry in found.costs)
    counted = {name: column for name, column in COUNTS.items() if name in ALWAYS or getattr(everything, name)}
    rows: list[Sequence[Any]] = []
    for name, entry in found.costs:
        model = [entry.model] if several else []
        counts = (getattr(entry.usage, each) for each in counted)
        rates: list[Any] = [""] * len(SHARES)
        if name in arms and entry.role == "actor" and arms[name].steps:
            rates = [format_number(getattr(arms[name], each), ".1%") for each in SHARES.values()]
        dollars = map(sheets.format_dollar_amount, (entry.billed, entry.without_cache) if paid else ())
        rows.append((name, entry.role, *model, *counts, *rates, *dollars))
    columns = ["arm", "role", *(["model"] if several else []), *counted.values(), *SHARES]
    notes = [STEPS]
    if paid:
        totals = map(sheets.format_dollar_amount, (found.bill.billed, found.bill.without_cache))
        rows.append((sheets.format_text("all", "total"), *[""] * (len(columns) - 1), *totals))
        columns += ["billed", "uncached"]
        notes += ["billed, uncached: US dollars, with and without the provider's cache; all counts unfinished units."]
    return build_sheet("tokens", "Calls and tokens", columns, rows, notes)


def build_errored_table(found: Analysis) -> Sheet:
    rows = [(sheets.format_text(each.arm, "bad"), each.unit, each.seed, each.error) for each in found.errored]
    notes = ["Errored units have no score; means and pairs leave them out. Repeat the command to play them again."]
    if any(each.is_skipped for each in found.errored):
        notes.append(
            f"{REFUSED} marks units that were skipped: the environment refuses their variants, as it would again."
        )
    return build_sheet("errored", "Errored", ("arm", "unit", "seed", "error"), rows, notes)


def describe_facts(found: Analysis) -> dict[str, str]:
    """Return what the results depend on, by name."""
    facts = {**found.facts, "seed": sorted(found.facts.get("seed", ()), key=len)}  # which are sorted as texts
    return {name: ", ".join(values) for name, values in facts.items() if values}


def describe_run(found: Analysis) -> list[str]:
    named = describe_facts(found)
    said = f"Protocol {named.get('protocol', sheets.NOTHING)}. Actor {named.get('actor', sheets.NOTHING)}. "
    said += "Scores are points of 100; best_of_t is the best accumulator of the first t trials."
    return [said, *([found.rule_based_note] if found.rule_based_note else [])]


def render_analysis(found: Analysis, whole: bool = True, with_paper: bool = False) -> Iterator[Sheet | Text]:
    """Yield what `print_parts` prints of a run; unless `whole`, the main tables alone."""
    if not found.arms:
        yield Text("No unit is finished yet.")
    shown = [sheet for sheet in build_tables(found, with_paper) if whole or sheet.name in MAIN]
    notes = describe_unreported_costs(found.bill)
    for place, sheet in enumerate(shown):
        yield from [Text()] * bool(place)
        yield to_plain_text(sheet.title, "bold")
        yield sheet
        yield from (to_plain_text(note, "dim") for note in (sheet.notes if whole else ()))
    notes += describe_run(found) if found.arms else []
    if whole:
        facts = (f"{name} {said}" for name, said in describe_facts(found).items() if name not in ("protocol", "actor"))
        notes.append("; ".join(facts) + ".")
    else:
        notes += chain.from_iterable(sheet.notes for sheet in shown if sheet.name in NOTED)
        notes += ["`rsso-dspy report` shows the strata, task types and figures."] if found.comparisons else []
    yield Text()
    yield from (to_plain_text(note, "dim") for note in notes)
