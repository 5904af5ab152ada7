"""What is listed in the documentation is what there is: verbs, options, configuration."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from rsso_dspy.cli.app import app
from rsso_dspy.config import PROFILES, render_config_template
from tests.docs.blocks import blocks
from tests.docs.blocks import page as docs_page

FILE = Path(__file__).parents[2] / "docs/CLI.md"
SOURCES = {"0.": 56, "2.": 60, "3.": 36, "4.": 27, "C": 12}
"""How many rows a source has, by what their names begin with."""

MAKE = ("typer", "rsso_dspy.cli.app", "utils", "docs", "--name", "rsso-dspy", "--title", "Command line", "--output")


@pytest.mark.parametrize("terminal", [{"COLUMNS": "40", "NO_COLOR": "1"}, {"COLUMNS": "300", "FORCE_COLOR": "1"}])
def test_the_page_is_up_to_date_whatever_the_terminal_and_the_place(terminal, tmp_path):
    paths = os.pathsep.join([str(FILE.parents[1]), *sys.path])
    env = {**os.environ, **terminal, "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-m", *MAKE, "page.md"], cwd=tmp_path, env=env, capture_output=True, check=True)
    made = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == made, "docs/CLI.md is out of date; `make docs` makes it anew"


def test_the_configuration_is_what_the_program_writes():
    """Its tables of backends differ by their values alone, which stand in a table of the page."""
    page = docs_page("CONFIG.md")
    (shown,) = [block.text for block in blocks(page) if block.language == "toml"]
    written = render_config_template().partition("\n[backends.anthropic]\n")[0]
    assert shown == written, "put what `rsso-dspy config init FILE` writes into docs/CONFIG.md"
    rows = dict(re.findall(r"^\| `(\w+)` (\| `\w+/.*)$", page, re.M))
    assert rows.keys() == PROFILES.keys()
    assert not [(name, key) for name in rows for key, value in PROFILES[name].items() if f"`{value}`" not in rows[name]]


def typed() -> list[tuple[str, str]]:
    """Page and command: the demo's, and all that stand in blocks or, from the program's name on, in a line."""
    makefile = (FILE.parents[1] / "Makefile").read_text(encoding="utf-8").replace("\\\n", "")
    values = dict(re.findall(r"^(\w+) +:= (.*)$", makefile, re.M))
    lines = re.findall(r"^\t\$\(RSSO\) (.*?)(?: > .*)?$", makefile, re.M)
    assert len(lines) == 3
    known = [re.sub(r"\$\((\w+)\)", lambda name: values.get(name[1], "2"), line) for line in lines]
    found = [("Makefile", f"rsso-dspy {line}") for line in known]
    for file in (FILE.parents[1] / "README.md", *sorted(FILE.parent.glob("*.md"))):
        if file != FILE:
            text = file.read_text(encoding="utf-8")
            lines = [
                line.removeprefix("$ ")
                for block in blocks(text)
                for line in block.text.replace("\\\n", "").splitlines()
            ]
            lines += re.findall(r"`(rsso-dspy [^`]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))
            found += [(file.name, line.partition(" #")[0]) for line in lines if line.startswith("rsso-dspy ")]
    return found


def misspelled(line: str) -> str:
    """The first word of a command that the program does not know; empty when it knows all."""
    _, *words = shlex.split(line)
    verb = typer.main.get_command(app)
    while words and hasattr(verb, "commands") and not words[0].startswith("-"):
        if words[0] not in verb.commands:
            return "" if words[0] == "VERB" else words[0]
        verb = verb.commands[words.pop(0)]
    known = {spelling for option in verb.params for spelling in (*option.opts, *option.secondary_opts)} | {"--help"}
    given = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    return next((word for word in given if word not in known), "")


def test_every_command_of_every_page_is_spelled_as_the_program_spells_it():
    assert len(typed()) > 40
    assert not [(page, line, wrong) for page, line in typed() if (wrong := misspelled(line))]
    assert misspelled("rsso-dspy run --method rsso") == "--method"
    assert misspelled("rsso-dspy constitution biuld") == "biuld"


def is_there(shown: str) -> bool:
    """Whether a test, named by its file and its function, is there."""
    path, _, name = shown.partition("::")
    file = FILE.parents[1] / path
    return file.is_file() and f"\ndef {name}(" in file.read_text(encoding="utf-8")


def test_every_row_of_the_sources_stands_once_and_names_what_shows_it():
    table = docs_page("FIDELITY.md").partition("\n## The sources, row by row\n")[2]
    rows = re.findall(r"^\| (C?[\d.]+) \|(?: [^|]+ \|){3} `([^`|]+)` \|$", table, re.M)
    assert [row for row, _ in rows] == [
        f"{name}{number}" for name, count in SOURCES.items() for number in range(1, count + 1)
    ]
    assert not [(row, shown) for row, shown in rows if not is_there(shown)]
    assert not is_there("tests/docs/test_reference.py::test_that_is_not_there")
    assert not is_there("tests/docs/test_reference.py")
