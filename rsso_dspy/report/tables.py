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
from rsso_dspy.report.analysis import Analysis, describe_unreported_costs, total_billed, total_usage
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

COUNTS = {"calls": "calls", "input": "in", "cached": "cached", "cache_write": "written", "output": "out"} | {
    name: name for name in ("reasoning", "malformed", "repaired", "truncated", "failed", "unmetered")
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
    return {
        Path(f"{sheet.name}.{ending}"): form(sheet)
        for sheet in build_tables(found, with_paper)
        for ending, form in sheets.FORMS.items()
    }


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
    scores: list[Sequence[Any]] = []
    for row in found.arms:
        means = (row.mean, row.mean_with_reset, row.environment_score, row.macro_mean)
        scores.append((*means, (row.solve, row.units), (row.acc100, row.units)))
    if comparable := found.alike and len(set(found.plays.values())) == 1 < len(scores):
        scores = sheets.mark_best(scores)
    rows: list[Sequence[Any]] = [
        (row.arm, row.scaffold, _format_units(row.units, row.errored), *cells)
        for row, cells in zip(found.arms, scores, strict=True)
    ]
    for arm, row in found.first_trials.items() if with_paper else ():
        means = (row.mean, row.mean_with_reset, row.environment_score, row.macro_mean)
        shares = ((row.solve, row.units), (row.acc100, row.units))
        rows.append((sheets.format_text(f"trial 1 of {arm}", "dim"), row.scaffold, row.units, *means, *shares))
    published = load_published_tables()
    for paper_row in published["table1"] if with_paper else ():
        macro = fmean(task[paper_row["method"]] for task in published["table2"])
        name = _name_published(paper_row["method"])
        means = (paper_row["mean"], None, None, macro)
        shares = (tuple(paper_row["solve"]), tuple(paper_row["acc100"]))
        rows.append((name, paper_row["scaffold"], paper_row["solve"][1], *means, *shares))
    columns = ("arm", "scaffold", "units", "Mean", "+reset", "env", "macro", "Solve", "Acc100")
    first_trials = with_paper and bool(found.first_trials)
    notes = [*_describe_methods(found), *_get_notes(best=comparable, paper=with_paper, first_trials=first_trials)]
    return _build_table("methods", columns, rows, notes)


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
    return Cell(f"{units:,} ({errored} err)", units) if errored else format_number(units, ",")


def _describe_stalled_trials(counted: Sequence[tuple[str, int, int]]) -> Iterator[str]:
    if units := [f"{arm} {stalled} of {trials} trials" for arm, stalled, trials in counted if stalled]:
        yield (
            f"Stalled: {', '.join(units)}. A step of these trials took longer than environment.step_seconds. Means "
            "include them with the points they had, and memories learned from them."
        )


def _build_learning_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build rSSO's Figure 2 as a table, with the gain of trial 2, and when variants were solved."""
    longest = max(found.plays.values(), default=0)
    rows: list[Sequence[Any]] = []
    for row in found.arms:
        best = [estimate.mean for estimate in found.estimates[row.arm].best_of_t] if row.units else []
        means = (row.trial_1, row.mean_over_trials, *_pad(best, longest))
        gain = _build_gain_cells(row.gain) if longest > 1 else ()
        levels = (Cell("never" if t is None else f"{t}", t) for t in row.learning.trials_to.values())
        rows.append((row.arm, row.trials_played, *means, *gain, *levels))
    published = load_published_tables()
    for method in published["cumulative_best_of_t"] if with_paper and longest > 1 else ():
        curve = build_curve_cells(method)
        gain = published["trial_1_to_2_gain"].get(method)
        cells = [curve[0], None, *_pad(curve, longest)[:longest]]
        cells += _build_gain_cells(None if gain is None else MeanEstimate(gain, None))
        rows.append((_name_published(method), None, *cells, *[""] * len(LEVELS)))
    uneven = len({row.trials_played / row.units for row in found.arms if row.units}) > 1
    notes = [" ".join(_get_notes(mean_per_trial=True, uneven_trials=uneven)), *_get_notes(uneven=not found.alike)]
    gained = ("gain of trial 2", *INTERVAL) if longest > 1 else ()
    best_of = (f"best_of_{number}" for number in range(1, longest + 1))
    columns = ("arm", "trials", "trial-1", "mean/trial", *best_of, *gained, *(f"to {level}%" for level in LEVELS))
    notes += _get_notes(gain=gained, paper=with_paper and gained)
    notes += [describe_derived_points()] if with_paper and gained else []
    return _build_table("learning", columns, rows, notes)


def _build_gain_cells(gain: MeanEstimate | None) -> tuple[Cell, ...]:
    mean, interval = (gain.mean, gain.interval) if gain else (None, None)
    return (format_difference(mean), *sheets.format_interval(interval)[:2])


def _pad(values: Sequence[Any], length: int) -> list[Any]:
    return [*values, *[None] * (length - len(values))]


def _build_success_table(found: Analysis) -> Sheet:
    rows = [
        (
            *(arm.arm, success.trial, success.solved, success.additional, arm.units - success.solved),
            format_number(success.accuracy, ".1%"),
        )
        for arm in found.arms
        if len(arm.learning.success) > 1
        for success in arm.learning.success
    ]
    return _build_table("success", ("arm", "trial", "solved", "additional", "fail", "accuracy"), rows)


def _build_repeats_table(found: Analysis) -> Sheet:
    """Build the table of pass^k, for which an arm has a row a kind of repeats and k."""
    rows: list[Sequence[Any]] = []
    for arm in found.arms:
        for success in arm.repeat_success:
            interval = success.estimate.interval
            low, high = (interval.low, interval.high) if interval else (None, None)
            shares = (format_number(value, ".1f") for value in (success.estimate.mean, low, high))
            rows.append((arm.arm, success.repeats, success.k, success.variants, *shares))
    arms_by_reason = group_values((why, arm) for arm, why in found.dependence.items())
    notes = [f"No pass^k of trials: {sheets.join_words(arms)}: {why}." for why, arms in arms_by_reason.items()]
    return _build_table("repeats", ("arm", "repeats", "k", "variants", "pass^k, %", *INTERVAL), rows, notes)


def _build_reflections_table(found: Analysis) -> Sheet:
    several = [arm for arm in found.arms if len(arm.learning.held) > 1]
    counts = sorted({count for arm in several for count in arm.learning.held})
    rows: list[Sequence[Any]] = []
    for arm in several:
        repeats = arm.learning.repeats
        repeated = (repeats.repeated, repeats.reflections) if repeats.reflections else ""
        solved = (arm.learning.held.get(count, "") for count in counts)
        rows.append((arm.arm, arm.learning.written, repeated, *solved))
    return _build_table("reflections", ("arm", "written/unit", "repeated", *map(str, counts)), rows)


def _build_failures_table(found: Analysis) -> Sheet:
    failed = {arm.arm: arm.learning.failures.values() for arm in found.arms}
    rows = [(arm, sum(counts), *counts) for arm, counts in failed.items() if any(counts)]
    return _build_table("failures", ("arm", "trials", *FAILURES), rows)


def _build_differences_table(found: Analysis, with_paper: bool = False) -> Sheet:
    columns = ["pairs", "points", *INTERVAL, "min. detectable difference", "units +/-", "p", "Holm"]
    columns += ["Wilcoxon"] if with_paper else []
    rows: list[Sequence[Any]] = []
    for pair in found.comparisons:
        signs = f"+{pair.higher} -{pair.lower}"
        cells: list[Any] = [
            pair.name,
            Cell(f"{pair.pairs} (-{pair.excluded})", pair.pairs) if pair.excluded else pair.pairs,
            format_difference(pair.difference),
            *sheets.format_interval(pair.interval),
            Cell(signs, pair.higher - pair.lower, counts=signs),
            sheets.format_p_value(pair.flips.p),
            sheets.format_p_value(pair.holm),
        ]
        cells += [sheets.format_p_value(pair.wilcoxon.p)] if with_paper else []
        doses = ", ".join(f"{dose.memory} {dose.trials}/{dose.possible_trials}" for dose in pair.doses)
        rows.append((*cells, str(pair.verdict), doses, sheets.format_text(pair.asks)))
    for name, square in found.squares.items():
        rows += _build_square_rows(square, name, found.comparisons, with_paper)
    columns = ["second - first", *columns, "verdict", "shown", "asks"]
    return _build_table("differences", columns, rows, _describe_differences(found))


def _build_square_rows(
    square: Factorial2x2, program: str, comparisons: Sequence[Comparison], with_paper: bool
) -> Iterator[Sequence[Any]]:
    """Yield the interaction of a 2x2, and what both memories gain over each where that is no row of its own."""
    compared = {pair.family_test for pair in comparisons}
    questions = (square.reading, "both over reflections", "both over skills")
    for (test, effect), name, asks in zip(square.effects.items(), square.effect_names, questions, strict=True):
        if test in compared:
            continue
        tests = [sheets.format_p_value(effect.flips.p), sheets.format_p_value(effect.holm)]
        tests += [Cell("")] if with_paper else []
        interval = sheets.format_interval(effect.interval)
        question = f"skills x reflections{_name_program(program)}: {asks}"
        yield (name, square.pairs, format_difference(effect.difference), *interval, "", *tests, "", "", question)


def _name_program(program: str) -> str:
    return "" if program == ZERO_SHOT else f" of {program}"


def _describe_differences(found: Analysis) -> Iterator[str]:
    pairs = found.comparisons
    intervals = [pair.interval for pair in pairs if pair.interval]
    clusters = found.question.over
    yield from _get_notes(over_types=clusters == "task types", over_variants=clusters == "variants")
    yield _describe_tests(found) if found.announced is None else _describe_sequential_tests(found.announced)
    for program, square in found.squares.items():
        (reading,) = _get_notes(**{square.reading.replace(" ", "_"): True})
        yield f"Skills x reflections{_name_program(program)}, over units that all four arms finished: {reading}."
    for pair in pairs:
        if not pair.verdict.has_winner and pair.pairs:
            yield f"{pair.name}: {pair.verdict}; {'; '.join([*pair.verdict.reasons, *_describe_room(pair)])}."
    if any(interval.clusters < FEW for interval in intervals):
        yield f"Intervals over fewer than {FEW} task types, or variants, are rough."
    yield from _get_notes(
        excluded=any(pair.excluded for pair in pairs),
        one_task=any(interval.over != clusters for interval in intervals),
    )
    for pair in pairs:
        if pair.unlike:
            yield f"{pair.name}: the arms differ in more than the method: {pair.unlike}."
        if pair.pairs and pair.trials < max(pair.may_play):
            yield f"{pair.name}: scores are {_describe_scores(pair.trials)}, as many trials as both may play."


def _describe_scores(trials: int) -> str:
    return "those of the first trial" if trials == 1 else f"the best of the first {trials} trials"


def _describe_tests(found: Analysis) -> str:
    tests = found.tests
    clusters = found.question.over
    corrected = f"p corrected for the report's {tests} test{'s' if tests != 1 else ''}"
    needed = f"; with so many, at least {count_needed_differences(tests)} {clusters} must differ" if tests else ""
    return (
        f"p: exact sign flips over sums of {clusters}, two-sided. Holm: {corrected}{needed}. A winner needs Holm's p "
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
    if pair.verdict.word == "undecided" and pair.interval and pair.room is not None:
        difference = pair.interval.detectable_difference
        finding = f"finds {difference:.1f}" if difference <= MOST_POINTS else "may miss every difference"
        yield f"{pair.room:.1f} points are left above {pair.first}, and a run of this size {finding}"


def _build_shown_table(found: Analysis) -> Sheet:
    rows: list[Sequence[Any]] = []
    rare = []
    for arm in found.arms:
        for memory in arm.shown:
            trials, later_trials = (memory.trials, arm.trials_played), (memory.later_trials, arm.later_trials)
            rows.append((arm.arm, memory.memory, trials, later_trials, (memory.steps, arm.steps)))
            if memory.later_trials < RARE * arm.later_trials:
                rare.append(f"{memory.memory} of {arm.arm}")
    notes = [f"Hardly shown, so that this run says next to nothing of them: {', '.join(rare)}."] if rare else []
    return _build_table("shown", ("arm", "memory", "trials", "later trials", "steps"), rows, notes)


def _build_strata_table(found: Analysis) -> Sheet:
    rows = []
    for pair in found.comparisons:
        for gain in pair.gains:
            low, high, _ = sheets.format_interval(gain.interval) if gain.interval else ("", "", "")
            rows.append((pair.name, gain.stratum, gain.units, format_difference(gain.difference), low, high))
    return _build_table("strata", ("second - first", "stratum", "units", "points", *INTERVAL), rows)


def _build_room_table(found: Analysis) -> Sheet:
    """Build the table of what part of the room below a ceiling each arm fills."""
    room = found.room
    if room is None:
        return _build_table("room", (), [])
    rows = []
    for share in room.shares:
        low, high = ("", "") if share.interval is None else (_format_share(end) for end in share.interval)
        rows.append((share.arm, room.units, format_difference(share.gain), _format_share(share.share), low, high))
    rows.append((room.ceiling, room.units, format_difference(room.highest - room.lowest), _format_share(1.0), "", ""))
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
        assert pair.noise is not None
        notes.append(_describe_noise(pair))
        calls, dollars = _measure_unit_costs(found, pair)
        tests = found.tests if found.announced is None else len(found.announced.pairs)
        needed = count_needed_differences(tests)
        for points in TO_FIND:
            for design in list_larger_designs(pair.noise.design, pair.noise.spread, points, needed):
                counts = (design.task_types, design.variants, design.seeds, design.units)
                cells = [format_number(None if calls is None else round(calls * design.units), ",")]
                if not found.bill.free:
                    cells.append(sheets.format_dollar_amount(None if dollars is None else dollars * design.units))
                rows.append((pair.name, format_number(points, "g"), f"more {design.more}", *counts, *cells))
    columns = ("second - first", "to find", "by", "task types", "variants", "seeds", "units/arm", "calls")
    return _build_table("next", (*columns, *(() if found.bill.free else ("USD",))), rows, notes)


def _list_open_pairs(found: Analysis) -> list[Comparison]:
    """Return the first comparisons that found no winner, and whose noise is known."""
    pairs = [pair for pair in found.comparisons if not pair.has_winner and pair.verdict.word != "not tested"]
    return [pair for pair in pairs if pair.noise and pair.noise.spread.units][:MOST]


def _describe_noise(pair: Comparison) -> str:
    noise = pair.noise
    assert noise is not None
    parts = f"{pair.name}: differences vary by {noise.spread.units:.0f} points within task types"
    parts += f", and those of task types by {noise.spread.types:.0f} more" if noise.spread.types else ""
    trial_spread = noise.spread.trial
    trial = "" if trial_spread is None else f"; two equal arms differ by {trial_spread:.0f} in a trial of one unit"
    return f"{parts} (standard deviations){trial}."


def _measure_unit_costs(found: Analysis, pair: Comparison) -> tuple[float | None, float | None]:
    """Return the model calls and the dollars that a unit of both arms took."""
    calls = []
    dollars = []
    for arm in found.arms:
        if arm.arm in (pair.first, pair.second):
            calls.append(arm.calls_per_unit)
            billed = total_billed(found.spent[arm.arm])
            dollars.append(None if billed is None or not arm.units else billed / arm.units)
    return sum_amounts(calls), sum_amounts(dollars)


def _build_tasks_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 2 of rSSO from this run, beside the published one where they share a task type."""
    pairs = found.compared_by_task
    published = load_published_tables()
    paper = {row["task"]: row for row in published["table2"]}
    with_paper = with_paper and any(task.name in paper for task in found.tasks)
    rows = [
        (
            *(sheets.format_text(task.name, task=task.name), task.units),
            *(format_number(task.means.get(arm.arm), ".1f") for arm in found.arms),
            *(format_difference(pair.by_task.get(task.name), 1) for pair in pairs),
            *(arm.learning.by_task.get(task.name, "") for arm in found.arms),
            *(build_mean_cells(paper.get(task.name, {}), 1, "dim") if with_paper else ()),
        )
        for task in found.tasks
    ]
    if rows:
        means = [*(arm.mean for arm in found.arms), *(format_difference(pair.difference) for pair in pairs)]
        solved = [(arm.solve, arm.units) for arm in found.arms]
        overall = build_mean_cells(published["table2_overall"], 2, "dim") if with_paper else ()
        cells = [*means, *solved, *overall]
        rows.append((sheets.format_text("Overall", "total"), sum(task.units for task in found.tasks), *cells))
    notes = _get_notes(uneven=not found.alike, paper=with_paper)
    notes += [_describe_solved_types(arm) for arm in found.arms if arm.arm in found.advice and arm.units]
    notes += [f"{pair.name}: paired by unit; scores are {_describe_scores(pair.trials)}." for pair in pairs]
    arms = [arm.arm for arm in found.arms]
    columns = ["task", "n", *arms, *(pair.name for pair in pairs), *(f"{arm} solved" for arm in arms)]
    return _build_table("tasks", [*columns, *(f"published {name}" for name in MEANS if with_paper)], rows, notes)


def _build_trainings_table(found: Analysis) -> Sheet:
    rounds = max((len(row.rounds) for row in found.trainings), default=0)
    trained = ((row, _format_units(row.tasks, row.errored)) for row in found.trainings)
    rows = [(row.arm, tasks, row.episodes, *_pad(row.rounds, rounds)) for row, tasks in trained]
    columns = ("arm", "tasks", "episodes", *(f"round {number}" for number in range(1, rounds + 1)))
    notes = _describe_stalled_trials([(row.arm, row.stalled, row.episodes) for row in found.trainings])
    return _build_table("trainings", columns, rows, notes)


def build_measures_table(found: Analysis) -> Sheet:
    """Build the table of what AgentBoard and OmniReflect measure; columns about rules appear where there are any."""
    ruled = any(row.rules is not None for row in found.arms)
    rows = []
    for row in found.arms:
        cells: list[Any] = [row.arm, row.units, (row.solve, row.units)]
        cells += [format_number(row.progress, ".1%"), format_number(row.grounding, ".1%")]
        cells += [format_number(row.turns, ".1f"), format_number(row.calls_per_unit, ".1f"), row.most_calls]
        if row.solve:
            usage = total_usage(found.spent[row.arm])
            billed = total_billed(found.spent[row.arm])
            cells += [round(amount / row.solve) for amount in (row.steps, usage.input + usage.output)]
            cells.append(sheets.format_dollar_amount(None if billed is None else billed / row.solve))
        else:
            cells += [None, None, None]
        if ruled:
            lists = row.writings.calls
            bad = (row.writings.malformed, row.writings.repaired)
            cells += [format_number(row.rules[name] if row.rules else None, ".1f") for name in CATEGORIES]
            cells += [lists, *(format_number(count / lists if lists else None, ".1%") for count in bad)]
        if found.advice:
            advice = found.advice.get(row.arm)
            cells += [advice.advisor, format_number(advice.factor, "g"), advice.learnt_on] if advice else ["", "", ""]
        rows.append(cells)
    columns = ["arm", "units", "Success", "progress", "grounding", "turns/task", "calls/task", "most calls"]
    columns += ["steps/solved", "tokens/solved", "USD/solved"]
    columns += (*CATEGORIES, "rule lists", "malformed", "repaired") if ruled else ()
    columns += ("advisor", "calibration factor", "calibration set") if found.advice else ()
    return _build_table("measures", columns, rows, _get_notes(rules=ruled, advice=found.advice))


def build_tokens_table(found: Analysis) -> Sheet:
    arms = {row.arm: row for row in found.arms}
    paid = not found.bill.free
    several = len({(name, entry.role) for name, entry in found.costs}) < len(found.costs)
    everything = total_usage(entry for _, entry in found.costs)
    counted = {name: column for name, column in COUNTS.items() if name in ALWAYS or getattr(everything, name)}
    rows: list[Sequence[Any]] = []
    for name, entry in found.costs:
        counts = (getattr(entry.usage, count) for count in counted)
        rates: list[Any] = [""] * len(SHARES)
        if name in arms and entry.role == "actor" and arms[name].steps:
            rates = [format_number(getattr(arms[name], share), ".1%") for share in SHARES.values()]
        dollars = map(sheets.format_dollar_amount, (entry.billed, entry.without_cache) if paid else ())
        rows.append((name, entry.role, *([entry.model] if several else []), *counts, *rates, *dollars))
    columns = ["arm", "role", *(["model"] if several else []), *counted.values(), *SHARES]
    if paid:
        totals = map(sheets.format_dollar_amount, (found.bill.billed, found.bill.without_cache))
        rows.append((sheets.format_text("all", "total"), *[""] * (len(columns) - 1), *totals))
        columns += ["billed", "uncached"]
    return _build_table("tokens", columns, rows, _get_notes(billed=paid))


def _describe_solved_types(arm: ArmMetrics) -> str:
    """Say of which task types an arm solved all, some or none of its units: which rules were followed, where each is a
    task type."""
    groups: dict[str, list[str]] = {"all": [], "some": [], "none": []}
    for task, (solved, units) in sorted(arm.learning.by_task.items()):
        share = "all" if solved == units else "some" if solved else "none"
        groups[share].append(f"{task} ({solved} of {units})" if share == "some" else task)
    parts = [f"{share} of {', '.join(tasks)}" for share, tasks in groups.items() if tasks]
    return f"{arm.arm} solved {'; '.join(parts)}."


def _build_errored_table(found: Analysis) -> Sheet:
    rows = [
        (sheets.format_text(failure.arm, "bad"), failure.unit, failure.seed, failure.error) for failure in found.errored
    ]
    refused = f"{REFUSED} marks units that were skipped: the environment refuses their variants, as it would again."
    skipped = any(failure.is_skipped for failure in found.errored)
    return _build_table("errored", ("arm", "unit", "seed", "error"), rows, [refused] if skipped else ())


def describe_facts(found: Analysis) -> dict[str, str]:
    """Return what the results depend on, by name."""
    facts = {**found.facts, "seed": sorted(found.facts.get("seed", ()), key=len)}  # which are sorted as texts
    return {name: ", ".join(values) for name, values in facts.items() if values}


def describe_run(found: Analysis) -> list[str]:
    facts = describe_facts(found)
    summary = f"Protocol {facts.get('protocol', sheets.NOTHING)}. Actor {facts.get('actor', sheets.NOTHING)}. "
    scores, *logged = _get_notes(scores=True, logged=found.success_only)
    return [summary + scores, *logged, *found.remarks, *filter(None, [found.rule_based_note])]


def render_analysis(found: Analysis, whole: bool = True, with_paper: bool = False) -> Iterator[Sheet | Text]:
    """Yield what `print_parts` prints of a run; unless `whole`, the main tables alone."""
    if not found.arms:
        yield Text("No unit is finished yet.")
    tables = [sheet for sheet in build_tables(found, with_paper) if whole or sheet.name in MAIN]
    notes = describe_unreported_costs(found.bill)
    for place, sheet in enumerate(tables):
        yield from [Text()] * bool(place)
        yield to_plain_text(sheet.title, "bold")
        yield sheet
        yield from (to_plain_text(note, "dim") for note in (sheet.notes if whole else ()))
    notes += describe_run(found) if found.arms else []
    if whole:
        facts = (
            f"{name} {value}" for name, value in describe_facts(found).items() if name not in ("protocol", "actor")
        )
        notes.append("; ".join(facts) + ".")
    else:
        notes += chain.from_iterable(sheet.notes for sheet in tables if sheet.name in NOTED)
        notes += ["`rsso-dspy report` shows the strata, task types and figures."] if found.comparisons else []
    yield Text()
    yield from (to_plain_text(note, "dim") for note in notes)


# The result in a few sentences.

MOST = 3  # maximum number of comparisons that are told
OWN_MODEL = "Your own model plays with --model PROVIDER/NAME; --dry-run says first what it may cost."


def write_headline(found: Analysis) -> str:
    if all(arm.mean is None for arm in found.arms):
        return "No unit has a score yet."
    sentences = [_describe_best(found), *_describe_comparisons(found)]
    sentences += [describe_objection(found.room)] if found.room and found.room.objection else []
    repeated = {arm: (equal, units) for arm, (equal, units) in found.repeated.items() if 2 * equal > units}
    sentences += [*describe_repeated_units(repeated), *found.describe_gaps(), *_describe_unscored(found)]
    sentences += _describe_spending(found)
    return " ".join([*sentences, *([OWN_MODEL] if found.rule_based else [])])


def _describe_best(found: Analysis) -> str:
    means = [(f"{arm.mean:.2f}", arm) for arm in found.arms if arm.mean is not None]
    top = max((mean for mean, _ in means), key=float)
    best = [arm for mean, arm in means if mean == top]
    names = " and ".join(arm.arm for arm in best)
    of = f"{best[0].solve} of {best[0].units}"
    if len(means) == 1:
        return f"{names} scored {top} of 100 points on average and solved {of} units; no other arm has a score."
    if len(best) == len(means):
        return f"{'Both' if len(best) == 2 else f'All {len(best)}'} arms scored {top} of 100 points on average."
    solved = f", {of} units solved" if len(best) == 1 else ""
    unlike = "" if found.alike else " (the arms finished different units)"
    return f"Highest mean: {names} with {top} of 100 points{solved}{unlike}."


def _describe_comparisons(found: Analysis) -> list[str]:
    pairs = [pair for pair in found.comparisons if pair.difference is not None]
    if not pairs and found.announced is not None:
        return ["No round is complete yet, so nothing is compared."]
    if not pairs:
        return ["No two arms share a finished unit, so nothing is compared."] if len(found.arms) > 1 else []
    pairs.sort(key=lambda pair: (not pair.has_winner, pair is not found.main_result))
    shortlist = pairs[:MOST]
    sentences = [_describe_winner(pair) for pair in shortlist if pair.has_winner]
    open_ = group_values((_name_verdict(pair), _describe_pair(pair)) for pair in shortlist if not pair.has_winner)
    sentences += [f"{words}: {', '.join(alike)}." for words, alike in open_.items()]
    if remaining := len(pairs) - len(shortlist):
        sentences.append(f"{remaining} more comparison{'s are' if remaining > 1 else ' is'} in the tables.")
    return sentences


def _describe_winner(pair: Comparison) -> str:
    assert pair.difference is not None
    better, worse = (pair.second, pair.first) if pair.difference > 0 else (pair.first, pair.second)
    details = "; ".join(_list_details(pair, best_first=True))
    return f"{better} beats {worse} {_name_question(pair)} by {abs(pair.difference):.2f} points ({details})."


def _name_verdict(pair: Comparison) -> str:
    words = str(pair.verdict).capitalize()
    return words if pair.interval is None else f"{words} {_name_question(pair)}"


def _name_question(pair: Comparison) -> str:
    """Name what the interval is about."""
    if pair.interval is None or pair.interval.over == "task types":
        return "on other task types"
    return f"on other variants of {'this task type' if len(pair.by_task) == 1 else 'these task types'}"


def _describe_pair(pair: Comparison) -> str:
    if pair.verdict.word == "not tested":
        return f"{pair.name} ({describe_doses(pair.doses)})"
    return f"{pair.name} {format_difference(pair.difference).text} points ({'; '.join(_list_details(pair))})"


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
        interval = f", always valid {pair.interval.low:+g} to {pair.interval.high:+g}" if pair.interval else ""
        yield f"{pair.name} {format_difference(pair.difference).text} points{interval}: {pair.verdict}"


def _describe_spending(found: Analysis) -> list[str]:
    """Describe the calls, tokens and dollars that this run took, interrupted trials included."""
    usage = found.bill.answered
    billed = found.bill.spent
    price = "at no cost" if found.bill.free else "price unknown" if billed is None else format_dollars(billed)
    calls = f"{usage.calls:,} model call{'s' if usage.calls > 1 else ''}"
    shared = ", shared answers counted for each arm" if found.facts.get("answers") else ""
    tokens = format_tokens(usage.input + usage.output)
    return [f"It took {calls} and {tokens} tokens{shared}, {price}."] if usage.calls else []


def _describe_unscored(found: Analysis) -> Iterator[str]:
    if count := sum(not failure.is_skipped for failure in found.errored):
        units, count_them = ("unit", "counts") if count == 1 else ("units", "count")
        yield f"{count} {units} ended in an error and {count_them} nowhere."
    if skipped := [f"{failure.unit} of {failure.arm}" for failure in found.errored if failure.is_skipped]:
        yield f"Skipped, as the environment refuses them: {', '.join(skipped)}."
