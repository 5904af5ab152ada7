"""The walk through the house goes where it says: the files are there, and what is named behind each is in it."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import page

ROOT = Path(__file__).parents[2]
STOPS = re.findall(r"\]\(\.\./(rsso_dspy/[^)]+)\)((?:\s+`\w+`)+)", page("WALK.md"))


@pytest.mark.parametrize(("file", "names"), STOPS, ids=[file.removeprefix("rsso_dspy/") for file, _ in STOPS])
def test_what_it_passes_is_there(file, names):
    text = (ROOT / file).read_text(encoding="utf-8")
    for name in re.findall(r"\w+", names):
        assert re.search(rf"^\s*(def|class) {name}\b|^\s*{name} = |^\s*self\.{name} = ", text, re.M), f"{file}: {name}"


def test_it_passes_every_room():
    rooms = {path.name for path in (ROOT / "rsso_dspy").iterdir() if (path / "__init__.py").exists()}
    assert rooms == {file.split("/")[1] for file, _ in STOPS if file.count("/") > 1}
