"""The tables of a run: what `analysis.py` found, as sheets. Nothing is computed here but ratios of what stands there.

for sheet in build_tables(analyse(Played(records))):
    print(markdown(sheet))
"""

from collections.abc import Iterator, Sequence

from rsso_dspy.pricing import format_dollars
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.answer_checks import describe_repeated_units
from rsso_dspy.report.comparison_tables import (
    build_differences_table,
    build_factorial_table,
    build_strata_table,
    build_tests_table,
)
from rsso_dspy.report.cost_report import build_cost_table
from rsso_dspy.report.metrics import UNEVEN, ArmMetrics
from rsso_dspy.report.paper import METHODS, list_table2_rows, load_published_tables
from rsso_dspy.report.table_data import (
    NOTHING,
    Cell,
    Sheet,
    make_count_cell,
    make_difference_cell,
    make_percent_cell,
    make_points_cell,
    make_share_cell,
    make_text_cell,
)

TROUBLES = ("malformed", "repaired", "truncated", "failed", "unmetered")
"""What went wrong with answers; all but the first are shown only where they happened."""


def build_tables(found: Analysis, with_paper: bool = False) -> list[Sheet]:
    """Every table that has something to say, in the order of reading."""
    return [sheet for sheet in _build_all_tables(found, with_paper) if sheet.rows]


def _build_all_tables(found: Analysis, with_paper: bool) -> Iterator[Sheet]:
    yield build_methods_table(found, with_paper)
    yield build_learning_table(found)
    yield build_solved_table(found)
    yield build_reflections_table(found)
    yield build_differences_table(found.findings)
    yield build_tests_table(found.findings)
    yield build_strata_table(found.findings)
    for number, (program, square) in enumerate(found.squares.items(), start=1):
        yield build_factorial_table(square, program, number)
    yield build_tasks_table(found, with_paper)
    yield build_trainings_table(found)
    yield build_tokens_table(found)
    yield build_cost_table(found.bill)


