"""A run as one HTML file that opens without a network: its tables and figures in views, and a viewer for every trial.

    sections = build_page_sections(found, draw_figures(found))
    write_page(Path("run.html"), "First run", sections, store.units(), notes=[RULE_BASED_NOTE])

The file holds head, views, the list of trials, then one compressed chunk per record (`page_records`). Chunks go through
a temporary file, so memory does not grow with the run, and come after the visible content, which need not wait.
The page allows no network, no inline style and only its own scripts, by hash; what a reader sees and touches stands in
assets/.
"""

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from rsso_dspy.errors import UsageError
from rsso_dspy.files import atomic_path, check_output_path, make_marked_kind
from rsso_dspy.records import TrainingRecord, UnitRecord
from rsso_dspy.redact import make_redactor, redact_json
from rsso_dspy.report.analysis import Analysis
from rsso_dspy.report.cost import describe_unreported_costs
from rsso_dspy.report.figure_canvas import render_svg
from rsso_dspy.report.figures import ReportFigure
from rsso_dspy.report.page_records import NONE, PageCalls, build_list_entry, compress_record
from rsso_dspy.report.sheets import Cell, Sheet
from rsso_dspy.report.tables import build_errored_table, build_tables
from rsso_dspy.report.terminal import replace_controls

if TYPE_CHECKING:
    from jinja2 import Environment

SCRIPTS = (
    "dom", "data", "route", "list", "track", "prompt", "exchange", "learnt", "beside", "unit", "find", "main"
)  # fmt: skip
"""Files in assets/, without their ending, joined in this order into one script. early.js stands alone, before anything
is painted."""

VIEWER = "trials"
"""Name of the view that holds the viewer."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")

OVERVIEW = (
    "Scores of each arm. Mean is the best accumulator of a variant's trials, averaged over variants. Compare it with "
    "trial-1 and the mean over trials, because the best of several trials hides luck."
)
COMPARISON = (
    "Paired differences on the same variants. If an interval includes 0, this run cannot tell the two arms apart. "
    "The minimum detectable difference is the smallest one that a run of this size would find in four of five cases."
)
TASKS = "Means and solved variants by task type. Click a task's name to see its trials."
COST = "Turns, model calls, tokens and cost."
_VIEWS = (
    (
        "overview",
        "Overview",
        OVERVIEW,
        ("methods", "learning", "success", "reflections", "failures", "trainings"),
        ("best-of-t", "scores", "survival"),
    ),
    (
        "comparison",
        "Comparison",
        COMPARISON,
        ("differences", "square", "strata"),
        ("differences",),
    ),
    ("tasks", "Task types", TASKS, ("tasks",), ()),
    ("cost", "Cost", COST, ("measures", "tokens", "bill"), ("efficiency",)),
)
"""Name, title, lead, tables and figures of each view."""


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A picture."""

    title: str
    alt: str
    """Its content in words, for screen readers."""
    svg: str
    """An SVG element of `render_svg`, which stands in the page as it is."""


@dataclass(frozen=True, slots=True)
class PageSection:
    """One view of the page."""

    name: str
    """Of its route, ``#/name``: small letters, digits and hyphens."""
    title: str
    lead: str
    """One or two sentences of plain text."""
    sheets: tuple[Sheet, ...] = ()
    drawings: tuple[PageFigure, ...] = ()


def build_page_sections(
    found: Analysis, drawn: Sequence[ReportFigure] = (), with_paper: bool = False
) -> list[PageSection]:
    """Build the views that have content."""
    sheets = build_tables(found, with_paper)
    pictures = {each.name: PageFigure(each.title, each.alt, render_svg(each.figure, each.name)) for each in drawn}
    sections = []
    for name, title, lead, wanted, figures in _VIEWS:
        shown = [sheet for each in wanted for sheet in sheets if sheet.name.partition("-")[0] == each]
        if name == "overview" and found.errored:
            shown.insert(0, build_errored_table(found))
        if name == "cost":
            lead = " ".join([lead, *describe_unreported_costs(found.bill)])
        kept = tuple(pictures[each] for each in figures if each in pictures)
        sections.append(PageSection(name, title, lead, tuple(shown), kept))
    filled = [each for each in sections if each.sheets or each.drawings]
    return filled or [PageSection("overview", "Overview", "No unit is finished yet.")]


