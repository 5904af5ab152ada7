"""The tables of a run, built from its `Analysis`. Nothing is computed here except ratios of its numbers.

for sheet in build_tables(analyze_run(RunRecords(records))):
    print(to_markdown(sheet))
"""

from collections.abc import Iterator, Mapping, Sequence

from rsso_dspy.pricing import format_dollars
from rsso_dspy.report import cells
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.answer_checks import describe_repeated_units
from rsso_dspy.report.cells import NOTHING, Cell
from rsso_dspy.report.comparison_tables import (
    build_differences_table,
    build_factorial_table,
    build_strata_table,
    build_tests_table,
)
from rsso_dspy.report.cost_report import build_cost_table
from rsso_dspy.report.metrics import UNEVEN, ArmMetrics
from rsso_dspy.report.paper import METHODS, list_table2_rows, load_published_tables
from rsso_dspy.report.success_tables import build_failures_table, build_success_by_task_table, build_success_table
from rsso_dspy.report.table_data import Sheet
from rsso_dspy.report.task_measures import build_measures_table

TROUBLES = ("malformed", "repaired", "truncated", "failed", "unmetered")
"""Counts of problems with answers; all but the first are shown only if they occurred."""


def build_tables(found: Analysis, with_paper: bool = False) -> list[Sheet]:
    """Build all tables that have rows, in reading order."""
    return [sheet for sheet in _build_all_tables(found, with_paper) if sheet.rows]


def _build_all_tables(found: Analysis, with_paper: bool) -> Iterator[Sheet]:
    yield build_methods_table(found, with_paper)
    yield build_learning_table(found)
    yield build_solved_table(found)
    yield build_success_table(found.success)
    yield build_reflections_table(found)
    yield build_failures_table(found.success)
    yield build_differences_table(found)
    yield build_tests_table(found.findings)
    yield build_strata_table(found.findings)
    for number, (program, square) in enumerate(found.squares.items(), start=1):
        yield build_factorial_table(square, program, number)
    yield build_tasks_table(found, with_paper)
    yield build_success_by_task_table(found.success)
    yield build_trainings_table(found)
    yield build_measures_table(found.measures)
    yield build_tokens_table(found)
    yield build_cost_table(found.bill)


