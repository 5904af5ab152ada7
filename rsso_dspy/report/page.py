"""A run as one HTML file that opens without a network: its tables and figures in views, and a viewer for every trial.
The file holds head, views, the list of trials, then one compressed chunk per record (`page_records`). Chunks go through
a temporary file, so memory does not grow with the run. The page allows no network, no inline style and only its own
scripts, by hash; what a reader sees and touches stands in assets/."""

import base64
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from rsso_dspy.files import atomic_path, check_output_path, make_marked_kind
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.redact import make_redactor, redact_json
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.cost import describe_unreported_costs
from rsso_dspy.report.figures import ReportFigure, render_data_uri
from rsso_dspy.report.page_records import NONE, PageCalls, build_list_entry, compress_record
from rsso_dspy.report.sheets import Sheet
from rsso_dspy.report.tables import build_tables
from rsso_dspy.report.terminal import replace_controls

SCRIPTS = ("dom", "data", "list", "prompt", "learnt", "unit", "main")
"""Files in assets/, without their ending, joined in this order into one script. early.js stands alone, before anything
is painted."""

VIEWS = {
    "overview": (
        "Overview",
        "Scores of each arm. Mean is the best accumulator of a variant's trials, averaged over variants. Compare it "
        "with trial-1 and the mean over trials, because the best of several trials hides luck.",
        ("errored", "methods", "learning", "success", "reflections", "failures", "trainings"),
        ("best-of-t", "scores", "survival"),
    ),
    "comparison": (
        "Comparison",
        "Paired differences on the same variants. If an interval includes 0, this run cannot tell the two arms apart. "
        "The minimum detectable difference is the smallest one that a run of this size would find in four of five "
        "cases.",
        ("differences", "strata"),
        ("differences",),
    ),
    "tasks": ("Task types", "Click a task's name to see its trials.", ("tasks",), ()),
    "cost": ("Cost", "Turns, model calls, tokens and cost.", ("measures", "tokens"), ("efficiency",)),
}
"""Name to title, lead, tables and figures of a view."""


class PageFigure(NamedTuple):
    title: str
    alt: str
    source: str


@dataclass(frozen=True, slots=True)
class PageSection:
    name: str  # of its route, `#/name`: small letters, digits and hyphens
    title: str
    lead: str  # one or two sentences of plain text
    sheets: tuple[Sheet, ...] = ()
    drawings: tuple[PageFigure, ...] = ()


def build_page_sections(
    found: Analysis, drawn: Sequence[ReportFigure] = (), with_paper: bool = False
) -> list[PageSection]:
    sheets = {sheet.name: sheet for sheet in build_tables(found, with_paper)}
    pictures = {each.name: PageFigure(each.title, each.alt, render_data_uri(each.figure)) for each in drawn}
    sections = []
    for name, (title, lead, wanted, figures) in VIEWS.items():
        if name == "cost":
            lead = " ".join([lead, *describe_unreported_costs(found.bill)])
        shown = tuple(sheets[each] for each in wanted if each in sheets)
        kept = tuple(pictures[each] for each in figures if each in pictures)
        sections.append(PageSection(name, title, lead, shown, kept))
    filled = [each for each in sections if each.sheets or each.drawings]
    return filled or [PageSection("overview", "Overview", "No unit is finished yet.")]


PAGE = make_marked_kind("page", b'<meta name="generator" content="rsso-dspy">')


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says beside the trials."""

    title: str
    sections: Sequence[PageSection] = ()
    headline: str = ""  # what came out, in a few sentences
    notes: Sequence[str] = ()  # they stand at the top of every view
    facts: Sequence[tuple[str, str]] = ()  # labels and values of where the run came from
    templates: str = ""  # text of the prompt's action_templates region where a record notes none


def write_page(
    path: Path,
    page: Page,
    records: Iterable[UnitRecord | TrainingRecord],
    find_calls: Callable[[UnitRecord | TrainingRecord], PageCalls] = lambda _: NONE,
) -> None:
    """Write the page, whole or not at all. `records` are read once, one at a time. A page of this kind that is there is
    replaced, and an empty file; `UsageError` is raised for any other."""
    check_output_path(path, "--html", PAGE)
    with atomic_path(path) as temporary, temporary.open("wb") as file, TemporaryFile(dir=path.parent) as chunks:
        entries = []
        for number, record in enumerate(records):
            entries.append(build_list_entry(record))
            chunks.write(b'<script type="application/octet-stream" id="unit-%d">' % number)
            chunks.write(compress_record(record, find_calls(record)))
            chunks.write(b"</script>\n")
        file.write(_render_shell(page, entries).encode("utf-8", "replace"))
        chunks.seek(0)
        shutil.copyfileobj(chunks, file, 1 << 20)
        file.write(b"</body>\n</html>\n")


def _render_shell(page: Page, entries: Sequence[dict[str, Any]]) -> str:
    """Return everything before the chunks: values are escaped, and keys and acting characters taken out."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    strike = make_redactor()
    environment = Environment(
        loader=PackageLoader("rsso_dspy.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: strike(replace_controls(value)) if type(value) is str else value,
    )
    environment.filters["visible"] = replace_controls
    early, script, style = _read_asset("early.js"), _build_script(), _read_asset("page.css")
    index = redact_json(json.dumps({"units": entries, "templates": replace_controls(page.templates)}))
    return environment.get_template("page.html.j2").render(
        page=page,
        units=len(entries),
        policy=Markup(_build_security_policy((early, script), style)),
        style=Markup(style),
        early=Markup(early),
        script=Markup(script),
        index=Markup(index.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")),
    )


def _build_security_policy(scripts: Sequence[str], style: str) -> str:
    """Return the Content-Security-Policy: only content of the file itself."""
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (*scripts, style)
    ]
    return (
        f"default-src 'none'; script-src {' '.join(hashes[:-1])}; style-src {hashes[-1]}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _build_script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(_read_asset(f"{name}.js") for name in SCRIPTS) + "})();\n"


@cache
def _read_asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
