"""The candidates of a compile as a picture, for `program show --figure` and a run's page."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rsso_dspy.optimize.describe import Description


def candidates_of(file: Path) -> "tuple[Figure, str]":
    """The picture of a compiled file, and what it shows in words. Raises `UsageError` for a file that cannot be read,
    or when matplotlib is not installed."""
    from rsso_dspy.optimize.compiled import load
    from rsso_dspy.optimize.describe import describe

    found = describe(load(file))
    tried = [f"{name} {each.metric:.3f}" for name, each in zip(_names(found), found.candidates, strict=True)]
    best = next((name for name, each in zip(_names(found), found.candidates, strict=True) if each.chosen), "none")
    words = f"Mean metric of each candidate of {file.name} on the variants to choose by: {', '.join(tried)}."
    return figure_of(found, file.name), f"{words} Chosen: {best}."


def figure_of(found: "Description", name: str) -> "Figure":
    """The picture of a program that is read already."""
    from rsso_dspy.report.figures import Shown, candidates_figure
    from rsso_dspy.trajectory import RULE_BASED_NOTE

    choose = found.compiled.choose
    shown = [
        Shown(label, each.metric, {key: v for key, v in each.per_variant.items() if key in choose}, each.chosen)
        for label, each in zip(_names(found), found.candidates, strict=True)
    ]
    title = f"{name}: {found.compiled.method}, {found.compiled.optimizer}"
    return candidates_figure(shown, title, RULE_BASED_NOTE if found.compiled.rule_based else "")


def _names(found: "Description") -> list[str]:
    return ["zero-shot" if each.zero_shot else f"#{number}" for number, each in enumerate(found.candidates)]