def build_methods_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Table 1 of rSSO, from this run; its rows beside ours when `with_paper`."""
    rows = [_build_method_row(row) for row in found.arms]
    notes = ["Mean, +reset and env are micro means, over variants; macro is Mean averaged over task types."]
    if len(set(found.plays.values())) > 1:
        allowed = ", ".join(f"{arm} {trials}" for arm, trials in found.plays.items())
        notes.append(f"The best of more trials is higher by itself. Trials that a unit may play: {allowed}.")
    if not found.alike:
        notes.append(UNEVEN)
    notes += describe_stalled_trials([(row.arm, row.stalled, row.trials_played) for row in found.arms])
    if found.missing:
        units = f"{found.missing:,} units that were" if found.missing > 1 else "1 unit that was"
        notes.append(f"Not all is there: {units} to be played {'have' if found.missing > 1 else 'has'} no record.")
    notes += [*describe_repeated_units(found.repeated), *found.mixed]
    if with_paper:
        rows += [_build_published_row(row) for row in load_published_tables()["table1"]]
        notes.append(PAPER_NOTE)
    columns = ("arm", "units", "Mean", "+reset", "env", "macro", "Solve", "Acc100")
    return Sheet("methods", "Best of t", columns, tuple(rows), tuple(notes))


PAPER_NOTE = (
    "Published rows are another model's (Claude Sonnet 4.6, 164 variants, 5 trials), by rSSO's Tables 1 and 2: beside "
    "ours for orientation, not for comparison. The published react is trial 1 of its Reflexion run."
)


def _build_method_row(row: ArmMetrics) -> tuple[Cell, ...]:
    units = make_count_cell(row.units) if not row.errored else Cell(f"{row.units:,} ({row.errored} err)", row.units)
    means = (make_points_cell(mean) for mean in (row.mean, row.mean_with_reset, row.environment_score, row.macro_mean))
    return (
        make_text_cell(row.arm),
        units,
        *means,
        make_share_cell(row.solve, row.units),
        make_share_cell(row.acc100, row.units),
    )


def _build_published_row(row: dict) -> tuple[Cell, ...]:
    macro = sum(each.means[row["method"]] for each in list_table2_rows()) / len(list_table2_rows())
    shares = (make_share_cell(*row["solve"]), make_share_cell(*row["acc100"]))
    return (
        make_text_cell(f"published {row['method']}", "dim"),
        make_count_cell(row["solve"][1]),
        make_points_cell(row["mean"]),
        Cell(NOTHING),
        Cell(NOTHING),
        make_points_cell(macro),
        *shares,
    )


def describe_stalled_trials(counted: Sequence[tuple[str, int, int]]) -> list[str]:
    """What is said of trials that stalled: `counted` are arm, such trials, and all. Nothing where none did."""
    units = [f"{arm} {stalled} of {trials} trials" for arm, stalled, trials in counted if stalled]
    if not units:
        return []
    return [
        f"Stalled: {', '.join(units)}. There a step took longer than environment.step_seconds; means include such "
        "trials with what they had until then, and memories learnt from them. `rsso-dspy run --retry stalled` plays "
        "them again."
    ]


def build_learning_table(found: Analysis) -> Sheet:
    """Points from trial to trial (rSSO, Figure 2)."""
    longest = max(found.plays.values(), default=0)
    rows = []
    for row in found.arms:
        kept = [row.best_of_t[-1]] * (found.plays[row.arm] - len(row.best_of_t)) if row.best_of_t else []
        padded: list[float | None] = [*row.best_of_t, *kept]
        padded += [None] * (longest - len(padded))
        means = map(make_points_cell, (row.trial_1, row.mean_over_trials, *padded))
        rows.append((make_text_cell(row.arm), make_count_cell(row.trials_played), *means))
    best = (f"best_of_{number}" for number in range(1, longest + 1))
    notes = [] if found.alike else [UNEVEN]
    if len({row.trials_played / row.units for row in found.arms if row.units}) > 1:
        notes.append("mean/trial is over the trials played, which differ between these arms: not to be compared.")
    columns = ("arm", "trials", "trial-1", "mean/trial", *best)
    return Sheet("learning", "Over trials", columns, tuple(rows), tuple(notes))


def build_solved_table(found: Analysis) -> Sheet:
    """Who was solved when, and what solving took."""
    longest = max(found.plays.values(), default=0)
    rows = []
    for row, learnt in zip(found.arms, found.learning, strict=True):
        newly: list[int | None] = [*learnt.newly_solved]
        newly += [0] * (found.plays[row.arm] - len(newly))
        newly += [None] * (longest - len(newly))
        levels = (Cell("never" if t is None else f"{t}", t) for t in learnt.trials_to.values())
        spent = found.spent[row.arm]
        per = [row.steps, spent.tokens] if row.solve else [None, None]
        each = (make_count_cell(None if amount is None else round(amount / row.solve)) for amount in per)
        cost = None if spent.cost is None or not row.solve else spent.cost / row.solve
        price = Cell(format_dollars(cost) if row.solve else NOTHING, cost)
        rows.append((make_text_cell(row.arm), *map(make_count_cell, newly), *levels, *each, price))
    trials = (f"new in {number}" for number in range(1, longest + 1))
    levels_to = (f"to {level}%" for level in (found.learning[0].trials_to if found.learning else ()))
    return Sheet(
        "solved",
        "Solved, trial by trial",
        ("arm", *trials, *levels_to, "steps/solved", "tokens/solved", "USD/solved"),
        tuple(rows),
        (
            *(() if found.alike else (UNEVEN,)),
            "new in t: variants solved for the first time in trial t. to 50%: trials after which half of the variants "
            "were solved. Per solved variant: what all units with a score took, over the variants that were solved; "
            "training, building a constitution and compiling are not in it.",
        ),
    )


def build_reflections_table(found: Analysis) -> Sheet:
    """Solved trials by number of reflections held when they began."""
    counts = sorted({held.reflections for learnt in found.learning for held in learnt.held})
    rows = []
    for learnt in (each for each in found.learning if len(each.held) > 1):
        by_count = {held.reflections: make_share_cell(held.solved, held.trials) for held in learnt.held}
        rows.append((make_text_cell(learnt.arm), *(by_count.get(count, Cell("")) for count in counts)))
    return Sheet(
        "reflections",
        "Trials solved, by reflections held",
        ("arm", *map(str, counts)),
        tuple(rows),
        ("More reflections are held where more trials failed before: harder variants, not weaker reflections.",),
    )


def build_tasks_table(found: Analysis, with_paper: bool = False) -> Sheet:
    """Table 2 of rSSO, from this run: means by task type, with the paired difference of two arms."""
    arms = [row.arm for row in found.arms]
    pair = found.main_result.comparison if found.main_result else None
    paper = {row.task: row for row in list_table2_rows()} if with_paper else {}
    notes = [] if found.alike else [UNEVEN]
    notes += [f"{pair.second} - {pair.first}: over pairs of units, best of the first {pair.trials}."] if pair else []
    notes += [PAPER_NOTE] if with_paper else []
    rows = []
    for task in found.tasks:
        cells = [make_points_cell(task.means.get(arm), 1) for arm in arms]
        if pair:
            cells.append(make_difference_cell(pair.by_task.get(task.name), 1))
        if with_paper:
            row = paper.get(task.name)
            cells += [make_points_cell(row.means[method] if row else None, 1, "dim") for method in METHODS]
        rows.append((make_text_cell(task.name, task=task.name), make_count_cell(task.units), *cells))
    return Sheet(
        "tasks",
        "By task type",
        (
            "task",
            "n",
            *arms,
            *([f"{pair.second} - {pair.first}"] if pair else []),
            *(f"published {method}" for method in METHODS if with_paper),
        ),
        tuple(rows),
        tuple(notes),
    )


def build_trainings_table(found: Analysis) -> Sheet:
    """What the trainings of the transfer setting came to."""
    rounds = max((len(row.rounds) for row in found.trainings), default=0)
    rows = []
    for row in found.trainings:
        padded = map(make_points_cell, [*row.rounds, *[None] * (rounds - len(row.rounds))])
        tasks = make_count_cell(row.tasks) if not row.errored else Cell(f"{row.tasks} ({row.errored} err)", row.tasks)
        rows.append((make_text_cell(row.arm), tasks, make_count_cell(row.episodes), *padded))
    columns = ("arm", "tasks", "episodes", *(f"round {number}" for number in range(1, rounds + 1)))
    notes = describe_stalled_trials([(row.arm, row.stalled, row.episodes) for row in found.trainings])
    return Sheet("trainings", "Training", columns, tuple(rows), tuple(notes))


def build_tokens_table(found: Analysis) -> Sheet:
    """Calls and tokens of every role."""
    wasted = {row.arm: (row.invalid_rate, row.asked_rate, row.idle_rate) for row in found.arms}
    spent = [(row.arm, row.tokens, wasted[row.arm], row.calls_per_unit) for row in found.arms]
    spent += [(f"{row.arm} (training)", row.tokens, (None, None, None), None) for row in found.trainings]
    everything = [usage for _, tokens, _, _ in spent for usage in tokens.values()]
    troubles = [name for name in TROUBLES if name == "malformed" or any(getattr(u, name) for u in everything)]
    rows = []
    for arm, tokens, rates, per_unit in spent:
        for place, (role, usage) in enumerate(tokens.items()):
            counts = (make_count_cell(getattr(usage, name)) for name in ("calls", "input", "output", *troubles))
            waste = (make_percent_cell(rate) if role == "actor" and rate is not None else Cell("") for rate in rates)
            calls = make_points_cell(per_unit, 0) if not place and per_unit is not None else Cell("")
            rows.append((make_text_cell(arm), make_text_cell(role), *counts, *waste, calls))
    return Sheet(
        "tokens",
        "Calls and tokens",
        ("arm", "role", "calls", "in", "out", *troubles, "invalid", "asked back", "no effect", "calls/unit"),
        tuple(rows),
        (
            "invalid: share of steps whose action was malformed or not understood; asked back: that the environment "
            "answered by asking which action was meant; no effect: that were understood and did nothing (both 0 in "
            "records of 0.1.0, which did not count them). calls/unit: of all roles.",
        ),
    )


def select_main_tables(sheets: Sequence[Sheet]) -> list[Sheet]:
    """The tables that stand at the end of a run."""
    return [
        sheet for sheet in sheets if sheet.name in ("methods", "learning", "differences", "trainings", "tokens", "bill")
    ]
