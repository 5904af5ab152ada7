"""What memories held and showed, trial by trial.

draw_memories_figure(by_arm(records))
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError
from rsso_dspy.records import UnitRecord
from rsso_dspy.report.figures.canvas import (
    compute_side_offsets,
    finish_figure,
    get_width,
    is_column,
    make_legend_entry,
    set_trial_axis,
    use_figure_style,
)
from rsso_dspy.report.figures.score_estimates import UnitsByArm, list_figure_notes, select_scored_arms
from rsso_dspy.report.figures.style import assign_arm_styles, clean_name
from rsso_dspy.report.learning_curves import (
    REFLECTIONS,
    SKILLS,
    is_memory_empty_at_start,
    is_memory_shown,
    list_held_reflections,
    list_held_skills,
    list_shown_skills,
)
from rsso_dspy.report.metrics import count_max_trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE_LETTERS = 18
"""In a line of a title, where three panels stand in a column."""


@dataclass(frozen=True, slots=True)
class MemoryCount:
    """Something that is counted in every trial of a unit."""

    title: str
    memory: str
    of: Callable[[UnitRecord], Sequence[int] | None]
    """A number per trial; None where it is not known."""


def draw_memories_figure(arms: UnitsByArm) -> "Figure":
    """Small multiples of what an arm's memories held when a trial began and showed in it, mean over the units that
    played the trial. Raises `UsageError` when no arm has such a memory."""
    panels = _build_panels(arms)
    if not panels:
        raise UsageError("no arm keeps reflections or skills, so there is nothing to draw")
    look = assign_arm_styles(arms)
    shown = select_memory_arms(arms)
    drawn = list(shown)
    trials = max(count_max_trials(select_scored_arms(arms)[arm]) for arm in drawn)
    aside = compute_side_offsets(drawn)
    with use_figure_style() as new_figure:
        width = get_width() * (1 if is_column() else max(2, len(panels)) / 3)
        figure = new_figure(figsize=(width, 2.5), layout="constrained")
        for axes, (count, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            for arm, values in lines.items():
                known = [(number + aside[arm], v) for number, v in enumerate(values, start=1) if v is not None]
                style = look[arm]
                look_of = {"marker": style.marker, "linewidth": 1.3, "markeredgewidth": 0, **style.line_options}
                axes.plot(*zip(*known, strict=True), **look_of)
            title = fill(count.title, TITLE_LETTERS) if is_column() else count.title
            axes.set_title(title, loc="left", fontsize=7 if is_column() else 8.5)
            most = max(1.0, axes.get_ylim()[1])
            axes.set_ylim(-0.05 * most, most)
            axes.set_xlabel("trial")
            axes.grid(axis="y")
            set_trial_axis(axes, trials)
        mean = "Mean over the units that played the trial; solved ones stop where the protocol says so."
        notes = [mean, *_describe_unknown_counts(arms), *list_figure_notes(shown)]
        return finish_figure(figure, notes, [make_legend_entry(look[arm]) for arm in drawn])


def describe_memories_figure(arms: UnitsByArm) -> str:
    """The picture in words."""
    parts = []
    for count, lines in _build_panels(arms):
        listed = "; ".join(
            f"{clean_name(arm)} {', '.join('unknown' if v is None else f'{v:.1f}' for v in values)}"
            for arm, values in lines.items()
        )
        parts.append(f"{count.title}: {listed}.")
    return f"Line charts of memories per trial, mean over units. {' '.join(parts)}"


def select_memory_arms(arms: UnitsByArm) -> UnitsByArm:
    """Those that keep something to draw."""
    return {arm: records for arm, records in arms.items() if any(arm in lines for _, lines in _build_panels(arms))}


def has_memory_counts(arms: UnitsByArm) -> bool:
    """Whether some arm keeps reflections or skills over more than one trial."""
    return any(len(values) > 1 for _, lines in _build_panels(arms) for values in lines.values())


def _build_panels(arms: UnitsByArm) -> list[tuple[MemoryCount, dict[str, list[float | None]]]]:
    found = []
    for count in COUNTS:
        lines = {
            arm: _compute_trial_means(records, count)
            for arm, records in select_scored_arms(arms).items()
            if _has_memory(records, count.memory)
        }
        lines = {arm: values for arm, values in lines.items() if any(value is not None for value in values)}
        if lines:
            found.append((count, lines))
    return found


def _has_memory(records: Sequence[UnitRecord], memory: str) -> bool:
    """Whether units of this arm have the memory: it was told of a trial, or something of it was shown."""
    trials = (trial for record in records for trial in record.trials)
    return any(memory in trial.learnt or is_memory_shown(trial, memory) for trial in trials)


def _compute_trial_means(records: Sequence[UnitRecord], count: MemoryCount) -> list[float | None]:
    """Mean per trial; None where no unit tells."""
    told = [numbers for record in records if (numbers := count.of(record)) is not None]
    return [
        fmean(values) if (values := [numbers[trial] for numbers in told if trial < len(numbers)]) else None
        for trial in range(count_max_trials(records))
    ]


def _count_recalled_skills(record: UnitRecord) -> Sequence[int]:
    return [len(list_shown_skills(trial)) for trial in record.trials if trial.trajectory is not None]


def _describe_unknown_counts(arms: UnitsByArm) -> list[str]:
    units = [record for records in select_scored_arms(arms).values() for record in records]
    started = any(not is_memory_empty_at_start(record, memory) for record in units for memory in (REFLECTIONS, SKILLS))
    return ["What a memory held is not known of units that started from one learned elsewhere."] if started else []


COUNTS = (
    MemoryCount("reflections held at start", REFLECTIONS, list_held_reflections),
    MemoryCount("skills in library at start", SKILLS, list_held_skills),
    MemoryCount("distinct skills shown", SKILLS, _count_recalled_skills),
)
