"""The tables of a run, and its result in a few sentences that hold whatever the numbers are, built from its `Analysis`.
Nothing is computed here except ratios of its numbers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.text import Text

from rsso_dspy.power import TO_FIND, list_larger_designs
from rsso_dspy.pricing import format_dollars, format_tokens, sum_amounts
from rsso_dspy.records import REFUSED, ZERO_SHOT, Announcement
from rsso_dspy.report import sheets
from rsso_dspy.report.analysis import Advice, Analysis, TaskMeans, describe_unreported_costs, total_billed, total_usage
from rsso_dspy.report.compare import Comparison, Factorial2x2
from rsso_dspy.report.doses import describe_doses
from rsso_dspy.report.intervals import FEW, MOST_POINTS, MeanEstimate, group_values
from rsso_dspy.report.metrics import CATEGORIES, FAILURES, LEVELS, ArmMetrics, describe_repeated_units
from rsso_dspy.report.published import (
    MEANS,
    build_curve_cells,
    build_mean_cells,
    describe_derived_points,
    load_data,
    load_published_tables,
)
from rsso_dspy.report.room import Room
from rsso_dspy.report.rounds import RoundsSoFar
from rsso_dspy.report.sheets import INTERVAL, Cell, Sheet, build_sheet, format_difference, format_number
from rsso_dspy.report.terminal import to_plain_text
from rsso_dspy.sign_flips import count_needed_differences

MAIN = ("methods", "learning", "differences", "trainings", "tokens", "errored")  # printed at the end of a run
NOTED = ("methods", "learning", "differences", "errored")  # those whose notes are printed then
OF_STEPS = ("failures", "measures", "shown")  # those that are left out where success alone is known

RARE = 0.1  # share of later trials below which a memory was hardly shown

COUNTS = {
    "calls": "calls",
    "input": "in",
    "cached": "cached",
    "cache_write": "written",
    "output": "out",
    "reasoning": "reasoning",
    "malformed": "malformed",
    "repaired": "repaired",
    "truncated": "truncated",
    "failed": "failed",
    "unmetered": "unmetered",
}
"""Count of a usage to its column; but for `ALWAYS`, columns are shown only if there is something to count."""

ALWAYS = ("calls", "input", "output", "malformed")
SHARES = {"invalid": "invalid_rate", "asked back": "asked_rate", "no effect": "idle_rate"}


def build_tables(found: Analysis, with_paper: bool = False) -> list[Sheet]:
    """Build all tables that have rows, in reading order; with the published rows if `with_paper`."""
    tables = [
        build_methods_table(found, with_paper),
        _build_learning_table(found, with_paper),
        _build_success_table(found),
        _build_repeats_table(found),
        _build_reflections_table(found),
        _build_failures_table(found),
        _build_differences_table(found, with_paper),
        _build_shown_table(found),
        _build_strata_table(found),
        _build_room_table(found),
        _build_next_table(found),
        _build_tasks_table(found, with_paper),
        _build_trainings_table(found),
        build_measures_table(found),
        build_tokens_table(found),
        _build_errored_table(found),
    ]
    left_out = OF_STEPS if found.success_only else ()
    return [sheet for sheet in tables if sheet.rows and sheet.name not in left_out]


def build_table_files(found: Analysis, with_paper: bool = False) -> Mapping[Path, str]:
    files = {}
    for sheet in build_tables(found, with_paper):
        for ending, form in sheets.FORMS.items():
            files[Path(f"{sheet.name}.{ending}")] = form(sheet)
    return files


def _build_table(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], notes: Iterable[str] = ()) -> Sheet:
    """Build a table with its title and the notes that it always has, then these."""
    texts = load_data("texts.toml")["tables"][name]
    return build_sheet(name, texts["title"], columns, rows, [*texts["notes"], *notes])


def _get_notes(**conditions: Any) -> list[str]:
    """Return the notes whose condition is true, by name."""
    notes = load_data("texts.toml")["notes"]
    return [notes[name] for name, holds in conditions.items() if holds]


def build_methods_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 1 of rSSO from this run, best and second best marked where the means can be compared."""
    scores: list[Sequence[Any]] = [_list_scores(row) for row in found.arms]
    has_equal_trials = len(set(found.plays.values())) == 1
    is_comparable = found.alike and has_equal_trials and len(scores) > 1
    if is_comparable:
        scores = sheets.mark_best(scores)

    rows: list[Sequence[Any]] = []
    for row, cells in zip(found.arms, scores, strict=True):
        rows.append((row.arm, row.scaffold, _format_units(row.units, row.errored), *cells))
    if with_paper:
        rows += _list_first_trial_rows(found)
        rows += _list_published_rows()

    columns = ("arm", "scaffold", "units", "Mean", "+reset", "env", "macro", "Solve", "Acc100")
    has_first_trials = with_paper and bool(found.first_trials)
    notes = list(_describe_methods(found))
    notes += _get_notes(best=is_comparable, paper=with_paper, first_trials=has_first_trials)
    return _build_table("methods", columns, rows, notes)


