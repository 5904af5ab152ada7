"""SVG fit for a page that allows no inline style and no script.

    inline_svg(figure_svg, prefix="curves")        # the same picture, in presentation attributes, ids of its own

Matplotlib writes ``style="fill: none"`` on every shape, which such a page's browser would ignore; here it becomes
``fill="none"``. What is no drawing (scripts, links elsewhere, handlers, metadata) is left out.
"""

import re
from xml.etree import ElementTree as ET

from rsso_dspy.report.terminal import replace_controls

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

_SHAPES = ("path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan", "use", "image")
_FRAMES = ("svg", "g", "defs", "symbol", "title", "desc")
_PAINTS = ("clipPath", "mask", "marker", "pattern", "linearGradient", "radialGradient", "stop")
_ELEMENTS = frozenset((*_SHAPES, *_FRAMES, *_PAINTS))

_FONT = re.compile(
    r"(?:(?P<style>italic|oblique|normal)\s+)?(?:(?P<weight>bold|normal|\d{3})\s+)?"
    r"(?P<size>[\d.]+(?:px|pt)?)(?:/\S+)?\s+(?P<family>.+)"
)
"""The shorthand ``font: bold 10px 'DejaVu Sans', sans-serif``, which is no presentation attribute."""

_POINT = 4 / 3
"""Pixels of a point."""


def inline_svg(svg: str, prefix: str) -> str:
    """The picture as one ``<svg>`` element with a width in pixels, all ids under ``prefix``. Raises `ValueError` when
    the text is no SVG."""
    try:
        root = ET.fromstring(replace_controls(svg))
    except ET.ParseError as error:
        raise ValueError(f"the drawing {prefix} is no SVG ({error})") from None
    if root.tag != f"{{{SVG}}}svg":
        raise ValueError(f"the drawing {prefix} is no SVG (its root is {root.tag})")
    _clean_element(root, prefix)
    _set_svg_width(root)
    root.set("aria-hidden", "true")
    root.set("focusable", "false")
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    return ET.tostring(root, encoding="unicode")


def _clean_element(element: ET.Element, prefix: str) -> None:
    for name, value in list(element.attrib.items()):
        _rewrite_attribute(element, name, value, prefix)
    for child in list(element):
        if _get_local_name(child.tag) in _ELEMENTS:
            _clean_element(child, prefix)
        else:
            element.remove(child)


def _rewrite_attribute(element: ET.Element, name: str, value: str, prefix: str) -> None:
    del element.attrib[name]
    local = _get_local_name(name)
    if local == "style":
        for part in value.split(";"):
            key, _, said = part.partition(":")
            _apply_declaration(element, key.strip().lower(), said.strip(), prefix)
    elif local == "href":
        if value.startswith("#"):
            element.set("href", f"#{prefix}-{value[1:]}")
        elif value.startswith("data:image/png;base64,"):
            element.set("href", value)
    elif local == "id":
        element.set("id", f"{prefix}-{value}")
    elif not local.lower().startswith("on") and not name.startswith("{"):
        element.set(name, _rewrite_references(value, prefix))


def _apply_declaration(element: ET.Element, name: str, value: str, prefix: str) -> None:
    """One declaration of an inline style, as attributes."""
    if name == "font" and (font := _FONT.fullmatch(value)):
        for part, said in font.groupdict().items():
            if said:
                element.set(f"font-{part}", said)
    elif re.fullmatch(r"[a-z-]+", name) and value:
        element.set(name, _rewrite_references(value, prefix))


def _rewrite_references(value: str, prefix: str) -> str:
    """``url(#id)`` by the new id; any other address is dropped."""
    return re.sub(r"url\(\s*(?:#([^)]*)|[^)]*)\)", lambda at: f"url(#{prefix}-{at[1]})" if at[1] else "none", value)


def _set_svg_width(root: ET.Element) -> None:
    """A width in pixels and no height, so that the picture shrinks with the page."""
    width = re.fullmatch(r"([\d.]+)(pt|px)?", root.get("width", ""))
    if width and not root.get("viewBox"):
        root.set("viewBox", f"0 0 {width[1]} {root.get('height', '0').rstrip('ptx')}")
    box = (root.get("viewBox") or "").split()
    wide = float(width[1]) if width else float(box[2]) if len(box) == 4 else 640.0
    root.set("width", f"{wide * (_POINT if width and width[2] == 'pt' else 1):.0f}")
    root.attrib.pop("height", None)


def _get_local_name(name: object) -> str:
    return str(name).rpartition("}")[2]
