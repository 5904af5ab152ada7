"""Figures as files, and as SVG for a page."""

import re
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rsso_dspy.errors import UsageError
from rsso_dspy.files import FileKind, atomic_path, make_marked_kind
from rsso_dspy.report.figures.canvas import use_figure_style
from rsso_dspy.report.figures.style import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".pdf", ".png")

WRITER = "rsso-dspy"
"""Creator named in a figure's file."""

_MARKED = make_marked_kind("figure", b"<dc:title>%s<" % WRITER.encode(), b"Software\0%s" % WRITER.encode())
_PDF_MARK = b"/Creator (%s)" % WRITER.encode()


def _is_picture(path: Path) -> bool:
    if path.suffix.lower() != ".pdf":
        return _MARKED.holds(path)
    with path.open("rb") as file:
        return _PDF_MARK in file.read(MOST_READ)


PICTURE = FileKind("figure", _is_picture)

MOST_READ = 1 << 24
"""Bytes of a PDF that are searched for its mark, which stands at its end."""

_METADATA: dict[str, dict[str, Any]] = {
    ".svg": {"Date": None, "Creator": WRITER},
    ".pdf": {"CreationDate": None, "Creator": WRITER},
    ".png": {"Software": WRITER},
}

DOTS = 150
"""Per inch, of a PNG."""

_SIZE = re.compile(r'\b(?:width|height|viewBox)="[^"]*"')
_DROPPED = re.compile(r"<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>|<defs>\s*</defs>", re.DOTALL)
_NAMES = re.compile(r'(\bid="|href="#|url\(#)')
_BETWEEN = re.compile(r"\s*\n\s*")


def save_figure(figure: "Figure", path: Path) -> None:
    """Write a figure as SVG, PDF or PNG, by suffix, atomically; letters stay text in SVG and PDF. Raises `UsageError`
    for another suffix."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise UsageError(f"{path} is neither .svg, .pdf nor .png, the forms that figures are written in")
    made = _METADATA[ending]
    with use_figure_style(), atomic_path(path) as temporary:
        import matplotlib

        text: Any = {"svg.fonttype": "none", "pdf.fonttype": 42}
        matplotlib.rcParams.update(text)
        figure.savefig(temporary, format=ending[1:], dpi=DOTS, metadata=made)


def render_figure_svg(figure: "Figure", name: str, themed: bool = False) -> str:
    """Render a figure as an SVG element for an HTML page; the same figure gives the same bytes.

    Ids begin with `name`, so that a page can hold several. `themed`: use the page's background and text colour. Letters
    are shapes, so the page needs `Picture.alt` beside it.
    """
    text = StringIO()
    made = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with use_figure_style():
        figure.savefig(text, format="svg", metadata=made, transparent=themed)
    drawn = text.getvalue()
    prefix = re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-") or "figure"
    drawn = _NAMES.sub(rf"\g<1>{prefix}-", _DROPPED.sub("", drawn[drawn.index("<svg ") :]))
    old = drawn[: drawn.index(">") + 1]
    # matplotlib says how strokes meet in a style sheet, which would hold for the whole page
    opening = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'{" ".join(_SIZE.findall(old))} stroke-linejoin="round" stroke-linecap="butt">'
    )
    drawn = _BETWEEN.sub("\n", opening + drawn[len(old) :]).strip() + "\n"
    return drawn.replace(INK, "currentColor") if themed else drawn