def _list_scores(row: ArmMetrics) -> Sequence[Any]:
    means = (row.mean, row.mean_with_reset, row.environment_score, row.macro_mean)
    shares = ((row.solve, row.units), (row.acc100, row.units))
    return (*means, *shares)


def _list_first_trial_rows(found: Analysis) -> Iterator[Sequence[Any]]:
    for arm, row in found.first_trials.items():
        name = sheets.format_text(f"trial 1 of {arm}", "dim")
        yield (name, row.scaffold, row.units, *_list_scores(row))


def _list_published_rows() -> Iterator[Sequence[Any]]:
    """Yield the rows of the paper's Table 1."""
    published = load_published_tables()
    for row in published["table1"]:
        method = row["method"]
        macro = fmean(task[method] for task in published["table2"])
        means = (row["mean"], None, None, macro)
        shares = (tuple(row["solve"]), tuple(row["acc100"]))
        units = row["solve"][1]
        yield (_name_published(method), row["scaffold"], units, *means, *shares)


def _name_published(method: str) -> Cell:
    return sheets.format_text(f"published {method}", "dim")


def _describe_methods(found: Analysis) -> Iterator[str]:
    if len(set(found.plays.values())) > 1:
        allowed = ", ".join(f"{arm} {trials}" for arm, trials in found.plays.items())
        yield f"The best of more trials is higher by chance alone. Trials that a unit may play: {allowed}."
    below_100 = any(row.solve > row.acc100 for row in found.arms)
    yield from _get_notes(uneven=not found.alike, solved_below_100=below_100)
    yield from _describe_stalled_trials([(row.arm, row.stalled, row.trials_played) for row in found.arms])
    yield from found.describe_gaps()
    yield from describe_repeated_units(found.repeated)


def _format_units(units: int, errored: int) -> Cell:
    if errored:
        return Cell(f"{units:,} ({errored} err)", units)
    return format_number(units, ",")


