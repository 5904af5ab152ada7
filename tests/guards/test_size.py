"""How large the package is, in nodes of its syntax trees: what cannot be saved by writing it on one line."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "rsso_dspy"

NODES = 324_700
"""The size when it was last looked at. It is set anew with a feature that is worth its size, and the commit says so."""

SLACK = 0.03
"""How far the size may be from it, as a share: small changes need no new number."""


def count_nodes(folder: Path) -> int:
    total = 0
    for file in sorted(folder.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        total += sum(1 for _ in ast.walk(tree))
    return total


def test_the_size_of_the_package_is_known():
    nodes = count_nodes(PACKAGE)

    assert abs(nodes - NODES) <= SLACK * NODES, f"the package has {nodes:,} nodes: look at what grew, then set NODES"
