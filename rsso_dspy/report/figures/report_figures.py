"""All figures that a run has data for.

for picture in draw_report_figures(by_arm(records), price_of):
    print(picture.name, picture.alt)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rsso_dspy.errors import UnknownName
from rsso_dspy.pricing import PriceOf
from rsso_dspy.report.comparison import Comparison, compare_arms, compute_factorial
from rsso_dspy.report.contrasts import find_factorials, select_contrasts
from rsso_dspy.report.cost_report import return_no_price
from rsso_dspy.report.figures import (
    cost_vs_score,
    efficiency,
    factorial_2x2,
    memory_counts,
    paired_differences,
    survival,
    trial_curves,
)
from rsso_dspy.report.figures.score_estimates import UnitsByArm, list_figure_notes, select_scored_arms
from rsso_dspy.report.figures.style import clean_name
from rsso_dspy.report.metrics import map_allowed_trials
from rsso_dspy.report.paper import load_published_tables as published_tables
from rsso_dspy.report.task_measures import measure_tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class ReportFigure:
    """A figure with its name and description."""

    name: str
    """Of a file that holds it, without ending; unique in a run."""
    title: str
    alt: str
    """What the picture shows, in words with numbers. It holds names as they are, without markup."""
    figure: "Figure"


def draw_report_figures(
    arms: UnitsByArm,
    price_of: PriceOf = return_no_price,
    against: tuple[str, str] | None = None,
    published: bool = False,
    comparisons: Sequence[Comparison] | None = None,
) -> list[ReportFigure]:
    """Draw every applicable figure, arms in order.

    The slope chart compares the two arms `against` (default: the last two), the forest plot shows `comparisons`
    (default: those that the methods are designed for). `published` adds the paper's figures. Raises `UsageError` if
    matplotlib is not installed, and `UnknownName` for an unknown arm.
    """
    for name in against or ():
        if name not in arms:
            raise UnknownName("arm", name, arms)
    kept = select_scored_arms(arms)
    found = list(_draw_trial_figures(arms, kept, published)) if kept else []
    if kept:
        found += _draw_comparison_figures(arms, kept, against, comparisons)
        found += _draw_interaction_figures(arms)
    if len(kept) > 1 and any(cost_vs_score.compute_unit_costs(arms, price_of).of.values()):
        words = _join_notes(cost_vs_score.describe_cost_figure(arms, price_of), arms, best=True)
        found.append(ReportFigure("cost", "Cost against score", words, cost_vs_score.draw_cost_figure(arms, price_of)))
    if len(kept) > 1 and any(measure_tasks(records).calls for records in kept.values()):
        words = _join_notes(efficiency.describe_efficiency_figure(arms), arms, best=True)
        figure = efficiency.draw_efficiency_figure(arms)
        found.append(ReportFigure("efficiency", "Success against calls", words, figure))
    if memory_counts.has_memory_counts(arms):
        words = _join_notes(memory_counts.describe_memories_figure(arms), memory_counts.select_memory_arms(arms))
        found.append(ReportFigure("memories", "Memories per trial", words, memory_counts.draw_memories_figure(arms)))
    return found


def _draw_trial_figures(arms: UnitsByArm, kept: UnitsByArm, published: bool) -> Iterator[ReportFigure]:
    again = max(map_allowed_trials(kept).values()) > 1
    if again or published:
        paper = published_tables() if published else {}
        told, source = paper.get("cumulative_best_of_t"), paper.get("source", "")
        words = _join_notes(trial_curves.describe_best_of_t_figure(arms, told, source), arms)
        figure = trial_curves.draw_best_of_t_figure(arms, told, source)
        yield ReportFigure("best-of-t", "Best of t trials", words, figure)
    if again and len({record.variant.task for records in kept.values() for record in records}) > 1:
        words = _join_notes(trial_curves.describe_tasks_figure(arms), arms)
        figure = trial_curves.draw_tasks_figure(arms)
        yield ReportFigure("best-of-t-by-task", "Best of t trials, by task type", words, figure)
    if any(len(records) > 1 for records in kept.values()):
        words = _join_notes(survival.describe_survival_figure(arms), arms, best=True)
        yield ReportFigure("survival", "How scores are distributed", words, survival.draw_survival_figure(arms))


def _draw_comparison_figures(
    arms: UnitsByArm, kept: UnitsByArm, against: tuple[str, str] | None, comparisons: Sequence[Comparison] | None
) -> Iterator[ReportFigure]:
    if comparisons is None:
        asked = select_contrasts(arms) if len(kept) > 1 else []
        comparisons = [compare_arms(each.first, arms[each.first], each.second, arms[each.second]) for each in asked]
    if any(each.interval for each in comparisons):
        figure = paired_differences.draw_forest_figure(comparisons, list_figure_notes(arms, paired=True))
        words = _join_notes(paired_differences.describe_forest_figure(comparisons), arms, paired=True)
        yield ReportFigure("differences", "Paired differences", words, figure)
    *_, first, second = against or ("", *kept)
    pair = (first, second)
    if first and paired_differences.has_shared_units(arms, pair):
        title = f"From {clean_name(first)} to {clean_name(second)}, unit by unit"
        two = {name: arms[name] for name in pair}
        words = _join_notes(paired_differences.describe_slope_figure(arms, pair), two, paired=True)
        yield ReportFigure("slopes", title, words, paired_differences.draw_slope_figure(arms, pair))


def _draw_interaction_figures(arms: UnitsByArm) -> Iterator[ReportFigure]:
    found = {program: corners for program, corners in find_factorials(arms).items() if compute_factorial(corners)}
    for place, (program, corners) in enumerate(found.items()):
        name = "interaction" if not place else f"interaction-{place + 1}"
        title = "Do skills and reflections compose?" + (f" ({clean_name(program)})" if len(found) > 1 else "")
        words = _join_notes(factorial_2x2.describe_interaction_figure(corners), corners, paired=True)
        yield ReportFigure(name, title, words, factorial_2x2.draw_interaction_figure(arms, corners))


def _join_notes(words: str, arms: UnitsByArm, best: bool = False, paired: bool = False) -> str:
    """What a picture shows, and what has to be said beside it."""
    return " ".join([words, *list_figure_notes(arms, best, paired, origin=False)])
