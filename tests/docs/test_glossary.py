"""The glossary knows every name that records and rooms have, and code keeps to its words."""

import ast
import re
from pathlib import Path
from typing import get_args

from rsso_dspy.config import ProtocolConfig, Role
from rsso_dspy.programs.methods import MEMORIES, Scaffold, Writing
from rsso_dspy.records import ZERO_SHOT, Category, Outcome, Split
from tests.docs.blocks import page

PACKAGE = Path(__file__).parents[2] / "rsso_dspy"
PAGE = page("GLOSSARY.md")
ROWS = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\|.*\|$", PAGE, re.M)]
EVERYWHERE = re.search(r"^Everywhere: no (.*?)\.", PAGE, re.M)


def denied() -> set[str]:
    """Words that no function is named with."""
    assert EVERYWHERE
    cells = [row[2] for row in ROWS if len(row) == 3] + [EVERYWHERE[1]]
    return {word for cell in cells for word in re.findall(r"[a-z]+", cell)} - {"not"}


def functions() -> list[str]:
    """Names of all functions and methods but Python's own."""
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")]
    found = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [name for name in found if not name.startswith("__")]


def misnamed(names: list[str], words: set[str]) -> list[str]:
    """Names of which a word, or its plural, is denied."""
    worded = words | {f"{word}s" for word in words}
    return [name for name in names if worded & set(name.lower().split("_"))]


def test_every_value_that_records_hold_is_in_it():
    setting = ProtocolConfig.model_fields["setting"].annotation
    values = {
        value for kind in (Outcome, Split, Scaffold, Writing, Category, Role, setting) for value in get_args(kind)
    }
    assert not {name for name in values | set(MEMORIES) | {ZERO_SHOT} if f"`{name}`" not in PAGE}


def test_every_room_and_every_file_beside_them_is_in_it():
    rooms = {path.stem for path in PACKAGE.iterdir() if path.is_dir() or path.suffix == ".py"}
    names = {name for name in rooms if not name.startswith("__")}
    assert names == {row[0].strip("`") for row in ROWS if len(row) == 2} - {"name", "---"}


def test_every_word_is_told_once():
    words = [row[0].strip("`") for row in ROWS if len(row) == 3 and row[0] not in ("word", "---")]
    assert len(words) > 50
    assert sorted(set(words)) == sorted(words)
    assert not set(words) & denied()


def test_no_function_is_named_with_a_word_that_is_gone():
    names = functions()
    print(f"\nnames of one word: {sum('_' not in name.strip('_') for name in names) / len(names):.0%} of {len(names)}")
    assert len(denied()) > 30
    assert misnamed(["play_turn", "hints", "play"], {"turn", "hint"}) == ["play_turn", "hints"]
    assert not misnamed(names, denied())