def build_methods_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 1 of rSSO from this run, with the published rows if `with_paper`."""
    rows = [_build_method_row(row) for row in found.arms]
    notes = ["Mean, +reset and env are micro means, over variants; macro is Mean averaged over task types."]
    if len(set(found.plays.values())) > 1:
        notes.append(describe_uneven_trials(found.plays))
    if not found.alike:
        notes.append(UNEVEN)
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


def describe_uneven_trials(plays: Mapping[str, int]) -> str:
    """Say how many trials the units of each arm may play."""
    allowed = ", ".join(f"{arm} {trials}" for arm, trials in plays.items())
    return f"The best of more trials is higher by chance alone. Trials that a unit may play: {allowed}."


SOLVED_BELOW_100 = (
    "Solve above Acc100: a solved variant scores less than 100 if it holds points at reset, which no action earns. "
    "Mean leaves these points out; Solve, +reset and env count them."
)

PAPER_NOTE = (
    "Published rows are from Tables 1 and 2 of rSSO, with another model (Claude Sonnet 4.6, 164 variants, 5 trials): "
    "use them for orientation, not for comparison. The published react is trial 1 of its Reflexion run."
)


def _build_method_row(row: ArmMetrics) -> tuple[Cell, ...]:
    units = cells.format_count(row.units) if not row.errored else Cell(f"{row.units:,} ({row.errored} err)", row.units)
    means = (
        cells.format_points(mean) for mean in (row.mean, row.mean_with_reset, row.environment_score, row.macro_mean)
    )
    return (
        cells.format_text(row.arm),
        units,
        *means,
        cells.format_share(row.solve, row.units),
        cells.format_share(row.acc100, row.units),
    )


def _build_published_row(row: dict) -> tuple[Cell, ...]:
    macro = sum(each.means[row["method"]] for each in list_table2_rows()) / len(list_table2_rows())
    shares = (cells.format_share(*row["solve"]), cells.format_share(*row["acc100"]))
    return (
        cells.format_text(f"published {row['method']}", "dim"),
        cells.format_count(row["solve"][1]),
        cells.format_points(row["mean"]),
        Cell(NOTHING),
        Cell(NOTHING),
        cells.format_points(macro),
        *shares,
    )


def describe_stalled_trials(counted: Sequence[tuple[str, int, int]]) -> list[str]:
    """Describe stalled trials; no lines if there are none. `counted` holds arm, stalled trials and all trials."""
    units = [f"{arm} {stalled} of {trials} trials" for arm, stalled, trials in counted if stalled]
    if not units:
        return []
    return [
        f"Stalled: {', '.join(units)}. A step of these trials took longer than environment.step_seconds. Means include "
        "them with the points they had, and memories learned from them. `rsso-dspy run --retry stalled` plays them "
        "again."
    ]


MEAN_PER_TRIAL = (
    "mean/trial is a mean of unit means: the mean accumulator of a unit's played trials, averaged over units."
)


def build_learning_table(found: Analysis) -> Sheet:
    """Build the table of points from trial to trial (rSSO, Figure 2)."""
    longest = max(found.plays.values(), default=0)
    rows = []
    for row in found.arms:
        kept = [row.best_of_t[-1]] * (found.plays[row.arm] - len(row.best_of_t)) if row.best_of_t else []
        padded: list[float | None] = [*row.best_of_t, *kept]
        padded += [None] * (longest - len(padded))
        means = map(cells.format_points, (row.trial_1, row.mean_over_trials, *padded))
        rows.append((cells.format_text(row.arm), cells.format_count(row.trials_played), *means))
    best = (f"best_of_{number}" for number in range(1, longest + 1))
    notes = [MEAN_PER_TRIAL] if rows else []
    if len({row.trials_played / row.units for row in found.arms if row.units}) > 1:
        notes[0] += " Units of these arms played different numbers of trials: do not compare it between arms."
    notes += [] if found.alike else [UNEVEN]
    columns = ("arm", "trials", "trial-1", "mean/trial", *best)
    return Sheet("learning", "Over trials", columns, tuple(rows), tuple(notes))


def build_solved_table(found: Analysis) -> Sheet:
    """Build the table of trials in which variants were solved, and of usage per solved variant."""
    longest = max(found.plays.values(), default=0)
    rows = []
    for row, learnt in zip(found.arms, found.learning, strict=True):
        newly: list[int | None] = [*learnt.newly_solved]
        newly += [0] * (found.plays[row.arm] - len(newly))
        newly += [None] * (longest - len(newly))
        levels = (Cell("never" if t is None else f"{t}", t) for t in learnt.trials_to.values())
        spent = found.spent[row.arm]
        per = [row.steps, spent.tokens] if row.solve else [None, None]
        each = (cells.format_count(None if amount is None else round(amount / row.solve)) for amount in per)
        cost = None if spent.cost is None or not row.solve else spent.cost / row.solve
        price = Cell(format_dollars(cost) if row.solve else NOTHING, cost)
        rows.append((cells.format_text(row.arm), *map(cells.format_count, newly), *levels, *each, price))
    trials = (f"new in {number}" for number in range(1, longest + 1))
    levels_to = (f"to {level}%" for level in (found.learning[0].trials_to if found.learning else ()))
    return Sheet(
        "solved",
        "Solved, trial by trial",
        ("arm", *trials, *levels_to, "steps/solved", "tokens/solved", "USD/solved"),
        tuple(rows),
        (
            *(() if found.alike else (UNEVEN,)),
            "new in t: variants solved for the first time in trial t. to 50%: number of trials after which half of the "
            "variants were solved. Columns per solved variant: steps, tokens and dollars of all scored units, divided "
            "by the number of solved variants, without training, building a constitution and compiling.",
        ),
    )


def build_reflections_table(found: Analysis) -> Sheet:
    """Build the table of solved trials by the number of reflections held when they began."""
    counts = sorted({held.reflections for learnt in found.learning for held in learnt.held})
    rows = []
    for learnt in (each for each in found.learning if len(each.held) > 1):
        by_count = {held.reflections: cells.format_share(held.solved, held.trials) for held in learnt.held}
        rows.append((cells.format_text(learnt.arm), *(by_count.get(count, Cell("")) for count in counts)))
    return Sheet(
        "reflections",
        "Trials solved, by reflections held",
        ("arm", *map(str, counts)),
        tuple(rows),
        ("Units hold more reflections when more trials failed: such variants are harder, the reflections not weaker.",),
    )


def build_tasks_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Build Table 2 of rSSO from this run: means by task type, with the paired difference of two arms."""
    arms = [row.arm for row in found.arms]
    pair = found.main_result.comparison if found.main_result else None
    paper = {row.task: row for row in list_table2_rows()} if with_paper else {}
    notes = [] if found.alike else [UNEVEN]
    if pair:
        notes.append(f"{pair.second} - {pair.first}: paired by unit, best of the first {pair.trials} trials.")
    notes += [PAPER_NOTE] if with_paper else []
    rows = []
    for task in found.tasks:
        made = [cells.format_points(task.means.get(arm), 1) for arm in arms]
        if pair:
            made.append(cells.format_difference(pair.by_task.get(task.name), 1))
        if with_paper:
            row = paper.get(task.name)
            made += [cells.format_points(row.means[method] if row else None, 1, "dim") for method in METHODS]
        rows.append((cells.format_text(task.name, task=task.name), cells.format_count(task.units), *made))
    difference = [f"{pair.second} - {pair.first}"] if pair else []
    columns = ("task", "n", *arms, *difference, *(f"published {method}" for method in METHODS if with_paper))
    return Sheet("tasks", "By task type", columns, tuple(rows), tuple(notes))


