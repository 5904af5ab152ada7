"""Every link of the README, of the pages beside it and of those in docs/ leads to a file of the repository, and to a
heading that is there. What is elsewhere is not asked for. The site is built without a complaint, whole, and content
with what it has on the disk."""

import re
import subprocess
import sys
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
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        page = ahead.pop()
        reached.add(page)
        targets = [(page.parent / target.partition("#")[0]).resolve() for target in links(page)]
        ahead += [file for file in targets if file in PAGES and file not in reached]
    assert not {page for page in PAGES if page.parent.name == "docs"} - reached


def test_the_site_is_built_without_a_complaint_and_asks_nothing_of_another_host(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in tmp_path.rglob("*.html"):
        loads = re.findall(
            r'<(?:link|script|img|iframe|source|form)\b[^>]*?\b(?:href|src|action)="([^"]+)"', page.read_text()
        )
        assert loads
        for address in loads:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} loads {address}"
            file = re.split(r"[?#]", address)[0]  # 404 pages name things from the root
            assert (tmp_path / file[1:] if file.startswith("/") else page.parent / file).exists(), (
                f"{page.name}: {address}"
            )
    for sheet in tmp_path.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.S)
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", text), sheet
