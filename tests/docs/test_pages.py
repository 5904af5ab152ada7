"""What the README, CONCEPTS and CONTRIBUTING name is there, and what there is they name."""

import ast
import re
from pathlib import Path
from typing import get_args

from rsso_dspy import calls
from rsso_dspy.config import ProtocolConfig, Role
from rsso_dspy.programs.methods import MEMORIES, METHODS, ROLE_OF, Scaffold, Writing
from rsso_dspy.protocol import PRESETS
from rsso_dspy.records import ZERO_SHOT, Category, Outcome, Split
from rsso_dspy.regions import REGIONS
from rsso_dspy.store import run_folder, unit_log
from tests.docs.blocks import blocks, page, section

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "rsso_dspy"
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
CONCEPTS = page("CONCEPTS.md")
TREES = [ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")]
TWELVE = (
    *("Variant", "Trial", "Memory", "Region", "Method", "Agent", "Benchmark", "Protocol", "Unit and Run", "Backend"),
    *("Compile", "Comparison"),
)


# Concepts


def test_there_are_twelve_words_and_a_walk():
    assert tuple(re.findall(r"^## (.+)$", CONCEPTS, re.M)) == (*TWELVE, "A walk")


def test_every_value_that_records_hold_is_explained():
    setting = ProtocolConfig.model_fields["setting"].annotation
    values = {
        value for kind in (Outcome, Split, Scaffold, Writing, Category, Role, setting) for value in get_args(kind)
    }
    names = values | {*MEMORIES, ZERO_SHOT, *PRESETS, *METHODS, *ROLE_OF, *REGIONS}
    assert not {name for name in names if f"`{name}`" not in CONCEPTS}


def test_every_file_of_a_run_and_every_kind_of_line_is_explained():
    """Names as the store's own summaries have them; the page's example is a log that can be read."""
    names = re.findall(r"^    DIR/(\S+)", run_folder.__doc__ or "", re.M)
    kinds = re.findall(r'^    \{"(\w+)"', f"{calls.__doc__}\n{unit_log.__doc__}", re.M)
    assert len(names) == 3
    assert {"text", "call", "read", "unit", "trial", "void"} <= set(kinds)
    assert not [name for name in names + kinds if f"`{name}`" not in CONCEPTS]
    (example,) = [block.text for block in blocks(CONCEPTS) if block.language == "json"]
    log = unit_log.UnitLog(example.encode(), whole=True)
    (call,) = map(log.decode, log.by_number.values())
    assert call.request["messages"][1]["content"] == "Boil water.\nYou are in the kitchen."
    assert (call.text, call.failed) == ("open the stove", [("LMRateLimitError", [])])
    assert set(log.seconds) == {1}


def test_the_walk_passes_functions_and_classes_that_are_there():
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = {node.name for tree in TREES for node in ast.walk(tree) if isinstance(node, kinds)}
    walk = section("CONCEPTS.md", "A walk").partition("\n1. ")[2]
    named = [name for name in re.findall(r"`([\w/]+(?:\.\w+)?)`", walk) if not (PACKAGE / name).is_file()]
    passed = {part for name in named for part in name.split(".")}
    assert passed - defined == {"rsso", "toml"}, "rsso.toml alone is a file"


# Contributing


def test_every_room_is_named():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    (told,) = re.findall(r"- \*\*Rooms\*\*(.*?)\n- ", CONTRIBUTING, re.S)
    assert rooms == set(re.findall(r"`(\w+)`", told))


# README


def test_the_python_example_runs_as_printed(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README, re.S)
    assert len([line for line in code.splitlines() if line.strip()]) == 10
    exec(code, {})
    result, points, outcome, *verdicts = capsys.readouterr().out.splitlines()
    assert all(re.match(r"(confirmed|unconfirmed|not better): ", line) for line in verdicts)
    assert len(verdicts) == 2, "one that compile prints, and one that the example prints"
    (shown,) = re.findall(r"print\(result\)  # (AgentPrediction\(.*) \.\.\.\)", code)
    assert result.startswith(shown)
    assert (tmp_path / "compiled.json").exists()
    assert 0 <= int(points) <= 100
    assert outcome in {"solved", "failed", "budget"}


def test_it_is_short():
    assert len(README.split()) <= 700