def build_trainings_table(found: Analysis) -> Sheet:
    """Build the table of the trainings of the transfer setting."""
    rounds = max((len(row.rounds) for row in found.trainings), default=0)
    rows = []
    for row in found.trainings:
        padded = map(cells.format_points, [*row.rounds, *[None] * (rounds - len(row.rounds))])
        tasks = (
            cells.format_count(row.tasks) if not row.errored else Cell(f"{row.tasks} ({row.errored} err)", row.tasks)
        )
        rows.append((cells.format_text(row.arm), tasks, cells.format_count(row.episodes), *padded))
    columns = ("arm", "tasks", "episodes", *(f"round {number}" for number in range(1, rounds + 1)))
    notes = describe_stalled_trials([(row.arm, row.stalled, row.episodes) for row in found.trainings])
    return Sheet("trainings", "Training", columns, tuple(rows), tuple(notes))


def build_tokens_table(found: Analysis) -> Sheet:
    """Build the table of calls and tokens by role."""
    wasted = {row.arm: (row.invalid_rate, row.asked_rate, row.idle_rate) for row in found.arms}
    spent = [(row.arm, row.tokens, wasted[row.arm], row.calls_per_unit) for row in found.arms]
    spent += [(f"{row.arm} (training)", row.tokens, (None, None, None), None) for row in found.trainings]
    everything = [usage for _, tokens, _, _ in spent for usage in tokens.values()]
    troubles = [name for name in TROUBLES if name == "malformed" or any(getattr(u, name) for u in everything)]
    rows = []
    for arm, tokens, rates, per_unit in spent:
        for place, (role, usage) in enumerate(tokens.items()):
            counts = (cells.format_count(getattr(usage, name)) for name in ("calls", "input", "output", *troubles))
            waste = (cells.format_percent(rate) if role == "actor" and rate is not None else Cell("") for rate in rates)
            calls = cells.format_points(per_unit, 0) if not place and per_unit is not None else Cell("")
            rows.append((cells.format_text(arm), cells.format_text(role), *counts, *waste, calls))
    return Sheet(
        "tokens",
        "Calls and tokens",
        ("arm", "role", "calls", "in", "out", *troubles, "invalid", "asked back", "no effect", "calls/unit"),
        tuple(rows),
        (
            "invalid: share of steps whose action was malformed or not understood. asked back: share of steps that the "
            "environment answered by asking which action was meant. no effect: share of steps whose action was "
            "understood and changed nothing. calls/unit: calls "
            "of all roles per unit.",
        ),
    )


MAIN = ("methods", "benchmarks", "contrasts", "learning", "differences", "trainings", "tokens", "bill")
"""Names of the tables that are printed at the end of a run."""