def _describe_stalled_trials(counted: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    arms = [f"{arm} {stalled} of {trials} trials" for arm, stalled, trials in counted if stalled]
    if arms:
        yield (
            f"Stalled: {', '.join(arms)}. A step of these trials took longer than environment.step_seconds. Means "
            "include them with the points they had, and memories learned from them."
        )


def _build_learning_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build rSSO's Figure 2 as a table, with the gain of trial 2, and when variants were solved."""
    longest = max(found.plays.values(), default=0)
    has_gain = longest > 1
    has_curves = with_paper and has_gain

    rows: list[Sequence[Any]] = [_build_learning_row(found, row, longest) for row in found.arms]
    if has_curves:
        rows += _list_published_curves(longest)

    columns = ["arm", "trials", "trial-1", "mean/trial"]
    columns += [f"best_of_{number}" for number in range(1, longest + 1)]
    if has_gain:
        columns += ["gain of trial 2", *INTERVAL]
    columns += [f"to {level}%" for level in LEVELS]

    trials_per_unit = {row.trials_played / row.units for row in found.arms if row.units}
    about_means = _get_notes(mean_per_trial=True, uneven_trials=len(trials_per_unit) > 1)
    notes = [" ".join(about_means)]
    notes += _get_notes(uneven=not found.alike)
    notes += _get_notes(gain=has_gain, paper=has_curves)
    if has_curves:
        notes.append(describe_derived_points())
    return _build_table("learning", columns, rows, notes)


def _build_learning_row(found: Analysis, row: ArmMetrics, longest: int) -> Sequence[Any]:
    best: list[float] = []
    if row.units:
        best = [estimate.mean for estimate in found.estimates[row.arm].best_of_t]

    cells: list[Any] = [row.arm, row.trials_played, row.trial_1, row.mean_over_trials]
    cells += _pad(best, longest)
    if longest > 1:
        cells += _build_gain_cells(row.gain)
    for trials in row.learning.trials_to.values():
        text = "never" if trials is None else f"{trials}"
        cells.append(Cell(text, trials))
    return cells


def _list_published_curves(longest: int) -> Iterator[Sequence[Any]]:
    """Yield the rows of the paper's Figure 2, of as many trials."""
    published = load_published_tables()
    gains = published["trial_1_to_2_gain"]
    for method in published["cumulative_best_of_t"]:
        curve = build_curve_cells(method)
        gain = gains.get(method)
        estimate = None if gain is None else MeanEstimate(gain, None)

        cells: list[Any] = [curve[0], None, *_pad(curve, longest)[:longest]]
        cells += _build_gain_cells(estimate)
        cells += [""] * len(LEVELS)
        yield (_name_published(method), None, *cells)


def _build_gain_cells(gain: MeanEstimate | None) -> tuple[Cell, ...]:
    mean = gain.mean if gain else None
    interval = gain.interval if gain else None
    ends = sheets.format_interval(interval)[:2]
    return (format_difference(mean), *ends)


def _pad(values: Sequence[Any], length: int) -> list[Any]:
    return [*values, *[None] * (length - len(values))]


def _build_success_table(found: Analysis) -> Sheet:
    rows: list[Sequence[Any]] = []
    for arm in found.arms:
        if len(arm.learning.success) < 2:
            continue
        for success in arm.learning.success:
            failed = arm.units - success.solved
            accuracy = format_number(success.accuracy, ".1%")
            rows.append((arm.arm, success.trial, success.solved, success.additional, failed, accuracy))

    columns = ("arm", "trial", "solved", "additional", "fail", "accuracy")
    return _build_table("success", columns, rows)


def _build_repeats_table(found: Analysis) -> Sheet:
    """Build the table of pass^k, for which an arm has a row a kind of repeats and k."""
    rows: list[Sequence[Any]] = []
    for arm in found.arms:
        for success in arm.repeat_success:
            interval = success.estimate.interval
            low = interval.low if interval else None
            high = interval.high if interval else None
            shares = [format_number(value, ".1f") for value in (success.estimate.mean, low, high)]
            rows.append((arm.arm, success.repeats, success.k, success.variants, *shares))

    arms_by_reason = group_values((why, arm) for arm, why in found.dependence.items())
    notes = [f"No pass^k of trials: {sheets.join_words(arms)}: {why}." for why, arms in arms_by_reason.items()]
    columns = ("arm", "repeats", "k", "variants", "pass^k, %", *INTERVAL)
    return _build_table("repeats", columns, rows, notes)


def _build_reflections_table(found: Analysis) -> Sheet:
    several = [arm for arm in found.arms if len(arm.learning.held) > 1]
    counts = sorted({count for arm in several for count in arm.learning.held})
    rows: list[Sequence[Any]] = []
    for arm in several:
        repeats = arm.learning.repeats
        repeated: Any = ""
        if repeats.reflections:
            repeated = (repeats.repeated, repeats.reflections)
        solved = [arm.learning.held.get(count, "") for count in counts]
        rows.append((arm.arm, arm.learning.written, repeated, *solved))

    columns = ("arm", "written/unit", "repeated", *map(str, counts))
    return _build_table("reflections", columns, rows)


def _build_failures_table(found: Analysis) -> Sheet:
    rows: list[Sequence[Any]] = []
    for arm in found.arms:
        counts = arm.learning.failures.values()
        if any(counts):
            rows.append((arm.arm, sum(counts), *counts))
    return _build_table("failures", ("arm", "trials", *FAILURES), rows)


def _build_differences_table(found: Analysis, with_paper: bool = False) -> Sheet:
    columns = ["second - first", "pairs", "points", *INTERVAL, "min. detectable difference", "units +/-", "p", "Holm"]
    if with_paper:
        columns.append("Wilcoxon")
    columns += ["verdict", "shown", "asks"]

    rows: list[Sequence[Any]] = [_build_difference_row(pair, with_paper) for pair in found.comparisons]
    for program, square in found.squares.items():
        rows += _build_square_rows(square, program, found.comparisons, with_paper)
    return _build_table("differences", columns, rows, _describe_differences(found))


def _build_difference_row(pair: Comparison, with_paper: bool) -> Sequence[Any]:
    pairs: Any = pair.pairs
    if pair.excluded:
        pairs = Cell(f"{pair.pairs} (-{pair.excluded})", pair.pairs)
    signs = f"+{pair.higher} -{pair.lower}"
    doses = [f"{dose.memory} {dose.trials}/{dose.possible_trials}" for dose in pair.doses]

    cells: list[Any] = [
        pair.name,
        pairs,
        format_difference(pair.difference),
        *sheets.format_interval(pair.interval),
        Cell(signs, pair.higher - pair.lower, counts=signs),
        sheets.format_p_value(pair.flips.p),
        sheets.format_p_value(pair.holm),
    ]
    if with_paper:
        cells.append(sheets.format_p_value(pair.wilcoxon.p))
    cells += [str(pair.verdict), ", ".join(doses), sheets.format_text(pair.asks)]
    return cells


def _build_square_rows(
    square: Factorial2x2, program: str, comparisons: Sequence[Comparison], with_paper: bool
) -> Iterator[Sequence[Any]]:
    """Yield the interaction of a 2x2, and what both memories gain over each where that is no row of its own."""
    compared = {pair.family_test for pair in comparisons}
    questions = (square.reading, "both over reflections", "both over skills")
    for (test, effect), name, asks in zip(square.effects.items(), square.effect_names, questions, strict=True):
        if test in compared:
            continue
        interval = sheets.format_interval(effect.interval)
        tests = [sheets.format_p_value(effect.flips.p), sheets.format_p_value(effect.holm)]
        if with_paper:
            tests.append(Cell(""))
        question = f"skills x reflections{_name_program(program)}: {asks}"
        yield (name, square.pairs, format_difference(effect.difference), *interval, "", *tests, "", "", question)


def _name_program(program: str) -> str:
    return "" if program == ZERO_SHOT else f" of {program}"


def _describe_differences(found: Analysis) -> Iterator[str]:
    pairs = found.comparisons
    intervals = [pair.interval for pair in pairs if pair.interval]
    clusters = found.question.over

    yield from _get_notes(over_types=clusters == "task types", over_variants=clusters == "variants")
    if found.announced is None:
        yield _describe_tests(found)
    else:
        yield _describe_sequential_tests(found.announced)

    for program, square in found.squares.items():
        (reading,) = _get_notes(**{square.reading.replace(" ", "_"): True})
        yield f"Skills x reflections{_name_program(program)}, over units that all four arms finished: {reading}."
    for pair in pairs:
        if pair.pairs and not pair.verdict.has_winner:
            reasons = [*pair.verdict.reasons, *_describe_room(pair)]
            yield f"{pair.name}: {pair.verdict}; {'; '.join(reasons)}."

    if any(interval.clusters < FEW for interval in intervals):
        yield f"Intervals over fewer than {FEW} task types, or variants, are rough."
    has_excluded = any(pair.excluded for pair in pairs)
    has_one_task = any(interval.over != clusters for interval in intervals)
    yield from _get_notes(excluded=has_excluded, one_task=has_one_task)

    for pair in pairs:
        if pair.unlike:
            yield f"{pair.name}: the arms differ in more than the method: {pair.unlike}."
        if pair.pairs and pair.trials < max(pair.may_play):
            yield f"{pair.name}: scores are {_describe_scores(pair.trials)}, as many trials as both may play."


def _describe_scores(trials: int) -> str:
    if trials == 1:
        return "those of the first trial"
    return f"the best of the first {trials} trials"


def _describe_tests(found: Analysis) -> str:
    tests = found.tests
    clusters = found.question.over
    corrected = f"p corrected for the report's {tests} test{'s' if tests != 1 else ''}"
    if tests:
        corrected += f"; with so many, at least {count_needed_differences(tests)} {clusters} must differ"
    return (
        f"p: exact sign flips over sums of {clusters}, two-sided. Holm: {corrected}. A winner needs Holm's p "
        "of at most 0.05 and an interval without 0."
    )


def _describe_sequential_tests(announced: Announcement) -> str:
    pairs = len(announced.pairs)
    shared = f", shared among {pairs} memories" if pairs > 1 else ""
    return (
        f"{announced.rounds} rounds were announced, each of a variant of {announced.task_types} task types. Verdicts "
        "and intervals are of complete rounds, and hold however often one looks between them, at the 5% level"
        f"{shared}: better or worse by group-sequential sign flips over task types, no gain by bets and by t tests "
        "that agree. Other pairs have no verdict."
    )


def _describe_room(pair: Comparison) -> Iterator[str]:
    """Yield how much a run of this size finds of what is left to gain, where it decided nothing."""
    if pair.verdict.word != "undecided" or pair.interval is None or pair.room is None:
        return
    difference = pair.interval.detectable_difference
    finding = "may miss every difference"
    if difference <= MOST_POINTS:
        finding = f"finds {difference:.1f}"
    yield f"{pair.room:.1f} points are left above {pair.first}, and a run of this size {finding}"


def _build_shown_table(found: Analysis) -> Sheet:
    rows: list[Sequence[Any]] = []
    rare = []
    for arm in found.arms:
        for memory in arm.shown:
            trials = (memory.trials, arm.trials_played)
            later_trials = (memory.later_trials, arm.later_trials)
            steps = (memory.steps, arm.steps)
            rows.append((arm.arm, memory.memory, trials, later_trials, steps))
            if memory.later_trials < RARE * arm.later_trials:
                rare.append(f"{memory.memory} of {arm.arm}")

    notes = []
    if rare:
        notes.append(f"Hardly shown, so that this run says next to nothing of them: {', '.join(rare)}.")
    return _build_table("shown", ("arm", "memory", "trials", "later trials", "steps"), rows, notes)


def _build_strata_table(found: Analysis) -> Sheet:
    rows: list[Sequence[Any]] = []
    for pair in found.comparisons:
        for gain in pair.gains:
            ends: Sequence[Any] = ("", "")
            if gain.interval:
                ends = sheets.format_interval(gain.interval)[:2]
            rows.append((pair.name, gain.stratum, gain.units, format_difference(gain.difference), *ends))

    columns = ("second - first", "stratum", "units", "points", *INTERVAL)
    return _build_table("strata", columns, rows)


def _build_room_table(found: Analysis) -> Sheet:
    """Build the table of what part of the room below a ceiling each arm fills."""
    room = found.room
    if room is None:
        return _build_table("room", (), [])
    rows: list[Sequence[Any]] = []
    for share in room.shares:
        ends: Sequence[Any] = ("", "")
        if share.interval is not None:
            ends = [_format_share(end) for end in share.interval]
        rows.append((share.arm, room.units, format_difference(share.gain), _format_share(share.share), *ends))
    points = format_difference(room.highest - room.lowest)
    rows.append((room.ceiling, room.units, points, _format_share(1.0), "", ""))

    notes = [
        f"Room: what {room.ceiling} ({room.highest:.1f} points) earns above {room.bottom} ({room.lowest:.1f}), on "
        "units that all of these arms finished. Intervals (95%, Fieller) are over task types."
    ]
    if room.objection:
        notes.append(describe_objection(room))
    return _build_table("room", ("arm", "units", "points", "share of the room", *INTERVAL), rows, notes)


def _format_share(share: float) -> Cell:
    return Cell(f"{100 * share:.0f}%")


def describe_objection(room: Room) -> str:
    return f"These units cannot tell what a memory is worth: {room.objection}."


def _build_next_table(found: Analysis) -> Sheet:
    """Build the table of runs that would find what this one may have missed, with their calls and dollars."""
    rows: list[Sequence[Any]] = []
    notes = []
    for pair in _list_open_pairs(found):
        notes.append(_describe_noise(pair))
        rows += _list_larger_runs(found, pair)

    columns = ["second - first", "to find", "by", "task types", "variants", "seeds", "units/arm", "calls"]
    if not found.bill.free:
        columns.append("USD")
    return _build_table("next", columns, rows, notes)


def _list_larger_runs(found: Analysis, pair: Comparison) -> Iterator[Sequence[Any]]:
    assert pair.noise is not None
    calls, dollars = _measure_unit_costs(found, pair)
    tests = found.tests if found.announced is None else len(found.announced.pairs)
    needed = count_needed_differences(tests)
    for points in TO_FIND:
        for design in list_larger_designs(pair.noise.design, pair.noise.spread, points, needed):
            all_calls = None if calls is None else round(calls * design.units)
            cells = [format_number(all_calls, ",")]
            if not found.bill.free:
                all_dollars = None if dollars is None else dollars * design.units
                cells.append(sheets.format_dollar_amount(all_dollars))
            counts = (design.task_types, design.variants, design.seeds, design.units)
            yield (pair.name, format_number(points, "g"), f"more {design.more}", *counts, *cells)


def _list_open_pairs(found: Analysis) -> list[Comparison]:
    """Return the first comparisons that found no winner, and whose noise is known."""
    pairs = []
    for pair in found.comparisons:
        if pair.has_winner or pair.verdict.word == "not tested":
            continue
        if pair.noise and pair.noise.spread.units:
            pairs.append(pair)
    return pairs[:MOST]


def _describe_noise(pair: Comparison) -> str:
    assert pair.noise is not None
    spread = pair.noise.spread
    text = f"{pair.name}: differences vary by {spread.units:.0f} points within task types"
    if spread.types:
        text += f", and those of task types by {spread.types:.0f} more"
    text += " (standard deviations)"
    if spread.trial is not None:
        text += f"; two equal arms differ by {spread.trial:.0f} in a trial of one unit"
    return f"{text}."


def _measure_unit_costs(found: Analysis, pair: Comparison) -> tuple[float | None, float | None]:
    """Return the model calls and the dollars that a unit of both arms took."""
    calls = []
    dollars: list[float | None] = []
    for arm in found.arms:
        if arm.arm not in (pair.first, pair.second):
            continue
        calls.append(arm.calls_per_unit)
        billed = total_billed(found.spent[arm.arm])
        if billed is None or not arm.units:
            dollars.append(None)
        else:
            dollars.append(billed / arm.units)
    return sum_amounts(calls), sum_amounts(dollars)


def _build_tasks_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 2 of rSSO from this run, beside the published one where they share a task type."""
    pairs = found.compared_by_task
    paper = {row["task"]: row for row in load_published_tables()["table2"]}
    with_paper = with_paper and any(task.name in paper for task in found.tasks)

    rows: list[Sequence[Any]] = []
    for task in found.tasks:
        cells = _build_task_cells(found, task, pairs)
        if with_paper:
            cells += build_mean_cells(paper.get(task.name, {}), 1, "dim")
        rows.append(cells)
    if rows:
        rows.append(_build_overall_row(found, pairs, with_paper))

    arms = [arm.arm for arm in found.arms]
    columns = ["task", "n", *arms]
    columns += [pair.name for pair in pairs]
    columns += [f"{arm} solved" for arm in arms]
    if with_paper:
        columns += [f"published {name}" for name in MEANS]

    notes = _get_notes(uneven=not found.alike, paper=with_paper)
    for row in found.arms:
        if row.units and row.arm in found.advice:
            notes.append(_describe_solved_types(row))
    notes += [f"{pair.name}: paired by unit; scores are {_describe_scores(pair.trials)}." for pair in pairs]
    return _build_table("tasks", columns, rows, notes)


def _build_task_cells(found: Analysis, task: TaskMeans, pairs: Sequence[Comparison]) -> list[Any]:
    cells: list[Any] = [sheets.format_text(task.name, task=task.name), task.units]
    cells += [format_number(task.means.get(arm.arm), ".1f") for arm in found.arms]
    cells += [format_difference(pair.by_task.get(task.name), 1) for pair in pairs]
    cells += [arm.learning.by_task.get(task.name, "") for arm in found.arms]
    return cells


def _build_overall_row(found: Analysis, pairs: Sequence[Comparison], with_paper: bool) -> Sequence[Any]:
    cells: list[Any] = [sheets.format_text("Overall", "total"), sum(task.units for task in found.tasks)]
    cells += [arm.mean for arm in found.arms]
    cells += [format_difference(pair.difference) for pair in pairs]
    cells += [(arm.solve, arm.units) for arm in found.arms]
    if with_paper:
        cells += build_mean_cells(load_published_tables()["table2_overall"], 2, "dim")
    return cells


def _build_trainings_table(found: Analysis) -> Sheet:
    rounds = max((len(row.rounds) for row in found.trainings), default=0)
    rows: list[Sequence[Any]] = []
    for row in found.trainings:
        tasks = _format_units(row.tasks, row.errored)
        rows.append((row.arm, tasks, row.episodes, *_pad(row.rounds, rounds)))

    columns = ["arm", "tasks", "episodes"]
    columns += [f"round {number}" for number in range(1, rounds + 1)]
    notes = _describe_stalled_trials([(row.arm, row.stalled, row.episodes) for row in found.trainings])
    return _build_table("trainings", columns, rows, notes)


def build_measures_table(found: Analysis) -> Sheet:
    """Build the table of what AgentBoard and OmniReflect measure; columns about rules appear where there are any."""
    has_rules = any(row.rules is not None for row in found.arms)
    rows: list[Sequence[Any]] = []
    for row in found.arms:
        cells: list[Any] = [
            row.arm,
            row.units,
            (row.solve, row.units),
            format_number(row.progress, ".1%"),
            format_number(row.grounding, ".1%"),
            format_number(row.turns, ".1f"),
            format_number(row.calls_per_unit, ".1f"),
            row.most_calls,
        ]
        cells += _build_cells_per_solved(found, row)
        if has_rules:
            cells += _build_rule_cells(row)
        if found.advice:
            cells += _build_advice_cells(found.advice.get(row.arm))
        rows.append(cells)

    columns = ["arm", "units", "Success", "progress", "grounding", "turns/task", "calls/task", "most calls"]
    columns += ["steps/solved", "tokens/solved", "USD/solved"]
    if has_rules:
        columns += [*CATEGORIES, "rule lists", "malformed", "repaired"]
    if found.advice:
        columns += ["advisor", "calibration factor", "calibration set"]
    return _build_table("measures", columns, rows, _get_notes(rules=has_rules, advice=found.advice))


def _build_cells_per_solved(found: Analysis, row: ArmMetrics) -> list[Any]:
    """Build the cells of what a solved unit took: steps, tokens and dollars."""
    if not row.solve:
        return [None, None, None]
    usage = total_usage(found.spent[row.arm])
    billed = total_billed(found.spent[row.arm])
    steps = round(row.steps / row.solve)
    tokens = round((usage.input + usage.output) / row.solve)
    dollars = None if billed is None else billed / row.solve
    return [steps, tokens, sheets.format_dollar_amount(dollars)]


def _build_rule_cells(row: ArmMetrics) -> list[Any]:
    cells: list[Any] = []
    for name in CATEGORIES:
        rules = row.rules[name] if row.rules else None
        cells.append(format_number(rules, ".1f"))

    lists = row.writings.calls
    cells.append(lists)
    for count in (row.writings.malformed, row.writings.repaired):
        share = count / lists if lists else None
        cells.append(format_number(share, ".1%"))
    return cells


def _build_advice_cells(advice: Advice | None) -> list[Any]:
    if advice is None:
        return ["", "", ""]
    return [advice.advisor, format_number(advice.factor, "g"), advice.learnt_on]


def build_tokens_table(found: Analysis) -> Sheet:
    arms = {row.arm: row for row in found.arms}
    is_paid = not found.bill.free
    has_models = len({(name, entry.role) for name, entry in found.costs}) < len(found.costs)
    counted = _select_counts(found)

    rows: list[Sequence[Any]] = []
    for name, entry in found.costs:
        cells: list[Any] = [name, entry.role]
        if has_models:
            cells.append(entry.model)
        cells += [getattr(entry.usage, count) for count in counted]
        cells += _build_step_shares(arms.get(name), entry.role)
        if is_paid:
            cells.append(sheets.format_dollar_amount(entry.billed))
            cells.append(sheets.format_dollar_amount(entry.without_cache))
        rows.append(cells)

    columns = ["arm", "role"]
    if has_models:
        columns.append("model")
    columns += [*counted.values(), *SHARES]
    if is_paid:
        billed = sheets.format_dollar_amount(found.bill.billed)
        without_cache = sheets.format_dollar_amount(found.bill.without_cache)
        blanks = [""] * (len(columns) - 1)
        rows.append((sheets.format_text("all", "total"), *blanks, billed, without_cache))
        columns += ["billed", "uncached"]
    return _build_table("tokens", columns, rows, _get_notes(billed=is_paid))


def _select_counts(found: Analysis) -> dict[str, str]:
    """Return the counts of a usage that have a column, with its name."""
    everything = total_usage(entry for _, entry in found.costs)
    counts = {}
    for name, column in COUNTS.items():
        if name in ALWAYS or getattr(everything, name):
            counts[name] = column
    return counts


def _build_step_shares(arm: ArmMetrics | None, role: str) -> list[Any]:
    """Build the cells of `SHARES`, which are those of the actor; empty for another role."""
    if arm is None or role != "actor" or not arm.steps:
        return [""] * len(SHARES)
    return [format_number(getattr(arm, share), ".1%") for share in SHARES.values()]


def _describe_solved_types(arm: ArmMetrics) -> str:
    """Say of which task types an arm solved all, some or none of its units: which rules were followed, where each is a
    task type."""
    groups: dict[str, list[str]] = {"all": [], "some": [], "none": []}
    for task, (solved, units) in sorted(arm.learning.by_task.items()):
        if solved == units:
            groups["all"].append(task)
        elif solved:
            groups["some"].append(f"{task} ({solved} of {units})")
        else:
            groups["none"].append(task)
    parts = [f"{share} of {', '.join(tasks)}" for share, tasks in groups.items() if tasks]
    return f"{arm.arm} solved {'; '.join(parts)}."


def _build_errored_table(found: Analysis) -> Sheet:
    rows: list[Sequence[Any]] = []
    for failure in found.errored:
        arm = sheets.format_text(failure.arm, "bad")
        rows.append((arm, failure.unit, failure.seed, failure.error))

    notes = []
    if any(failure.is_skipped for failure in found.errored):
        notes.append(
            f"{REFUSED} marks units that were skipped: the environment refuses their variants, as it would again."
        )
    return _build_table("errored", ("arm", "unit", "seed", "error"), rows, notes)


def describe_facts(found: Analysis) -> dict[str, str]:
    """Return what the results depend on, by name."""
    facts = {**found.facts, "seed": sorted(found.facts.get("seed", ()), key=len)}  # which are sorted as texts
    return {name: ", ".join(values) for name, values in facts.items() if values}


def describe_run(found: Analysis) -> list[str]:
    facts = describe_facts(found)
    protocol = facts.get("protocol", sheets.NOTHING)
    actor = facts.get("actor", sheets.NOTHING)
    scores, *logged = _get_notes(scores=True, logged=found.success_only)

    sentences = [f"Protocol {protocol}. Actor {actor}. {scores}", *logged, *found.remarks]
    if found.rule_based_note:
        sentences.append(found.rule_based_note)
    return sentences


def render_analysis(found: Analysis, whole: bool = True, with_paper: bool = False) -> Iterator[Sheet | Text]:
    """Yield what `print_parts` prints of a run; unless `whole`, the main tables alone."""
    if not found.arms:
        yield Text("No unit is finished yet.")
    tables = [sheet for sheet in build_tables(found, with_paper) if whole or sheet.name in MAIN]
    notes = describe_unreported_costs(found.bill)
    for place, sheet in enumerate(tables):
        if place:
            yield Text()
        yield to_plain_text(sheet.title, "bold")
        yield sheet
        if whole:
            for note in sheet.notes:
                yield to_plain_text(note, "dim")

    if found.arms:
        notes += describe_run(found)
    if whole:
        notes.append(_describe_other_facts(found))
    else:
        notes += chain.from_iterable(sheet.notes for sheet in tables if sheet.name in NOTED)
        if found.comparisons:
            notes.append("`rsso-dspy report` shows the strata, task types and figures.")
    yield Text()
    for note in notes:
        yield to_plain_text(note, "dim")


def _describe_other_facts(found: Analysis) -> str:
    """Describe the facts that `describe_run` leaves out."""
    facts = describe_facts(found)
    texts = [f"{name} {value}" for name, value in facts.items() if name not in ("protocol", "actor")]
    return "; ".join(texts) + "."


# The result in a few sentences.

MOST = 3  # maximum number of comparisons that are told
OWN_MODEL = "Your own model plays with --model PROVIDER/NAME; --dry-run says first what it may cost."


def write_headline(found: Analysis) -> str:
    if all(arm.mean is None for arm in found.arms):
        return "No unit has a score yet."
    sentences = [_describe_best(found), *_describe_comparisons(found)]
    if found.room and found.room.objection:
        sentences.append(describe_objection(found.room))
    if found.question.ceiling and found.room is None:
        sentences.append(f"The room below {found.question.ceiling} is not measured: no unit is finished by all arms.")

    mostly_repeated = {arm: (equal, units) for arm, (equal, units) in found.repeated.items() if 2 * equal > units}
    sentences += describe_repeated_units(mostly_repeated)
    sentences += found.describe_gaps()
    sentences += _describe_unscored(found)
    sentences += _describe_spending(found)
    if found.rule_based:
        sentences.append(OWN_MODEL)
    return " ".join(sentences)


def _describe_best(found: Analysis) -> str:
    means = [(f"{arm.mean:.2f}", arm) for arm in found.arms if arm.mean is not None]
    top = max((mean for mean, _ in means), key=float)
    best = [arm for mean, arm in means if mean == top]
    names = " and ".join(arm.arm for arm in best)
    solved = f"{best[0].solve} of {best[0].units}"

    if len(means) == 1:
        return f"{names} scored {top} of 100 points on average and solved {solved} units; no other arm has a score."
    if len(best) == len(means):
        all_arms = "Both" if len(best) == 2 else f"All {len(best)}"
        return f"{all_arms} arms scored {top} of 100 points on average."

    sentence = f"Highest mean: {names} with {top} of 100 points"
    if len(best) == 1:
        sentence += f", {solved} units solved"
    if not found.alike:
        sentence += " (the arms finished different units)"
    return f"{sentence}."


def _describe_comparisons(found: Analysis) -> list[str]:
    pairs = [pair for pair in found.comparisons if pair.difference is not None]
    if not pairs:
        if found.announced is not None:
            return ["No round is complete yet, so nothing is compared."]
        if len(found.arms) > 1:
            return ["No two arms share a finished unit, so nothing is compared."]
        return []

    pairs.sort(key=lambda pair: (not pair.has_winner, pair is not found.main_result))
    shortlist = pairs[:MOST]
    sentences = [_describe_winner(pair) for pair in shortlist if pair.has_winner]
    open_pairs = [pair for pair in shortlist if not pair.has_winner]
    by_verdict = group_values((_name_verdict(pair), _describe_pair(pair)) for pair in open_pairs)
    sentences += [f"{verdict}: {', '.join(texts)}." for verdict, texts in by_verdict.items()]

    remaining = len(pairs) - len(shortlist)
    if remaining:
        sentences.append(f"{remaining} more comparison{'s are' if remaining > 1 else ' is'} in the tables.")
    return sentences


def _describe_winner(pair: Comparison) -> str:
    assert pair.difference is not None
    better, worse = pair.first, pair.second
    if pair.difference > 0:
        better, worse = pair.second, pair.first
    details = "; ".join(_list_details(pair, best_first=True))
    return f"{better} beats {worse} {_name_question(pair)} by {abs(pair.difference):.2f} points ({details})."


def _name_verdict(pair: Comparison) -> str:
    words = str(pair.verdict).capitalize()
    if pair.interval is None:
        return words
    return f"{words} {_name_question(pair)}"


def _name_question(pair: Comparison) -> str:
    """Name what the interval is about."""
    if pair.interval is None or pair.interval.over == "task types":
        return "on other task types"
    if len(pair.by_task) == 1:
        return "on other variants of this task type"
    return "on other variants of these task types"


def _describe_pair(pair: Comparison) -> str:
    if pair.verdict.word == "not tested":
        return f"{pair.name} ({describe_doses(pair.doses)})"
    details = "; ".join(_list_details(pair))
    return f"{pair.name} {format_difference(pair.difference).text} points ({details})"


def _list_details(pair: Comparison, best_first: bool = False) -> Iterator[str]:
    """Yield the number of pairs with the interval, of ``second - first`` or of the better arm minus the worse one; the
    corrected p of a winner; the dose; and why nothing can be said whatever the numbers are."""
    units = f"{pair.pairs} unit{'s' if pair.pairs != 1 else ''}"
    if pair.interval is None:
        yield units
    else:
        low, high = pair.interval.low, pair.interval.high
        if best_first and high < 0:
            low, high = -high, -low
        always = "always valid " if pair.interval.is_always_valid else ""
        yield f"{units}, {always}95% interval {low:+.1f} to {high:+.1f}"
    if pair.has_winner and pair.course is None:
        yield f"Holm's p {sheets.format_p_value(pair.holm).text}"
    if pair.doses:
        yield describe_doses(pair.doses)
    if pair.verdict.is_hindered or pair.course is not None:
        yield from pair.verdict.reasons


def describe_course(judged: RoundsSoFar) -> Iterator[str]:
    """Yield what each announced pair of a run came to so far."""
    for pair in judged.comparisons:
        points = f"{format_difference(pair.difference).text} points"
        if pair.interval:
            points += f", always valid {pair.interval.low:+g} to {pair.interval.high:+g}"
        yield f"{pair.name} {points}: {pair.verdict}"


def _describe_spending(found: Analysis) -> list[str]:
    """Describe the calls, tokens and dollars that this run took, interrupted trials included."""
    usage = found.bill.answered
    if not usage.calls:
        return []
    calls = f"{usage.calls:,} model call{'s' if usage.calls > 1 else ''}"
    tokens = f"{format_tokens(usage.input + usage.output)} tokens"
    if found.facts.get("answers"):
        tokens += ", shared answers counted for each arm"
    return [f"It took {calls} and {tokens}, {_describe_price(found)}."]


def _describe_price(found: Analysis) -> str:
    if found.bill.free:
        return "at no cost"
    if found.bill.spent is None:
        return "price unknown"
    return format_dollars(found.bill.spent)


def _describe_unscored(found: Analysis) -> Iterator[str]:
    errored = [failure for failure in found.errored if not failure.is_skipped]
    if len(errored) == 1:
        yield "1 unit ended in an error and counts nowhere."
    elif errored:
        yield f"{len(errored)} units ended in an error and count nowhere."

    skipped = [f"{failure.unit} of {failure.arm}" for failure in found.errored if failure.is_skipped]
    if skipped:
        yield f"Skipped, as the environment refuses them: {', '.join(skipped)}."
