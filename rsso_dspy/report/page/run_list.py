"""The runs of a folder as a page: a row per run, with a filter and a choice of runs to compare.

render_run_list("runs", [RunRow("first", "ended", "36 of 36", (("rsso", "85.33"),), "adapt/2", "2026-11-22 23:10")], "")
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rsso_dspy.report.page.document import build_style_policy, make_template_environment, read_asset


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run."""

    name: str
    """Path below the folder."""
    state: str
    units: str
    means: tuple[tuple[str, str], ...]
    """Arm and its mean, as text."""
    protocol: str
    changed: str
    """When a file of it last changed, in UTC."""

    def contains(self, wanted: str) -> bool:
        """Whether every one of these words stands in its name, arms, state or protocol."""
        said = " ".join([self.name, self.state, self.protocol, *(arm for arm, _ in self.means)]).lower()
        return all(word in said for word in wanted.lower().split())


def render_run_list(title: str, rows: Sequence[RunRow], wanted: str) -> str:
    """Render the page. `wanted` is the filter, which `rows` have passed."""
    empty = "No run is like this." if wanted else "There is no run in this folder yet."
    return _render_without_scripts("runs.html.j2", title=title, rows=rows, wanted=wanted, empty=empty)


def render_waiting_page(title: str, status: str) -> str:
    """Render what stands for a page that is being made; a browser asks again every second."""
    return _render_without_scripts("waiting.html.j2", title=title, status=status)


def _render_without_scripts(template: str, **values: object) -> str:
    from markupsafe import Markup

    style = read_asset("page.css")
    policy = Markup(build_style_policy(style))
    return make_template_environment().get_template(template).render(**values, style=Markup(style), policy=policy)