def write_page(
    path: Path,
    title: str,
    sections: Sequence[PageSection],
    records: Iterable[UnitRecord | TrainingRecord],
    notes: Sequence[str] = (),
    facts: Sequence[tuple[str, str]] = (),
    templates: str = "",
    calls: Callable[[UnitRecord | TrainingRecord], PageCalls] = lambda _: NONE,
    headline: str = "",
) -> None:
    """Write the page, whole or not at all.

    `records` are read once, one at a time. `notes` stand at the top of every view, `facts` are labels and values of
    where the run came from, `templates` is the text of the prompt's action_templates region where a record notes none,
    `calls` gives the calls of a record's models, `headline` says in a few sentences what came out. A page of
    this kind that is there is replaced, and an empty file; `UsageError` is raised for any other, and when the file
    cannot be written, `ValueError` for sections of one name or of one that makes no route.
    """
    names = [section.name for section in sections]
    if bad := [name for name in names if not _NAME.fullmatch(name) or name == VIEWER or names.count(name) > 1]:
        raise ValueError(f"a section needs a name of its own of a-z, 0-9 and '-', not {VIEWER!r}: {bad[0]!r}")
    with _open_new_file(path) as file, TemporaryFile(dir=path.parent) as chunks:
        entries = list(_write_record_payloads(records, chunks, calls))
        index = {"units": entries, "templates": replace_controls(templates)}
        shell = _render_shell(title, sections, notes, facts, index, headline)
        file.write(shell.encode("utf-8", "replace"))
        chunks.seek(0)
        shutil.copyfileobj(chunks, file, 1 << 20)
        file.write(b"</body>\n</html>\n")


PAGE = make_marked_kind("page", b'<meta name="generator" content="rsso-dspy">')


def check_page_target(path: Path) -> None:
    """Nothing is lost when a page takes the place of this file. Raises `UsageError` where something would be."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file, e.g. {path / 'report.html'}")
    check_output_path(path, "--html", PAGE)


def _write_record_payloads(
    records: Iterable[UnitRecord | TrainingRecord],
    chunks: IO[bytes],
    calls: Callable[[UnitRecord | TrainingRecord], PageCalls],
) -> Iterator[dict[str, Any]]:
    """The list's line of each record, whose chunk is written on the way."""
    for number, record in enumerate(records):
        yield build_list_entry(record)
        chunks.write(b'<script type="application/octet-stream" id="unit-%d">' % number)
        chunks.write(compress_record(record, calls(record)))
        chunks.write(b"</script>\n")


def _render_shell(
    title: str,
    sections: Sequence[PageSection],
    notes: Sequence[str],
    facts: Sequence[tuple[str, str]],
    index: dict[str, Any],
    headline: str = "",
) -> str:
    """Return everything before the chunks."""
    from markupsafe import Markup

    early, script, style = read_asset("early.js"), _build_script(), read_asset("page.css")
    environment = make_template_environment()
    return environment.get_template("page.html.j2").render(
        title=title,
        sections=sections,
        notes=notes,
        facts=facts,
        units=len(index["units"]),
        headline=headline,
        markup=Markup,
        sort_key=_get_cell_sort_value,
        policy=Markup(build_security_policy((early, script), style)),
        style=Markup(style),
        early=Markup(early),
        script=Markup(script),
        index=Markup(_encode_script_json(index)),
    )


def make_template_environment() -> "Environment":
    """Return what renders the templates in assets/; values are escaped, and keys and acting characters taken out."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

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
    return environment


def _get_cell_sort_value(cell: Cell) -> str:
    """What a column is sorted by, where that is not what is printed."""
    return "" if cell.value is None or isinstance(cell.value, str) else repr(float(cell.value))


def build_security_policy(scripts: Sequence[str], style: str) -> str:
    """Return the Content-Security-Policy: only content of the file itself."""
    hashes = " ".join(f"'{_compute_csp_hash(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src '{_compute_csp_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _compute_csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _encode_script_json(data: Any) -> str:
    """Return JSON for a script element, without characters that begin markup."""
    text = redact_json(json.dumps(data, separators=(",", ":")))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _build_script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(read_asset(f"{name}.js") for name in SCRIPTS) + "})();\n"


@cache
def read_asset(name: str) -> str:
    """Return the text of a file in assets/."""
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


@contextmanager
def _open_new_file(path: Path) -> Iterator[IO[bytes]]:
    """The file to be, open. Raises `UsageError` where it cannot be written, or holds what is no page."""
    try:
        check_page_target(path)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file") from None
