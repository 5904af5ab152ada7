"""The site: built without a complaint, whole, and content with what it has on the disk."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "form": "action"}
"""Elements that a browser follows without being asked to."""


class Loads(HTMLParser):
    """Addresses that a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADED.get(tag, ""))
        if address:
            self.addresses.append(address)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site):
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in site.glob("*.html")}


def test_nothing_is_asked_of_another_host(site):
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert loads.addresses
        for address in loads.addresses:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} loads {address}"
            file = re.split(r"[?#]", address)[0]
            there = (
                site / file[1:] if file.startswith("/") else page.parent / file
            )  # 404 pages name things from the root
            assert there.exists(), f"{page.name}: {address}"
    for sheet in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", sheet.read_text(encoding="utf-8"), flags=re.S)
        assert not re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", text), sheet


def test_source_files_come_along(site):
    agent = (ROOT / "rsso_dspy/programs/agent.py").read_text(encoding="utf-8")
    assert (site / "source/rsso_dspy/programs/agent.py.txt").read_text(encoding="utf-8") == agent
    assert 'href="source/rsso_dspy/programs/agent.py.txt"' in (site / "PROGRAMS.html").read_text(encoding="utf-8")


def test_a_dead_link_is_refused(tmp_path):
    (tmp_path / "docs").mkdir()
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (tmp_path / "mkdocs.yml").write_text(re.sub(r"^nav:.*?\n\n", "", text, flags=re.S | re.M))
    (tmp_path / "docs/site_hooks.py").write_text((ROOT / "docs/site_hooks.py").read_text())
    (tmp_path / "docs/site.css").touch()
    (tmp_path / "docs/index.md").write_text("# One\n\n[source](../rsso_dspy/nowhere.py)\n")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "nowhere.py" in done.stdout + done.stderr
