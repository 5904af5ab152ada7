"""Every link of the README, of the pages beside it and of those in docs/ leads to a file of the repository, and to a
heading that is there. What is elsewhere is not asked for."""

import re
from functools import cache
from pathlib import Path

import markdown
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)


def links(page: Path) -> list[str]:
    """Targets of a page's links, without those in code."""
    return LINK.findall(FENCE.sub("``", page.read_text(encoding="utf-8")))


@cache
def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as the site makes them."""
    html = markdown.markdown(page.read_text(encoding="utf-8"), extensions=["toc", "fenced_code", "tables"])
    return set(re.findall(r'<h\d id="([^"]+)"', html))


def fault(page: Path, target: str) -> str:
    """What is wrong with a link; nothing when it leads somewhere."""
    if re.match(r"(https?|mailto):", target):
        return ""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return "no such file"
    if not file.is_relative_to(ROOT):
        return "outside of the repository"
    if file.is_dir():
        return "a folder: name a file"
    return "no such heading" if anchor and anchor not in anchors(file) else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    assert not {target: why for target in links(page) if (why := fault(page, target))}


def test_every_page_can_be_reached_from_the_first():
    reached, ahead = set(), [ROOT / "docs/index.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        targets = [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
        ahead += [file for file in targets if file in PAGES and file not in reached]
    assert not {page for page in PAGES if page.parent.name == "docs"} - reached


def test_links_are_found_and_code_is_left_alone(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[one](A.md) `[code](B.md)` and [two](C.md#d)\n\n```\n[more](D.md)\n```\n[`three`](e.py)\n")
    assert links(page) == ["A.md", "C.md#d", "e.py"]
    assert len(links(ROOT / "docs/index.md")) > 20


def test_a_dead_link_is_found(tmp_path):
    page = ROOT / "docs" / "index.md"
    assert fault(page, "NOWHERE.md") == "no such file"
    assert fault(page, "COMPILING.md#nowhere") == "no such heading"
    assert fault(page, "../rsso_dspy") == "a folder: name a file"
    assert fault(page, str(tmp_path)) == "outside of the repository"
