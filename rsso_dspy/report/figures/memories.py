"""What memories held and showed, trial by trial.

memories_figure(by_arm(records))
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError
from rsso_dspy.report.figures.canvas import WIDTH, below, drawing, entry, settled, sideways, trial_axis
from rsso_dspy.report.figures.scores import Arms, notes, origin, scored
from rsso_dspy.report.figures.style import said, styles
from rsso_dspy.report.learning import REFLECTIONS, SKILLS, from_nothing, reflections_held, skills_held, was_shown
from rsso_dspy.report.metrics import longest
from rsso_dspy.trajectory import UnitRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Count:
    """Something that is counted in every trial of a unit."""

    title: str
    memory: str
    of: Callable[[UnitRecord], Sequence[int] | None]
    """A number per trial; None where it is not known."""


def memories_figure(arms: Arms) -> "Figure":
    """Small multiples of what an arm's memories held when a trial began and showed in it, mean over the units that
    played the trial. Raises `UsageError` when no arm has such a memory."""
    panels = _panels(arms)
    if not panels:
        raise UsageError("no arm keeps reflections or skills, so there is nothing to draw")
    look = styles(arms)
    shown = drawn_arms(arms)
    drawn = list(shown)
    trials = max(longest(scored(arms)[arm]) for arm in drawn)
    aside = sideways(drawn)
    with drawing() as new_figure:
        figure = new_figure(figsize=(WIDTH * max(2, len(panels)) / 3, 2.5), layout="constrained")
        for axes, (count, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            for arm, values in lines.items():
                known = [(number + aside[arm], v) for number, v in enumerate(values, start=1) if v is not None]
                style = look[arm]
                axes.plot(
                    *zip(*known, strict=True), marker=style.marker, linewidth=1.3, markeredgewidth=0, **style.line
                )
            axes.set_title(count.title, loc="left", fontsize=8.5)
            most = max(1.0, axes.get_ylim()[1])
            axes.set_ylim(-0.05 * most, most)
            axes.set_xlabel("trial")
            axes.grid(axis="y")
            trial_axis(axes, trials)
        more = ["Mean over the units that played the trial; solved ones stop where the protocol says so."]
        below(figure, [*more, *_unknown(arms), *notes(shown), *origin(arms)], [entry(look[arm]) for arm in drawn])
        return settled(figure)


def memories_words(arms: Arms) -> str:
    """The picture in words."""
    parts = []
    for count, lines in _panels(arms):
        listed = "; ".join(
            f"{said(arm)} {', '.join('unknown' if v is None else f'{v:.1f}' for v in values)}"
            for arm, values in lines.items()
        )
        parts.append(f"{count.title}: {listed}.")
    return f"Line charts of memories per trial, mean over units. {' '.join(parts)}"


def drawn_arms(arms: Arms) -> Arms:
    """Those that keep something to draw."""
    return {arm: records for arm, records in arms.items() if any(arm in lines for _, lines in _panels(arms))}


def kept_memories(arms: Arms) -> bool:
    """Whether some arm keeps reflections or skills over more than one trial."""
    return any(len(values) > 1 for _, lines in _panels(arms) for values in lines.values())


def _panels(arms: Arms) -> list[tuple[Count, dict[str, list[float | None]]]]:
    found = []
    for count in COUNTS:
        lines = {arm: _means(records, count) for arm, records in scored(arms).items() if _keeps(records, count.memory)}
        lines = {arm: values for arm, values in lines.items() if any(value is not None for value in values)}
        if lines:
            found.append((count, lines))
    return found


def _keeps(records: Sequence[UnitRecord], memory: str) -> bool:
    """Whether units of this arm have the memory: it was told of a trial, or something of it was shown."""
    trials = (trial for record in records for trial in record.trials)
    return any(memory in trial.learnt or was_shown(trial, memory) for trial in trials)


def _means(records: Sequence[UnitRecord], count: Count) -> list[float | None]:
    """Mean per trial; None where no unit tells."""
    told = [numbers for record in records if (numbers := count.of(record)) is not None]
    return [
        fmean(values) if (values := [numbers[trial] for numbers in told if trial < len(numbers)]) else None
        for trial in range(longest(records))
    ]


def _recalled(record: UnitRecord) -> Sequence[int]:
    return [len({name for step in trial.steps for name in step.recalled}) for trial in record.trajectories]


def _unknown(arms: Arms) -> list[str]:
    units = [record for records in scored(arms).values() for record in records]
    started = any(not from_nothing(record, memory) for record in units for memory in (REFLECTIONS, SKILLS))
    return ["What a memory held is not known of units that started from one learnt elsewhere."] if started else []


COUNTS = (
    Count("reflections held at start", REFLECTIONS, reflections_held),
    Count("skills in library at start", SKILLS, skills_held),
    Count("distinct skills shown", SKILLS, _recalled),
)
