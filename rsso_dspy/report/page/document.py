"""The page put together: head, sections, the list of trials, then one compressed chunk per record.

    write_page(Path("run.html"), "First run", sections, records, notes=["..."], facts=[("protocol", "sso-adapt/1")])

Chunks go through a temporary file, so that memory does not grow with the run, and they stand behind all that is seen at
first, so that nothing waits for them. The page allows no network, no inline style and no script but its own, by hash.
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
from typing import IO, Any

from rsso_dspy.errors import UsageError
from rsso_dspy.redaction import redact_json, redactor
from rsso_dspy.report.page.chunks import NONE, Exchanges, listed, packed
from rsso_dspy.report.page.drawing import inline
from rsso_dspy.report.sheets import Cell, Sheet
from rsso_dspy.report.terminal import visible
from rsso_dspy.trajectory import TrainingRecord, UnitRecord
from rsso_dspy.whole import check_place, marked_kind, whole

SCRIPTS = (
    "dom.js",
    "data.js",
    "route.js",
    "list.js",
    "track.js",
    "prompt.js",
    "exchange.js",
    "learnt.js",
    "unit.js",
    "main.js",
)
"""Joined in this order into one script. early.js stands alone, before anything is painted."""

VIEWER = "trials"
"""Name of the view that this module makes itself."""

DOCTYPE = b"<!doctype html>"
"""What a page begins with, in small letters or in capitals."""

_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture."""

    title: str
    alt: str
    """What it shows, in words; read aloud by screen readers."""
    svg: str
    """Text of an SVG document; ink is ``currentColor``."""


@dataclass(frozen=True, slots=True)
class Section:
    """One view of the page."""

    name: str
    """Of its route, ``#/name``: small letters, digits and hyphens."""
    title: str
    lead: str
    """One or two sentences of plain text."""
    sheets: tuple[Sheet, ...] = ()
    drawings: tuple[Drawing, ...] = ()


def write_page(
    path: Path,
    title: str,
    sections: Sequence[Section],
    records: Iterable[UnitRecord | TrainingRecord],
    notes: Sequence[str] = (),
    facts: Sequence[tuple[str, str]] = (),
    templates: str = "",
    exchanges: Callable[[UnitRecord | TrainingRecord], Exchanges] = lambda _: NONE,
) -> None:
    """Write the page, whole or not at all.

    `records` are read once, one at a time. `notes` stand at the top of every view, `facts` are labels and values of
    where the run came from, `templates` is the text of the prompt's action_templates region where a
    record notes none, `exchanges` gives what was recorded of a record. A page of this kind that is there is replaced,
    and an empty file; `UsageError` is raised for any other, and when the file cannot be written, `ValueError` for
    sections of one name or of one that makes no route.
    """
    names = [section.name for section in sections]
    if bad := [name for name in names if not _NAME.fullmatch(name) or name == VIEWER or names.count(name) > 1]:
        raise ValueError(f"a section needs a name of its own of a-z, 0-9 and '-', not {VIEWER!r}: {bad[0]!r}")
    with _new_file(path) as file, TemporaryFile(dir=path.parent) as chunks:
        entries = list(_entries(records, chunks, exchanges))
        index = {"units": entries, "templates": visible(templates)}
        file.write(_shell(title, sections, notes, facts, index, len(entries)).encode("utf-8", "replace"))
        chunks.seek(0)
        shutil.copyfileobj(chunks, file, 1 << 20)
        file.write(b"</body>\n</html>\n")


PAGE = marked_kind("page", b'<meta name="generator" content="rsso-dspy">')


def check_replaceable(path: Path) -> None:
    """Nothing is lost when a page takes the place of this file. Raises `UsageError` where something would be."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file, e.g. {path / 'report.html'}")
    check_place(path, "--html", PAGE)


def _entries(
    records: Iterable[UnitRecord | TrainingRecord],
    chunks: IO[bytes],
    exchanges: Callable[[UnitRecord | TrainingRecord], Exchanges],
) -> Iterator[dict[str, Any]]:
    """The list's line of each record, whose chunk is written on the way."""
    for number, record in enumerate(records):
        yield listed(record)
        chunks.write(b'<script type="application/octet-stream" id="unit-%d">' % number)
        chunks.write(packed(record, exchanges(record)))
        chunks.write(b"</script>\n")


def _shell(
    title: str,
    sections: Sequence[Section],
    notes: Sequence[str],
    facts: Sequence[tuple[str, str]],
    index: dict[str, Any],
    units: int,
) -> str:
    """Everything before the chunks."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    strike = redactor()
    early, script, style = _asset("early.js"), _script(), _asset("page.css")
    environment = Environment(
        loader=PackageLoader("rsso_dspy.report.page", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: strike(visible(value)) if type(value) is str else value,
    )
    environment.filters["visible"] = visible
    drawings = {
        (section.name, number): Markup(inline(drawing.svg, f"{section.name}-{number}"))
        for section in sections
        for number, drawing in enumerate(section.drawings)
    }
    return environment.get_template("page.html.j2").render(
        title=title,
        sections=sections,
        notes=notes,
        facts=facts,
        units=units,
        drawings=drawings,
        numeric=_numeric,
        sort_key=_sort_key,
        policy=Markup(_policy((early, script), style)),
        style=Markup(style),
        early=Markup(early),
        script=Markup(script),
        index=Markup(_in_script(index)),
    )


def _numeric(sheet: Sheet) -> list[bool]:
    """Per column whether it is set to the right."""
    return [place > 0 and all(row[place].number for row in sheet.rows) for place in range(len(sheet.columns))]


def _sort_key(cell: Cell) -> str:
    """What a column is sorted by, where that is not what is printed."""
    return "" if cell.value is None or isinstance(cell.value, str) else repr(float(cell.value))


def _policy(scripts: Sequence[str], style: str) -> str:
    """Content-Security-Policy: nothing but what stands in the file itself."""
    hashes = " ".join(f"'{_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src '{_digest(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _in_script(data: Any) -> str:
    """JSON that a script element can hold: no character in it begins markup."""
    text = redact_json(json.dumps(data, separators=(",", ":")))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    return '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in SCRIPTS) + "})();\n"


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


@contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """The file to be, open. Raises `UsageError` where it cannot be written, or holds what is no page."""
    try:
        check_replaceable(path)
        with whole(path) as temporary, temporary.open("wb") as file:
            yield file
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file") from None
