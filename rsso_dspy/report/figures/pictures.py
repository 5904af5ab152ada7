"""All pictures that the records of a run can fill.

for picture in pictures(by_arm(records), price_of):
    print(picture.name, picture.alt)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rsso_dspy.errors import UnknownName
from rsso_dspy.money import PriceOf
from rsso_dspy.report.bills import unpriced
from rsso_dspy.report.comparison import Comparison, compare
from rsso_dspy.report.figures import memories, pairs, spending, square, survival, trials
from rsso_dspy.report.figures.scores import Arms, notes, origin, scored
from rsso_dspy.report.figures.style import said
from rsso_dspy.report.metrics import plays
from rsso_dspy.report.paper import published as published_tables
from rsso_dspy.report.questions import questions, squares

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Picture:
    """A figure and what is said of it."""

    name: str
    """Of a file that holds it, without ending; unique in a run."""
    title: str
    alt: str
    """What the picture shows, in words with numbers. It holds names as they are, without markup."""
    figure: "Figure"


def pictures(
    arms: Arms,
    price_of: PriceOf = unpriced,
    against: tuple[str, str] | None = None,
    published: bool = False,
    comparisons: Sequence[Comparison] | None = None,
) -> list[Picture]:
    """Every picture that makes sense for these units, arm by arm in the order of arms. The slopes are between the two
    arms `against`, else between the last two; `comparisons` are those of the forest, else what the methods were made
    for. `published` puts the paper's figures beside the run's. Raises `UsageError` when matplotlib is not installed,
    and `UnknownName` for an arm that is not there."""
    for name in against or ():
        if name not in arms:
            raise UnknownName("arm", name, arms)
    kept = scored(arms)
    found = list(_learning(arms, kept, published)) if kept else []
    if kept:
        found += _against(arms, kept, against, comparisons)
        found += _composition(arms)
    if len(kept) > 1 and any(spending.unit_costs(arms, price_of).of.values()):
        words = _whole(spending.cost_words(arms, price_of), arms, best=True)
        found.append(Picture("cost", "Cost against score", words, spending.cost_figure(arms, price_of)))
    if memories.kept_memories(arms):
        words = _whole(memories.memories_words(arms), memories.drawn_arms(arms))
        found.append(Picture("memories", "Memories per trial", words, memories.memories_figure(arms)))
    return found


def _learning(arms: Arms, kept: Arms, published: bool) -> Iterator[Picture]:
    again = max(plays(kept).values()) > 1
    if again or published:
        paper = published_tables() if published else {}
        told, source = paper.get("cumulative_best_of_t"), paper.get("source", "")
        words = _whole(trials.best_of_t_words(arms, told, source), arms)
        yield Picture("best-of-t", "Best of t trials", words, trials.best_of_t_figure(arms, told, source))
    if again and len({record.variant.task for records in kept.values() for record in records}) > 1:
        words = _whole(trials.tasks_words(arms), arms)
        yield Picture("best-of-t-by-task", "Best of t trials, by task type", words, trials.tasks_figure(arms))
    if any(len(records) > 1 for records in kept.values()):
        words = _whole(survival.survival_words(arms), arms, best=True)
        yield Picture("survival", "How scores are distributed", words, survival.survival_figure(arms))


def _against(
    arms: Arms, kept: Arms, against: tuple[str, str] | None, comparisons: Sequence[Comparison] | None
) -> Iterator[Picture]:
    if comparisons is None:
        asked = questions(arms) if len(kept) > 1 else []
        comparisons = [compare(each.first, arms[each.first], each.second, arms[each.second]) for each in asked]
    if any(each.interval for each in comparisons):
        figure = pairs.forest_figure(comparisons, [*notes(arms, paired=True), *origin(arms)])
        yield Picture(
            "differences", "Paired differences", _whole(pairs.forest_words(comparisons), arms, paired=True), figure
        )
    *_, first, second = against or ("", *kept)
    pair = (first, second)
    if first and pairs.share_units(arms, pair):
        title = f"From {said(first)} to {said(second)}, unit by unit"
        words = _whole(pairs.slope_words(arms, pair), {name: arms[name] for name in pair}, paired=True)
        yield Picture("slopes", title, words, pairs.slope_figure(arms, pair))


def _composition(arms: Arms) -> Iterator[Picture]:
    found = {program: corners for program, corners in squares(arms).items() if square.drawable(corners)}
    for place, (program, corners) in enumerate(found.items()):
        name = "interaction" if not place else f"interaction-{place + 1}"
        title = "Do skills and reflections compose?" + (f" ({said(program)})" if len(found) > 1 else "")
        words = _whole(square.interaction_words(corners), corners, paired=True)
        yield Picture(name, title, words, square.interaction_figure(arms, corners))


def _whole(words: str, arms: Arms, best: bool = False, paired: bool = False) -> str:
    """What a picture shows, and what has to be said beside it."""
    return " ".join([words, *notes(arms, best, paired)])
