"""A figure of the candidates of a compile, for `program show --figure` and a run's page."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rsso_dspy.optimize.program_text import Description


def describe_program_candidates(found: "Description", name: str) -> str:
    """Describe the figure in words."""
    from rsso_dspy.optimize.program_file import describe_verdict
    from rsso_dspy.optimize.program_text import describe_noise

    labels = _label_candidates(found)
    tried = [f"{label} {each.metric:.3f}" for label, each in zip(labels, found.candidates, strict=True)]
    best = next((label for label, each in zip(labels, found.candidates, strict=True) if each.chosen), "none")
    words = f"Mean metric of each candidate of {name} on the val variants: {', '.join(tried)}."
    said = " ".join([describe_verdict(found.compiled), *describe_noise(found.compiled)])
    return f"{words} Chosen: {best}; {said}"


def draw_program_candidates(found: "Description", name: str) -> "Figure":
    """Draw the candidates of a program. Raises `UsageError` if matplotlib is not installed."""
    from rsso_dspy.records import RULE_BASED_NOTE
    from rsso_dspy.report.figures import ScoredCandidate, draw_candidates_figure

    val = found.compiled.val
    shown = [
        ScoredCandidate(label, each.metric, {key: v for key, v in each.per_variant.items() if key in val}, each.chosen)
        for label, each in zip(_label_candidates(found), found.candidates, strict=True)
    ]
    verdict = f", {found.compiled.confirmation.verdict}" if found.compiled.confirmation else ""
    title = f"{name}: {found.compiled.method}, {found.compiled.optimizer}{verdict}"
    return draw_candidates_figure(shown, title, RULE_BASED_NOTE if found.compiled.rule_based else "")


def _label_candidates(found: "Description") -> list[str]:
    names = []
    for each in found.candidates:
        mark = " placebo" if each.placebo else " dropped" if each.dropped else ""
        names.append("zero-shot" if each.zero_shot else f"#{each.number}{mark}")
    return names
